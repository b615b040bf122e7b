package reports

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/evalrun/evalrun/grading"
	"github.com/google/go-cmp/cmp"
)

func golden(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func graded(f2pOK, f2pBad, p2pOK, p2pBad []string) *grading.Report {
	return &grading.Report{
		Found: true, Resolved: len(f2pBad)+len(p2pBad) == 0,
		Tests: &grading.TestsStatus{
			FailToPass: grading.Split{Success: f2pOK, Failure: f2pBad},
			PassToPass: grading.Split{Success: p2pOK, Failure: p2pBad},
		},
	}
}

// The golden files are what Python's json module writes for the same values.
func TestOfficialReport(t *testing.T) {
	odd := "quote\" back\\ tab\t nl\n cr\r bs\b ff\f nul\x00 esc\x1b del\x7f é 日本 😀 \u2028 \ufeff"
	notFound := &grading.Report{Reason: "no statuses"}
	infra := &grading.Report{InfraClass: "display_unavailable"}
	ambiguous := &grading.Report{InfraClass: "no_tests_collected", InfraAmbiguous: true}
	for file, a := range map[string]Attempt{
		"report-resolved.json": {
			InstanceID: "sympy__sympy-22005", Outcome: grading.Resolved,
			Verdict: graded([]string{"test_solve_poly_system"}, nil, []string{"test_a", "test_b[<x> & 'y']"}, nil),
		},
		"report-odd-names.json": {
			InstanceID: "Ünï__cödé-1", Outcome: grading.Unresolved, Verdict: graded(nil, []string{odd}, nil, nil),
		},
		"report-null-patch.json":    {InstanceID: "a__b-1", Outcome: grading.EmptyPatch, Patch: PatchRecord{Null: true}},
		"report-not-gradeable.json": {InstanceID: "a__b-1", Outcome: grading.Ungradeable, Verdict: notFound},
		"report-infra.json":         {InstanceID: "a__b-1", Outcome: grading.Ungradeable, Verdict: infra},
		"report-ambiguous.json":     {InstanceID: "a__b-1", Outcome: grading.Ungradeable, Verdict: ambiguous},
	} {
		got, err := OfficialReport(&a)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(golden(t, file), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func TestLimitsAreNotResolvedOfficially(t *testing.T) {
	a := Attempt{InstanceID: "i", Outcome: grading.OutOfMemory, Verdict: graded([]string{"t"}, nil, nil, nil)}
	data, err := OfficialReport(&a)
	if err != nil || !strings.Contains(string(data), `"resolved": false`) {
		t.Errorf("err %v, report %s", err, data)
	}
}

func TestGradingReached(t *testing.T) {
	for _, o := range Outcomes() {
		if GradingReached(&Attempt{Outcome: o}) {
			t.Errorf("%s without verdict reached grading", o)
		}
		want := map[grading.Outcome]bool{
			grading.Resolved: true, grading.Unresolved: true, grading.Ungradeable: true,
			grading.OutOfMemory: true, grading.DiskLimit: true, grading.Tampering: true, grading.Inconsistent: true,
		}[o]
		if got := GradingReached(&Attempt{Outcome: o, Verdict: &grading.Report{}}); got != want {
			t.Errorf("%s with verdict: reached %v, want %v", o, got, want)
		}
	}
}

// officialRun is the run from whose logs the official harness made the golden
// summaries.
func officialRun() OfficialInput {
	solved, broken := graded([]string{"t"}, nil, nil, nil), graded(nil, []string{"t"}, nil, nil)
	sign := func(class string) FailureSign { return FailureSign{Class: class} }
	return OfficialInput{
		DatasetIDs: []string{"a__b-10", "a__b-2", "a__b-3", "a__b-4", "a__b-5", "a__b-6", "Ünï-7", "a__b-8", "a__b-9", "A__b-11"},
		PredictionIDs: []string{
			"a__b-10", "a__b-2", "a__b-3", "a__b-5", "a__b-6", "Ünï-7", "a__b-8", "a__b-9", "A__b-11", "other-1",
		},
		Attempts: []Attempt{
			{InstanceID: "a__b-10", Outcome: grading.Resolved, Verdict: solved},
			{InstanceID: "a__b-2", Outcome: grading.Unresolved, Verdict: broken, Sign: FailureSign{Class: "missing_module", Ambiguous: true}},
			{InstanceID: "a__b-3", Outcome: grading.EmptyPatch},
			{InstanceID: "a__b-5", Outcome: grading.TimedOut},
			{InstanceID: "a__b-6", Outcome: grading.Ungradeable, Verdict: &grading.Report{}, Sign: sign("browser_launch_failed")},
			{InstanceID: "Ünï-7", Outcome: grading.OutOfMemory, Verdict: broken, Sign: sign("out_of_memory")},
			{InstanceID: "a__b-8", Outcome: grading.Unresolved, Verdict: broken},
			{InstanceID: "a__b-9", Outcome: grading.ApplyFailed},
			{InstanceID: "A__b-11", Outcome: grading.EmptyPatch, Patch: PatchRecord{Null: true}},
		},
	}
}

func TestOfficialRunIsTheOfficialOne(t *testing.T) {
	in := officialRun()
	for file, left := range map[string]*Leftovers{
		"summary.json": nil,
		"summary-leftovers.json": {
			Containers: []string{"sweb.eval.a__b-5.run.1"},
			Images:     []string{"swebench/a__b-2:latest", "swebench/a__b-10:latest"},
		},
	} {
		in.Leftovers = left
		l := Layout{Root: t.TempDir()}
		path, err := WriteOfficialRun(l, "run.1", "org/mo del", NewOfficialRun(in))
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(l.Root, "org__mo del.run.1.json"); path != want {
			t.Errorf("written to %s, want %s", path, want)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(golden(t, file), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func TestOfficialRunOfNothing(t *testing.T) {
	data, err := NewOfficialRun(OfficialInput{Leftovers: &Leftovers{}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "null") || !strings.Contains(string(data), `"failure_reasons": {}`) {
		t.Errorf("lists of an empty run: %s", data)
	}
}

func TestOurOutcomesAreNoModelFailures(t *testing.T) {
	in := OfficialInput{DatasetIDs: []string{"a", "b", "c", "d"}, PredictionIDs: []string{"a", "b", "c", "d"}}
	in.Attempts = []Attempt{
		{InstanceID: "a", Outcome: grading.BuildFailed, Sign: FailureSign{Class: "missing_module", Ambiguous: true}},
		{InstanceID: "b", Outcome: grading.InfraFailed},
		{InstanceID: "c", Outcome: grading.NotRun},
	}
	r := NewOfficialRun(in)
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, r.InfraFailureIDs); diff != "" {
		t.Error(diff)
	}
	want := map[string]string{"a": "build_failed", "b": "infra_failed", "c": "not_run", "d": "not_run"}
	if diff := cmp.Diff(want, r.FailureReasons); diff != "" {
		t.Error(diff)
	}
	if r.ErrorInstances != 4 || r.UnresolvedInstances != 0 {
		t.Errorf("%d errors, %d unresolved", r.ErrorInstances, r.UnresolvedInstances)
	}
}

func TestSignsInLogs(t *testing.T) {
	filler := strings.Repeat("a line of a log\n", 40000) // several chunks
	for name, c := range map[string]struct{ log, want string }{
		"empty":                   {"", ""},
		"none":                    {filler, ""},
		"killed alone":            {"Killed", "out_of_memory"},
		"killed, crlf":            {"x\r\nKilled\r\ny", "out_of_memory"},
		"killed in a line":        {"run.sh: line 3: Killed pytest\nNotKilled\nKilled!", ""},
		"killed far in":           {filler + "Killed\n" + filler, "out_of_memory"},
		"killed at the end":       {filler + "Killed", "out_of_memory"},
		"first sign, not first":   {"collected 0 items\n" + filler + "cannot open display", "display_unavailable"},
		"timeout":                 {filler + "\n\nTimeout error: 1800 seconds exceeded.", "tests_timed_out"},
		"timeout without seconds": {"Timeout error: many seconds exceeded.", ""},
		"network":                 {"curl: (6) Could not resolve host: x", "network_unreachable"},
		"invalid bytes":           {"\xff\xfeModuleNotFoundError\xff", "missing_module"},
	} {
		if got := scan(strings.NewReader(c.log)).Class; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := scan(iotest.HalfReader(strings.NewReader(c.log))).Class; got != c.want {
			t.Errorf("%s, read in pieces: %q, want %q", name, got, c.want)
		}
	}
	// Wherever a sign falls on the border of two chunks it is found.
	for cut := -40; cut <= 40; cut++ {
		pad := 256<<10 + 128 + cut
		for _, s := range []string{"Killed", "Temporary failure in name resolution", "Timeout error: 1800 seconds exceeded"} {
			log := strings.Repeat("x", pad) + "\n" + s + "\n" + strings.Repeat("y", 1000)
			if scan(strings.NewReader(log)).Class == "" {
				t.Fatalf("%q is lost at offset %d", s, pad)
			}
			if s == "Killed" && scan(strings.NewReader(strings.Repeat("x", pad)+"Killed"+strings.Repeat("y", 9))).Class != "" {
				t.Fatalf("part of a line taken for a line at offset %d", pad)
			}
		}
	}
}

func TestScanLogsTakesTheFirstSignOfBoth(t *testing.T) {
	dir := t.TempDir()
	test, run := filepath.Join(dir, "test"), filepath.Join(dir, "run")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := ScanLogs(test, dir); got != (FailureSign{}) {
		t.Errorf("no logs: %+v", got)
	}
	write(test, "no tests ran")
	write(run, "Error response from daemon: gone")
	want := FailureSign{Class: "container_unavailable"}
	if got := ScanLogs(test, run); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func FuzzEncodePython(f *testing.F) {
	f.Add("é😀\u2028\x7f<>&\"\\\x00")
	f.Add("\xff\xfe")
	f.Fuzz(func(t *testing.T, s string) {
		data, err := encodePython(map[string]string{"k": s})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range data {
			if b >= 0x7f || b < ' ' && b != '\n' {
				t.Fatalf("byte %#x in %q", b, data)
			}
		}
		var back map[string]string
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if utf8.ValidString(s) && back["k"] != s {
			t.Fatalf("%q came back as %q", s, back["k"])
		}
	})
}
