package swebench

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Release 4.1 runs some test commands that the last 4.x commit, whose facts
// these are, runs differently: Java without parallel modules, Rust without
// warnings.
func as41(command string) []string {
	var spellings []string
	spellings = append(spellings, strings.Replace(command, "mvnd test -B ", "mvnd test -B -T 1C ", 1))
	spellings = append(spellings, strings.Replace(command, "RUSTFLAGS=-Awarnings ", "", 1))
	spellings = append(spellings, strings.Replace(command, `RUSTFLAGS="-Awarnings `, `RUSTFLAGS="`, 1))
	return append(spellings, command)
}

// TestParityDerivation compares names, parsers, test commands and resets with
// what two releases of the official harness derive for the same rows.
func TestParityDerivation(t *testing.T) {
	rows := sharedRows(t)
	byID := map[string]map[string]row{}
	for name, list := range rows {
		byID[name] = map[string]row{}
		for _, r := range list {
			byID[name][r.ID] = r
		}
	}
	compared, differences := 0, 0
	differ := func(format string, args ...any) {
		differences++
		t.Errorf(format, args...)
	}
	for _, want := range sharedDerivations(t) {
		name := strings.NewReplacer("_Lite_test", "_Lite.test", "_Verified_test", "_Verified.test",
			"_Multilingual_test", "_Multilingual.test", "_Multimodal_dev", "_Multimodal.dev", "SWE-bench_dev", "SWE-bench.dev").Replace(want.Dataset)
		r, found := byID[name][want.ID]
		if !found {
			t.Errorf("no row %s in %s", want.ID, name)
			continue
		}
		inst := r.instance()
		inst.EvalScript, inst.LogParser, inst.EvalType = "", "", ""
		recipe, err := Derive(inst)
		if err != nil {
			t.Errorf("%s: %v", want.ID, err)
			continue
		}
		if recipe.Evaluation.Whole || strings.TrimSpace(recipe.Evaluation.Test) == "" {
			t.Errorf("%s: the script made from the facts was not understood", want.ID)
		}
		if want.Note != "" {
			continue // the official harness wanted the network for this one
		}
		compared++
		if got := ImageName(inst, "swebench", ""); got != want.Image {
			differ("%s: image %s, want %s", want.ID, got, want.Image)
		}
		if got := recipe.Evaluation.LogParser; got != want.LogParser {
			differ("%s: log parser %s, want %s", want.ID, got, want.LogParser)
		}
		language := map[string]string{"rs": "rust", "rb": "ruby"}[want.Language]
		if language == "" {
			language = want.Language
		}
		if recipe.Environment.Language != language {
			differ("%s: language %s, want %s", want.ID, recipe.Environment.Language, language)
		}
		commands := strings.Split(strings.Join(TestCommand(inst), "\n"), "\n")
		if !sameCommands(commands, want.TestCommands, want.Harness) {
			differ("%s (%s): test commands\n%s", want.ID, want.Harness, cmp.Diff(want.TestCommands, commands))
		}
		if got := resetAs(want.Harness, want.Language, r); !slices.Equal(got, want.ResetAfter) {
			differ("%s (%s): resets\n%s", want.ID, want.Harness, cmp.Diff(want.ResetAfter, got))
		}
	}
	t.Logf("parity: derivation.jsonl.gz: %d instances (names, parsers, test commands, resets), 0 statuses compared, 0 verdicts compared, %d differences", compared, differences)
	if compared < 1000 {
		t.Errorf("only %d derivations compared", compared)
	}
}

func sameCommands(got, want []string, harness string) bool {
	return slices.EqualFunc(got, want, func(g, w string) bool {
		return g == w || harness == "v4.1.0" && slices.Contains(as41(g), w)
	})
}

// resetAs writes the reset lines as a release does. 4.1 forgets created files,
// and with nothing else to restore checks out the whole tree; the last 4.x
// removes them, for Python only.
func resetAs(harness, language string, r row) []string {
	modified, created := splitReset(patchedFiles(r.TestPatch))
	switch {
	case language == "py" && harness == "v4.1.0":
		return []string{"git checkout " + r.BaseCommit + " " + strings.Join(modified, " ")}
	case language == "py":
		return resetLines(r.BaseCommit, modified, created)
	}
	return resetLines(r.BaseCommit, modified, nil)
}

// TestPublishedScripts takes every published evaluation script apart and checks
// that nothing is lost: each line is in a phase, in the test patch, or is a line
// the run does in its own way.
func TestPublishedScripts(t *testing.T) {
	total, patches := 0, 0
	for name, rows := range sharedRows(t) {
		for _, r := range rows {
			total++
			eval, ok := Split(r.EvalScript)
			if !ok {
				t.Errorf("%s %s: not understood", name, r.ID)
				continue
			}
			checkNothingLost(t, name+" "+r.ID, r.EvalScript, eval)
			if eval.TestPatch != "" {
				patches++
				// The published scripts leave binary files out of some patches.
				if eval.TestPatch != r.TestPatch+"\n" && !strings.Contains(r.TestPatch, "\nBinary files ") {
					t.Errorf("%s %s: test patch differs from the row's", name, r.ID)
				}
			}
			for _, f := range allPaths(patchedFiles(r.TestPatch)) {
				if eval.TestPatch != "" && strings.Contains(eval.TestPatch, f) && !slices.Contains(eval.ResetFiles, f) {
					t.Errorf("%s %s: %q is not reset", name, r.ID, f)
				}
			}
		}
	}
	t.Logf("%d scripts, %d with a test patch", total, patches)
	if total < 1000 || total-patches > 10 {
		t.Errorf("%d scripts, %d with a test patch", total, patches)
	}
}

// TestPublishedPhasesParse lets bash read the phases without running them.
func TestPublishedPhasesParse(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	seen := map[string]bool{}
	for _, rows := range sharedRows(t) {
		for _, r := range rows {
			eval, _ := Split(r.EvalScript)
			for _, phase := range []string{eval.Setup, eval.Build, eval.Test} {
				text := strings.ReplaceAll(eval.Prelude+"\n"+phase, r.BaseCommit, "BASE")
				if shape := digits.ReplaceAllString(text, "0"); seen[shape] || strings.Contains(text, "pytest") && len(seen) > 300 {
					continue
				} else {
					seen[shape] = true
				}
				cmd := exec.Command(bash, "-n")
				cmd.Stdin = strings.NewReader(text)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s\n%s", r.ID, err, out, text)
				}
			}
		}
	}
	t.Logf("%d different phases", len(seen))
	if len(seen) < 50 {
		t.Errorf("only %d phases", len(seen))
	}
}

// TestClassicScriptsMatchPublished compares the scripts made from the facts with
// the published ones, apart from reset lines (which differ on purpose).
func TestClassicScriptsMatchPublished(t *testing.T) {
	same, rows := 0, 0
	for _, r := range sharedRows(t)["SWE-bench_Verified.test"] {
		inst := r.instance()
		inst.EvalScript = ""
		recipe, err := Derive(inst)
		if err != nil {
			t.Errorf("%s: %v", r.ID, err)
			continue
		}
		rows++
		if withoutResets(recipe.Evaluation.Script) == withoutResets(r.EvalScript) {
			same++
		}
	}
	t.Logf("%d of %d scripts of Verified are the published ones", same, rows)
	if same < rows*96/100 {
		t.Errorf("only %d of %d scripts are as published", same, rows)
	}
}

func withoutResets(script string) string {
	var kept []string
	for _, line := range strings.Split(script, "\n") {
		if !strings.HasPrefix(line, "git checkout ") && !strings.HasPrefix(line, "rm -f ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
