package swebench

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/datasets"
	"github.com/google/go-cmp/cmp"
)

var digits = regexp.MustCompile(`[0-9]+`)

// checkNothingLost fails unless every line of a script is found again.
func checkNothingLost(t *testing.T, what, script string, eval datasets.Evaluation) {
	t.Helper()
	have := map[string]bool{"#!/bin/bash": true, "set -uxo pipefail": true}
	for _, text := range []string{eval.Prelude, eval.Setup, eval.Build, eval.Test, eval.TestPatch} {
		for _, line := range strings.Split(text, "\n") {
			have[line] = true
		}
	}
	for _, line := range strings.Split(script, "\n") {
		switch {
		case strings.TrimSpace(line) == "" || have[line]:
		case strings.Contains(line, ">>>>> Start Test Output") || strings.Contains(line, ">>>>> End Test Output"):
		case strings.HasPrefix(line, "git checkout ") || strings.HasPrefix(line, "rm -f ") || strings.HasPrefix(line, "echo \"No test files"):
		case strings.HasPrefix(line, "git apply ") || strings.HasPrefix(line, "EOF_"):
		case line == "set -x" || line == "cat /tmp/swebench_test_stderr.log >&2 || true":
		default:
			t.Errorf("%s: lost %q", what, line)
		}
	}
	// Nor is a repeated line kept only once, unless it sets up the shell.
	phases := count(strings.Join([]string{eval.Setup, eval.Build, eval.Test, eval.TestPatch}, "\n"))
	prelude := count(eval.Prelude)
	for line, n := range count(script) {
		if phases[line] > 0 && phases[line] < n && prelude[line] == 0 {
			t.Errorf("%s: %q %d times, not %d", what, line, phases[line], n)
		}
	}
	// Commands are not said twice: what is not shell set-up stands once.
	for line, n := range count(eval.Setup + "\n" + eval.Build) {
		if n > strings.Count("\n"+script+"\n", "\n"+line+"\n") {
			t.Errorf("%s: %q %d times", what, line, n)
		}
	}
}

func count(text string) map[string]int {
	n := map[string]int{}
	for _, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) != "" {
			n[line]++
		}
	}
	return n
}

// TestSplit takes the scripts in testdata/split apart and compares with the
// phases written beside them.
func TestSplit(t *testing.T) {
	scripts := glob(t, filepath.Join("testdata", "split"), "*.sh")
	if len(scripts) == 0 {
		t.Fatal("no scripts in testdata/split")
	}
	for _, path := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".sh"), func(t *testing.T) {
			script, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			eval, ok := Split(string(script))
			if eval.Script != string(script) {
				t.Error("the script itself was changed")
			}
			eval.Script = ""
			golden := strings.TrimSuffix(path, ".sh") + ".phases"
			got := phases{ok, eval.Prelude, eval.Setup, eval.ResetFiles, eval.TestPatch, eval.Build, eval.Test}.text()
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("phases (-want +got):\n%s", d)
			}
		})
	}
}

type phases struct {
	Understood bool
	Prelude    string
	Setup      string
	ResetFiles []string
	TestPatch  string
	Build      string
	Test       string
}

// text lists the phases for people to read, each under a heading.
func (p phases) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "understood: %v\n", p.Understood)
	for _, phase := range []struct{ name, text string }{
		{"prelude", p.Prelude}, {"setup", p.Setup}, {"reset", strings.Join(p.ResetFiles, "\n")},
		{"test patch", p.TestPatch}, {"build", p.Build}, {"test", p.Test},
	} {
		fmt.Fprintf(&b, "== %s\n%s\n", phase.name, phase.text)
	}
	return b.String()
}

