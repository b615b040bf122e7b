package reports

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Layout knows where the files of a run lie. Folder and file names are the
// official ones wherever those are safe, so that tools written for the
// official harness find what they look for:
//
//	<Root>/logs/run_evaluation/<run>/run.json
//	<Root>/logs/run_evaluation/<run>/<model>/<instance>/{patch.diff,…}
//	<ReportDir>/<model>.<run>.json
//
// Of several attempts at each instance the first lies there, and the n-th in a run's
// folder of its own in the folder of the run, <run>/attempt-<n>, with summaries
// <model>.<run>.attempt-<n>.json.
//
// A name that is not safe as a file name (see component) keeps a readable part
// and gets a hash. Names that the official mapping would put on the same path,
// or that differ only in case, are kept apart by WithNames.
//
// One official ambiguity stays: model "a.b" of run "c" and model "a" of run
// "b.c" share the name of their summary file.
type Layout struct {
	Root      string // folder that holds logs/; "" is the current one
	ReportDir string // folder of the run summaries; "" is Root

	attempt int // which of several, see Attempt

	runDir string            // folder of the one run, wherever it lies; see LayoutOf
	models map[string]string // models whose plain component another model has
	ids    map[string]string // the same for instances
}

// InstanceFiles are the paths of one attempt.
type InstanceFiles struct {
	Dir        string
	Patch      string // patch.diff: the model's patch as given
	EvalScript string // eval.sh: the script run
	TestOutput string // test_output.txt: what it printed
	Log        string // run_instance.log: what evalrun did
	Report     string // report.json: official, only where grading was reached
	Attempt    string // attempt.json: ours, always
}

const (
	logsDir  = "logs/run_evaluation"
	runFile  = "run.json"
	hashMark = "~" // no plain component ends with this and hashLen hex digits
	hashLen  = 16

	journalFile   = "journal.jsonl"
	attemptPrefix = "attempt-"

	// maxComponent leaves room for <model>.<run>.json and for the suffix of a
	// temporary file in the 255 bytes that file systems allow.
	maxComponent = 110
)

// WithNames returns a Layout that keeps all these models and instances apart,
// on file systems that ignore case too. Of several names for one path the first
// in byte order keeps it; the others get a hash. Give it all names of the
// dataset, not of a selection, so that a name has the same path in every call.
func (l Layout) WithNames(models, instances []string) Layout {
	l.models = clashes(models, modelComponent)
	l.ids = clashes(instances, component)
	return l
}

// LayoutOf is the Layout of the one run whose folder is dir, also where it was
// moved away from logs/run_evaluation. The folder may be that of one attempt in it.
func LayoutOf(dir string) Layout {
	if abs, err := filepath.Abs(dir); err == nil {
		if n, ok := attemptOf(filepath.Base(abs)); ok {
			return Layout{runDir: filepath.Dir(abs), attempt: n}
		}
	}
	return Layout{runDir: dir}
}

// attemptOf reads the number in the name of an attempt's folder.
func attemptOf(name string) (n int, ok bool) {
	digits, ok := strings.CutPrefix(name, attemptPrefix)
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n > 1
}

// Number is which of several attempts the Layout is of, from 1.
func (l Layout) Number() int { return max(1, l.attempt) }

// Attempt is the Layout of the n-th of several attempts at each instance.
func (l Layout) Attempt(n int) Layout {
	l.attempt = n
	return l
}

// RunDir is the folder of a run, or in it that of one attempt.
func (l Layout) RunDir(run string) string {
	dir := l.runDir
	if dir == "" {
		dir = filepath.Join(l.Root, filepath.FromSlash(logsDir), component(run))
	}
	return filepath.Join(dir, l.attemptName())
}

// attemptName is "" for the first.
func (l Layout) attemptName() string {
	if l.attempt <= 1 {
		return ""
	}
	return attemptPrefix + strconv.Itoa(l.attempt)
}

// JournalFile is the path of a run's journal, which all its attempts share.
func (l Layout) JournalFile(run string) string {
	return filepath.Join(l.Attempt(1).RunDir(run), journalFile)
}

// RunFile is the path of run.json.
func (l Layout) RunFile(run string) string { return filepath.Join(l.RunDir(run), runFile) }

// ModelDir is the folder of one model's attempts.
func (l Layout) ModelDir(run, model string) string {
	return filepath.Join(l.RunDir(run), l.modelName(model))
}

