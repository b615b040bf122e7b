package patch

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

//go:embed scripts/tasks.sh
var tasksScript string

//go:embed scripts/apply.sh
var applyScript string

//go:embed scripts/restore.sh
var restoreScript string

//go:embed scripts/snapshot.sh
var snapshotScript string

//go:embed scripts/tracked.sh
var trackedScript string

// Attempts returns the commands that are tried in order on each variant; each
// gets the patch's file as one more argument. They are the official harness's,
// and patch is told two things besides: to read unified diffs only, so that no
// text around one is taken for an ed script, and to leave no backups.
//
// git apply --reject counts when nothing was rejected, and patch never applies a
// patch in reverse.
func Attempts() [][]string {
	return [][]string{
		{"git", "apply", "--verbose"},
		{"git", "apply", "--verbose", "--3way"},
		{"git", "apply", "--verbose", "--reject"},
		{"patch", "--batch", "--forward", "--fuzz=5", "-p1", "--unified", "--no-backup-if-mismatch", "-i"},
	}
}

// AlreadyApplied stands for the command when none applied the patch, but its
// reverse would apply: it is there already, for the official harness too.
const AlreadyApplied = "already applied"

// reverseCheck follows the attempts.
const reverseCheck = "git apply --check --reverse"

func commandName(n int) (string, bool) {
	all := Attempts()
	switch {
	case n >= 1 && n <= len(all):
		return strings.Join(all[n-1], " "), true
	case n == len(all)+1:
		return reverseCheck, true
	}
	return "", false
}

// ApplyTask returns a task that applies the patch. files are where the texts of p.Variants have been put, in their order. The
// task keeps what the commands might change, tries them on
// each variant, restores the kept state exactly after each that fails, and stops
// at the first that succeeds. Uncommitted changes, untracked files and the index
// stay as they are, but for an untracked file standing where the patch makes one.
//
// nonce must be unguessable: it marks the lines ParseResult reads.
func (p *Prepared) ApplyTask(nonce string, files []string) (string, error) {
	if len(p.Unsafe) > 0 {
		return "", &UnsafeError{Problems: p.Unsafe}
	}
	if len(files) != len(p.Variants) {
		return "", fmt.Errorf("apply task: %d files for %d variants of the patch", len(files), len(p.Variants))
	}
	head, err := taskHead(nonce, p.watch, p.created)
	if err != nil {
		return "", fmt.Errorf("apply task: %w", err)
	}
	return head + begin(files) + applyScript, nil
}

// Restore is what RestoreTask needs.
type Restore struct {
	Base      string   // commit the files come from
	Nonce     string   // as for ApplyTask
	Paths     []string // files to bring back, or to delete where Base has none; all that TestPatch touches must be among them
	TestPatch string   // file with the patch to apply afterwards; "" for none
	// Trusted says that nothing of the model has run in the checkout yet, so that
	// its objects need not be looked at again.
	Trusted bool
}

// RestoreTask returns a task that brings each path to what it is in the base
// commit, on its own, so that one unknown path does not keep the others as they
// are, and then applies the test patch with the same commands as a model's patch.
// Nothing that stands where a path or one of its folders belongs survives: links
// and folders planted there are removed, never followed.
func RestoreTask(r Restore) (string, error) {
	for _, name := range r.Paths {
		if why := pathReason(name); why != "" {
			return "", fmt.Errorf("restore task: %q: %s", name, why)
		}
	}
	if !commitName.MatchString(r.Base) {
		return "", fmt.Errorf("restore task: %q is not a commit", r.Base)
	}
	head, err := taskHead(r.Nonce, r.Paths, nil)
	if err != nil {
		return "", fmt.Errorf("restore task: %w", err)
	}
	var files []string
	if r.TestPatch != "" {
		files = []string{r.TestPatch}
	}
	trusted := ""
	if r.Trusted {
		trusted = "yes"
	}
	return head + "base=" + quote(r.Base) + "\ntrusted=" + trusted + "\n" + begin(files) + restoreScript, nil
}

// SnapshotTask returns a task that names the tracked files as they are now (Result.Tree). With the tree of an earlier call it says
// which have changed since (Result.Changed, at most 1000). Untracked files are
// not looked at.
func SnapshotTask(nonce, before string) (string, error) {
	if before != "" && !treeName.MatchString(before) {
		return "", fmt.Errorf("snapshot task: %q is not a tree", before)
	}
	head, err := taskHead(nonce, nil, nil)
	if err != nil {
		return "", fmt.Errorf("snapshot task: %w", err)
	}
	return head + "before=" + before + "\n" + begin(nil) + snapshotScript, nil
}

// TrackedTask returns a task that names the tracked files among the paths, and those in
// folders that are (Result.Tracked, at most 1000).
func TrackedTask(nonce string, paths []string) (string, error) {
	if len(paths) == 0 {
		return "", errors.New("tracked task: no path")
	}
	for _, name := range paths {
		if name == "" || strings.ContainsAny(name, "\n\x00") {
			return "", fmt.Errorf("tracked task: %q is no name of one line", name)
		}
	}
	head, err := taskHead(nonce, paths, nil)
	if err != nil {
		return "", fmt.Errorf("tracked task: %w", err)
	}
	return head + begin(nil) + trackedScript, nil
}

var (
	treeName   = regexp.MustCompile(`^[0-9a-f]{40,64}$`)
	commitName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._/~^-]*$`)
	nonceForm  = regexp.MustCompile(`^[0-9A-Za-z_-]{8,128}$`)
)

// Tasks returns the script that runs tasks in the checkout at root, one after the
// other, each whatever became of those before it. Their files are its arguments.
func Tasks(root string) (string, error) {
	if !strings.HasPrefix(root, "/") || strings.ContainsAny(root, "\"\\\n") {
		return "", fmt.Errorf("tasks: the folder %q is not absolute, or has quotes, backslashes or line breaks in it", root)
	}
	return "#!/bin/sh\nroot=" + quote(root) + "\n" + tasksScript, nil
}

// taskHead sets what a task has to set.
func taskHead(nonce string, watch, created []string) (string, error) {
	if !nonceForm.MatchString(nonce) {
		return "", fmt.Errorf("the nonce %q is not 8 to 128 letters, digits, - or _", nonce)
	}
	var spare []string
	known := newSet()
	known.add(watch...)
	for _, name := range watch {
		for _, suffix := range []string{".rej", ".orig"} {
			if !known.has[name+suffix] {
				spare = append(spare, name+suffix)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "nonce=%s\nlists() {\n", nonce)
	for _, list := range []struct {
		name  string
		paths []string
	}{{"watch", watch}, {"spare", spare}, {"created", created}} {
		// Built into the shell, printf knows no limit of length.
		if len(list.paths) > 0 {
			b.WriteString("printf '%s\\n'")
		} else {
			b.WriteString(":")
		}
		for _, p := range list.paths {
			b.WriteString(" " + quote(p))
		}
		fmt.Fprintf(&b, " >\"$tmp/%s\" || return\n", list.name)
	}
	b.WriteString("}\n")
	return b.String(), nil
}

// begin starts a task that works on files.
func begin(files []string) string {
	if len(files) == 0 {
		return "begin\n"
	}
	words := make([]string, len(files))
	for i, f := range files {
		words[i] = quote(f)
	}
	return "begin\nset -- " + strings.Join(words, " ") + "\n"
}

// quote makes one word of sh.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