// TestSplitRefuses lists scripts that must be run whole.
func TestSplitRefuses(t *testing.T) {
	patch := "git apply - <<'EOF'\ndiff --git a/t.py b/t.py\nEOF\n"
	tests := ": '>>>>> Start Test Output'\npytest\n: '>>>>> End Test Output'\n"
	cases := map[string]string{
		"empty":                           "",
		"no markers":                      "cd /testbed\npytest\n",
		"no end marker":                   "cd /testbed\n: '>>>>> Start Test Output'\npytest\n",
		"markers the wrong way round":     "cd /testbed\n: '>>>>> End Test Output'\npytest\n: '>>>>> Start Test Output'\n",
		"two test runs":                   "cd /testbed\n" + tests + tests,
		"nothing between the markers":     ": '>>>>> Start Test Output'\n\n: '>>>>> End Test Output'\n",
		"quote without end":               "cd /testbed\necho 'oops\n" + tests,
		"here-document without end":       "git apply - <<'EOF'\ndiff\n" + tests,
		"markers inside a loop":           "for i in 1 2; do\n" + tests + "done\n",
		"two test patches":                patch + patch + tests,
		"test patch from a file":          "git checkout 0123456789abcdef t.py\ngit apply /tmp/test.patch\n" + tests,
		"test patch with expansions":      "git apply - <<EOF\n+$HOME\nEOF\n" + tests,
		"resets to two commits":           "git checkout 0123456789abcdef t.py\ngit checkout fedcba9876543210 u.py\n" + patch + tests,
		"work in two directories":         "cd /testbed\ncd /testbed/sub\n" + patch + tests,
		"relative directory before":       "cd sub\n" + patch + tests,
		"state and command in one list":   patch + "cd build && make\n" + tests,
		"activation and command together": "source .venv/bin/activate && pip install .\n" + patch + tests,
		"ends at the first error":         "set -e\ncd /testbed\n" + patch + tests,
		"ends at the first error, long":   "set -x -o errexit\ncd /testbed\n" + patch + tests,
		"results printed at the end":      patch + tests + "cat results.xml\n",
	}
	for name, script := range cases {
		t.Run(name, func(t *testing.T) {
			eval, ok := Split(script)
			want := datasets.Evaluation{Script: script, Whole: true}
			if ok || !cmp.Equal(eval, want) {
				t.Errorf("understood %v:\n%s", ok, cmp.Diff(want, eval))
			}
		})
	}
}

// TestSplitTestPatchBytes: git must get the bytes bash would hand it.
func TestSplitTestPatchBytes(t *testing.T) {
	body := "diff --git a/é.txt b/é.txt\n--- a/é.txt\n+++ b/é.txt\n@@ -1 +1 @@\n-a\r\n+b\\ $x `y`\t \n\\ No newline at end of file\n\n\n"
	script := "#!/bin/bash\ncd /testbed\ngit apply -v - <<'END'\n" + body + "END\n: '>>>>> Start Test Output'\nmake check\n: '>>>>> End Test Output'\n"
	eval, ok := Split(script)
	if !ok || eval.TestPatch != body {
		t.Errorf("understood %v, test patch %q, want %q", ok, eval.TestPatch, body)
	}
}

// TestSplitCarriageReturns: a script saved on Windows is read as it was meant.
func TestSplitCarriageReturns(t *testing.T) {
	script := "#!/bin/bash\nset -uxo pipefail\ncd /testbed\n: '>>>>> Start Test Output'\nmake check\n: '>>>>> End Test Output'\n"
	eval, ok := Split(strings.ReplaceAll(script, "\n", "\r\n"))
	if !ok || eval.Test != "make check" || eval.Script != script {
		t.Errorf("understood %v: %+v", ok, eval)
	}
}

// TestSplitReadsWrittenScripts: what Derive writes, Split takes apart again.
func TestSplitReadsWrittenScripts(t *testing.T) {
	f, err := loadFacts()
	if err != nil {
		t.Fatal(err)
	}
	patch := "diff --git a/tests/test_a b.py b/tests/test_a b.py\n--- a/tests/test_a b.py\n+++ b/tests/test_a b.py\n@@ -1 +1 @@\n-x\n+EOF_114329324912\n" +
		"diff --git a/client/new.js b/client/new.js\nnew file mode 100644\n--- /dev/null\n+++ b/client/new.js\n@@ -0,0 +1 @@\n+EOF_114329324912\n"
	n := 0
	for name, repo := range f.repositories {
		for _, version := range repo.versions() {
			inst := &datasets.Instance{ID: "x", Repo: name, Version: version, BaseCommit: "0123456789abcdef0123456789abcdef01234567", TestPatch: patch}
			recipe, err := Derive(inst)
			if len(repo.spec(version).Test) == 0 {
				if err == nil {
					t.Errorf("%s %s: no error although there is no test command", name, version)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s %s: %v", name, version, err)
				continue
			}
			n++
			eval := recipe.Evaluation
			if eval.Whole || eval.TestPatch != patch+"\n" || !slices.Equal(eval.ResetFiles, []string{"tests/test_a b.py", "client/new.js"}) {
				t.Errorf("%s %s: whole %v, resets %q\n%s", name, version, eval.Whole, eval.ResetFiles, eval.Script)
			}
			if want := strings.Join(TestCommand(inst), "\n"); !strings.HasSuffix(eval.Test, want) {
				t.Errorf("%s %s: test %q, want %q", name, version, eval.Test, want)
			}
		}
	}
	if n < 1000 {
		t.Errorf("only %d versions", n)
	}
}

// BenchmarkSplit: the time grows with the length of a script, not its square.
func BenchmarkSplit(b *testing.B) {
	script := "cd /testbed\n" + strings.Repeat("if true; then\n", 50_000) + strings.Repeat("fi\n", 50_000) +
		": '>>>>> Start Test Output'\nmake check\n: '>>>>> End Test Output'\n"
	for range b.N {
		if _, ok := Split(script); !ok {
			b.Fatal("not understood")
		}
	}
}
