package reports

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestOfficialPaths(t *testing.T) {
	l := Layout{Root: "out", ReportDir: "reports"}
	f := l.Instance("run1", "org/some model.v1:free", "sympy__sympy-22005")
	dir := "out/logs/run_evaluation/run1/org__some model.v1:free/sympy__sympy-22005"
	for got, want := range map[string]string{
		f.Dir:               dir,
		f.Patch:             dir + "/patch.diff",
		f.EvalScript:        dir + "/eval.sh",
		f.TestOutput:        dir + "/test_output.txt",
		f.Log:               dir + "/run_instance.log",
		f.Report:            dir + "/report.json",
		f.Attempt:           dir + "/attempt.json",
		l.RunFile("run1"):   "out/logs/run_evaluation/run1/run.json",
		l.RunDir("2025.01"): "out/logs/run_evaluation/2025.01",
		l.SummaryFile("run1", "org/some model.v1:free"): "reports/org__some model.v1:free.run1.json",
	} {
		if got != filepath.FromSlash(want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := (Layout{Root: "out"}).SummaryFile("r", "m"); got != filepath.Join("out", "m.r.json") {
		t.Errorf("without a report folder the summary goes to %s", got)
	}
	if got := (Layout{}).RunFile("r"); got != filepath.FromSlash("logs/run_evaluation/r/run.json") {
		t.Errorf("without a root run.json goes to %s", got)
	}
}

func TestUnsafeNamesGetAHash(t *testing.T) {
	long := strings.Repeat("m", 300)
	for _, name := range []string{
		"", ".", "..", "...", ".hidden", "-rf", " lead", "trail ", "trail.", "a\\b", "a\x00b", "a\nb", "a\x1b[31mb",
		"a*b", "a?b", "\xff\xfe", "e\u0301", "a\u202eb", long, "run.json", "RUN.json", "evalrun.log", ".lock", "x~0123456789abcdef", "x~0123456789ABCDEF",
		strings.Repeat("é", 100),
	} {
		got := component(name)
		if !looksHashed(got) {
			t.Errorf("component(%q) = %q has no hash", name, got)
		}
		checkComponent(t, name, got)
		if again := component(name); again != got {
			t.Errorf("component(%q) gave %q, then %q", name, got, again)
		}
	}
	if a, b := component(long+"1"), component(long+"2"); a == b {
		t.Errorf("two long names share %q", a)
	}
	if got := component("../../etc"); strings.Contains(got, "/") {
		t.Errorf("component kept a slash: %q", got)
	}
	// A model name with ".." inside maps officially to one harmless component.
	if got := modelComponent("a/../b"); got != "a__..__b" {
		t.Errorf("modelComponent = %q", got)
	}
	if got := modelComponent("../b"); !looksHashed(got) {
		t.Errorf("modelComponent = %q", got)
	}
}

func TestWithNamesKeepsNamesApart(t *testing.T) {
	ids := []string{"b__b-1", "B__b-1", "B__B-1", "c__c-1", "c__c-1", "K-1", "\u212a-1"} // the last is the Kelvin sign
	l := Layout{Root: "r"}.WithNames([]string{"a/b", "a__b", "A__B"}, ids)
	for id, official := range map[string]bool{"B__B-1": true, "B__b-1": false, "b__b-1": false, "c__c-1": true, "K-1": true, "\u212a-1": false} {
		name := filepath.Base(l.Instance("r", "m", id).Dir)
		if (name == id) != official {
			t.Errorf("instance %q lies in %q, official %v", id, name, official)
		}
	}
	seen := map[string]string{}
	for _, model := range []string{"a/b", "a__b", "A__B"} {
		key := strings.ToLower(l.ModelDir("r", model))
		if other, ok := seen[key]; ok {
			t.Errorf("models %q and %q share %s", model, other, key)
		}
		seen[key] = model
	}
	// The same names in another order give the same paths.
	back := Layout{Root: "r"}.WithNames([]string{"A__B", "a__b", "a/b"}, []string{"B__B-1", "c__c-1", "B__b-1", "b__b-1"})
	for _, id := range []string{"B__B-1", "B__b-1", "b__b-1", "c__c-1"} {
		if a, b := l.Instance("r", "a/b", id), back.Instance("r", "a/b", id); a != b {
			t.Errorf("order of names changed %s to %s", a.Dir, b.Dir)
		}
	}
}

func checkComponent(t *testing.T, name, got string) {
	t.Helper()
	if got == "" || got == "." || got == ".." || len(got) > maxComponent || strings.ContainsAny(got, "/\\\x00") {
		t.Errorf("component of %q is %q", name, got)
	}
}

func FuzzLayout(f *testing.F) {
	for _, s := range [][2]string{{"a/b", "a__b"}, {"..", "."}, {"", "/"}, {"ID-1", "id-1"}, {"x~0123456789abcdef", "x y"}, {"\xff", "\ufffd"}, {"run.json", "Run.JSON"}, {"a\x00", "a\n"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		root := filepath.Join("some", "root")
		l := Layout{Root: root}.WithNames([]string{a, b}, []string{a, b})
		paths := map[string][]string{}
		for _, name := range []string{a, b} {
			for kind, path := range map[string]string{
				"run":      l.RunFile(name),
				"model":    l.Instance("run", name, "id").Attempt,
				"instance": l.Instance("run", "model", name).Attempt,
				"summary":  l.SummaryFile("run", name),
			} {
				rel, err := filepath.Rel(root, path)
				if err != nil || !filepath.IsLocal(rel) {
					t.Fatalf("%s of %q leaves the root: %s", kind, name, path)
				}
				if len(filepath.Base(path)) > 255 || strings.ContainsAny(path, "\x00\n\x1b") {
					t.Fatalf("%s of %q is not safe: %q", kind, name, path)
				}
				paths[kind] = append(paths[kind], path)
			}
			if l.RunFile("run") == l.ModelDir("run", name) {
				t.Fatalf("model %q takes the place of run.json", name)
			}
		}
		for kind, p := range paths {
			same := p[0] == p[1]
			if kind != "run" { // run ids of different calls cannot be compared
				same = strings.EqualFold(p[0], p[1])
			}
			if same != (a == b) {
				t.Fatalf("%s: %q and %q get %q and %q", kind, a, b, p[0], p[1])
			}
		}
	})
}