// Instance gives the paths of one attempt.
func (l Layout) Instance(run, model, instance string) InstanceFiles {
	name, ok := l.ids[instance]
	if !ok {
		name = component(instance)
	}
	return filesIn(filepath.Join(l.ModelDir(run, model), name))
}

// SummaryFile is the path of the official run summary.
func (l Layout) SummaryFile(run, model string) string {
	dir := l.ReportDir
	if dir == "" {
		dir = l.Root
	}
	name := l.modelName(model) + "." + component(run)
	if n := l.attemptName(); n != "" {
		name += "." + n
	}
	return filepath.Join(dir, name+".json")
}

func (l Layout) modelName(model string) string {
	if name, ok := l.models[model]; ok {
		return name
	}
	return modelComponent(model)
}

func filesIn(dir string) InstanceFiles {
	in := func(name string) string { return filepath.Join(dir, name) }
	return InstanceFiles{
		Dir:        dir,
		Patch:      in("patch.diff"),
		EvalScript: in("eval.sh"),
		TestOutput: in("test_output.txt"),
		Log:        in("run_instance.log"),
		Report:     in("report.json"),
		Attempt:    in("attempt.json"),
	}
}

// modelComponent applies the official mapping of model names. The hash is of
// the name before the mapping.
func modelComponent(model string) string {
	if mapped := strings.ReplaceAll(model, "/", "__"); safe(mapped) {
		return mapped
	}
	return hashed(model)
}

// component is the path component of a name: the name itself if it is safe,
// else its readable part with a hash of the whole.
func component(name string) string {
	if safe(name) {
		return name
	}
	return hashed(name)
}

// hashed is the readable part of a name and a hash of all of it.
func hashed(name string) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(name, "/", "__") {
		if !safeRune(r) || (b.Len() == 0 && strings.ContainsRune(".- ", r)) {
			r = '_'
		}
		if b.Len()+utf8.RuneLen(r) > maxComponent-len(hashMark)-hashLen {
			break
		}
		b.WriteRune(r)
	}
	sum := sha256.Sum256([]byte(name))
	return b.String() + hashMark + hex.EncodeToString(sum[:])[:hashLen]
}

// safe reports whether a name can be a path component as it is, anywhere: it
// is short, visible, starts and ends harmlessly and cannot be taken for a
// hashed name or for a file of ours.
func safe(name string) bool {
	if name == "" || len(name) > maxComponent || !utf8.ValidString(name) {
		return false
	}
	if strings.ContainsRune(".- ", rune(name[0])) || strings.ContainsRune(". ", rune(name[len(name)-1])) {
		return false
	}
	if looksHashed(name) || reserved(name) {
		return false
	}
	for _, r := range name {
		if !safeRune(r) {
			return false
		}
	}
	return true
}

// safeRune refuses what cannot be seen, what a path or a shell pattern gives a
// meaning, and combining marks, which some file systems rewrite.
func safeRune(r rune) bool {
	return r != utf8.RuneError && unicode.IsPrint(r) && !unicode.Is(unicode.M, r) &&
		!strings.ContainsRune(`/\<>"|?*`, r)
}

func reserved(name string) bool {
	name = strings.ToLower(name)
	n, isAttempt := strings.CutPrefix(name, attemptPrefix)
	if isAttempt && n != "" && strings.Trim(n, "0123456789") == "" {
		return true
	}
	return name == runFile || name == journalFile || name == "statement.json" || name == "sha256sums" || name == "evalrun.log" || strings.HasPrefix(name, ".")
}

func looksHashed(name string) bool {
	at := len(name) - hashLen - len(hashMark)
	if at < 0 || name[at:at+len(hashMark)] != hashMark {
		return false
	}
	return strings.Trim(strings.ToLower(name[at+len(hashMark):]), "0123456789abcdef") == ""
}

// clashes maps to a hashed component every name whose plain one is taken by an
// earlier name in byte order, case aside.
func clashes(names []string, plain func(string) string) map[string]string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	out := map[string]string{}
	taken := map[string]bool{}
	for _, name := range slices.Compact(sorted) {
		key := foldCase(plain(name))
		if taken[key] {
			out[name] = hashed(name)
			continue
		}
		taken[key] = true
	}
	return out
}

// foldCase maps all spellings that differ only in case to one.
func foldCase(s string) string {
	return strings.Map(func(r rune) rune {
		low := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			low = min(low, f)
		}
		return low
	}, s)
}
