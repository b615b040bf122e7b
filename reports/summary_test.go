package reports

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/grading"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files of tables and documents anew")

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", name), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(golden(t, name), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// randomRun makes a run with gaps, repeats, strangers and odd outcomes.
func randomRun(r *rand.Rand) (ids, predicted []string, attempts []Attempt) {
	outcomes := append(Outcomes(), "something_new")
	for i := range r.IntN(40) {
		id := fmt.Sprintf("i-%d", i)
		if r.IntN(10) > 0 {
			ids = append(ids, id)
		}
		if r.IntN(8) > 0 {
			predicted = append(predicted, id)
		}
		if r.IntN(6) == 0 {
			ids = append(ids, id) // twice
		}
		for range r.IntN(3) {
			a := Attempt{InstanceID: id, Outcome: outcomes[r.IntN(len(outcomes))], Reason: []string{"", "a", "b"}[r.IntN(3)]}
			if r.IntN(2) == 0 {
				a.Verdict = &grading.Report{Found: r.IntN(2) == 0, Resolved: r.IntN(2) == 0}
			}
			attempts = append(attempts, a)
		}
	}
	return ids, predicted, attempts
}

func distinct(ids []string) int { return len(idSet(ids)) }

func TestTotalsAlwaysAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		ids, predicted, attempts := randomRun(r)
		if ids == nil {
			ids = []string{}
		}
		s := NewSummary("r", "m", ids, attempts)
		sum := 0
		for _, n := range s.Outcomes {
			sum += n
		}
		why := 0
		for _, reason := range s.NotEvaluatedWhy {
			why += reason.Count
			if reason.Count != len(reason.Instances) {
				t.Fatalf("a reason of %d lists %v", reason.Count, reason.Instances)
			}
		}
		if s.Total != distinct(ids) || sum != s.Total || s.Evaluated+s.NotEvaluated != s.Total || why != s.NotEvaluated {
			t.Fatalf("total %d of %d ids, outcomes %d, evaluated %d + %d, reasons %d", s.Total, distinct(ids), sum, s.Evaluated, s.NotEvaluated, why)
		}
		if !(s.Interval95[0] <= s.ResolvedRate && s.ResolvedRate <= s.Interval95[1] && s.ResolvedRate <= s.RateIfAllResolved) && s.Total > 0 {
			t.Fatalf("rate %v, interval %v, at most %v", s.ResolvedRate, s.Interval95, s.RateIfAllResolved)
		}
		checkOfficialAddsUp(t, ids, predicted, attempts)

		doc := NewDocument(nil, "r", "m", ids, attempts)
		if len(doc.Instances) != doc.Summary.Total {
			t.Fatalf("%d instances, total %d", len(doc.Instances), doc.Summary.Total)
		}
	}
}

func checkOfficialAddsUp(t *testing.T, ids, predicted []string, attempts []Attempt) {
	t.Helper()
	o := NewOfficialRun(OfficialInput{DatasetIDs: ids, PredictionIDs: predicted, Attempts: attempts})
	for name, c := range map[string]struct {
		n    int
		list []string
	}{
		"completed": {o.CompletedInstances, o.CompletedIDs}, "resolved": {o.ResolvedInstances, o.ResolvedIDs},
		"unresolved": {o.UnresolvedInstances, o.UnresolvedIDs}, "empty": {o.EmptyPatchInstances, o.EmptyPatchIDs},
		"error": {o.ErrorInstances, o.ErrorIDs}, "submitted": {o.SubmittedInstances, o.SubmittedIDs},
		"infra": {o.InfraFailureInstances, o.InfraFailureIDs}, "ambiguous": {o.AmbiguousFailureInstances, o.AmbiguousFailureIDs},
	} {
		if c.n != len(c.list) || !slices.IsSorted(c.list) || distinct(c.list) != len(c.list) {
			t.Fatalf("%s: %d, %v", name, c.n, c.list)
		}
	}
	whole := slices.Concat(o.CompletedIDs, o.EmptyPatchIDs, o.ErrorIDs, o.IncompleteIDs)
	if o.TotalInstances != len(whole) || distinct(whole) != len(whole) || o.TotalInstances != distinct(ids) {
		t.Fatalf("total %d of %v", o.TotalInstances, whole)
	}
	if o.CompletedInstances != o.ResolvedInstances+o.UnresolvedInstances {
		t.Fatalf("completed %d, resolved %d, unresolved %d", o.CompletedInstances, o.ResolvedInstances, o.UnresolvedInstances)
	}
	if len(o.FailureReasons) != o.InfraFailureInstances+o.AmbiguousFailureInstances {
		t.Fatalf("reasons %v", o.FailureReasons)
	}
	for id := range o.FailureReasons {
		if !slices.Contains(o.UnresolvedIDs, id) && !slices.Contains(o.ErrorIDs, id) {
			t.Fatalf("a reason for %s, which is neither unresolved nor an error", id)
		}
	}
}

func TestSummaryGroupsReasons(t *testing.T) {
	s := NewSummary("r", "m", []string{"a", "b", "c", "d", "e"}, []Attempt{
		{InstanceID: "c", Outcome: grading.BuildFailed, Reason: "pull: 429"},
		{InstanceID: "a", Outcome: grading.BuildFailed, Reason: "pull: 429"},
		{InstanceID: "b", Outcome: grading.Ungradeable, Reason: "no statuses"},
		{InstanceID: "d", Outcome: grading.Resolved},
	})
	want := []Reason{
		{Fault: "environment", Outcome: grading.BuildFailed, Reason: "pull: 429", Count: 2, Instances: []string{"a", "c"}},
		{Fault: "dataset", Outcome: grading.Ungradeable, Reason: "no statuses", Count: 1, Instances: []string{"b"}},
		{Fault: "none", Outcome: grading.NotRun, Reason: "no attempt was recorded", Count: 1, Instances: []string{"e"}},
	}
	if diff := cmp.Diff(want, s.NotEvaluatedWhy); diff != "" {
		t.Error(diff)
	}
	if s.ResolvedRate != 0.2 || s.RateOfEvaluated != 1 || s.RateIfAllResolved != 1 {
		t.Errorf("rates %v, %v, %v", s.ResolvedRate, s.RateOfEvaluated, s.RateIfAllResolved)
	}
}

func shownRun() []Attempt {
	tests := make([]string, 1234)
	return []Attempt{
		{InstanceID: "sympy__sympy-22005", Outcome: grading.Resolved, Seconds: 12.34, Verdict: graded([]string{"a"}, nil, tests, nil)},
		{InstanceID: "scikit-learn__scikit-learn-14053", Outcome: grading.Unresolved, Seconds: 123.4,
			Verdict: graded([]string{"a"}, nil, nil, []string{"sklearn/tree/tests/test_export.py::test_text", "b"})},
		{InstanceID: "django__django-11001", Outcome: grading.Unresolved, Seconds: 99.97, Verdict: graded(nil, []string{"test_x (a.B)"}, nil, nil)},
		{InstanceID: "日本語\x1b[31m\u202e-wide-and-long-name-for-an-instance-1", Outcome: grading.OutOfMemory, Seconds: 4000,
			Reason: "the tests used more than 4 GiB;\traise --memory\nsecond line"},
		{InstanceID: "a", Outcome: grading.BuildFailed, Reason: "pull image x: too many requests"},
		{InstanceID: "b", Outcome: grading.EmptyPatch},
		{InstanceID: "c", Outcome: grading.NotRun, Seconds: -1},
	}
}

func TestTable(t *testing.T) {
	for _, width := range []int{60, 80, 120} {
		var b bytes.Buffer
		if err := WriteTable(&b, shownRun(), TableOptions{Width: width}); err != nil {
			t.Fatal(err)
		}
		if err := NewSummary("r", "org/m", nil, shownRun()).WriteText(&b, width); err != nil {
			t.Fatal(err)
		}
		checkShown(t, b.String(), width)
		checkGolden(t, fmt.Sprintf("table-%d.txt", width), b.String())
	}
}

// checkShown: no line is too wide, and nothing reaches the terminal that it
// would obey.
func checkShown(t *testing.T, text string, width int) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if w := displayWidth(line); w > width {
			t.Errorf("%d columns of %d: %q", w, width, line)
		}
		if SafeText(line) != line {
			t.Errorf("not safe to show: %q", line)
		}
	}
}

func TestTableShowsWhatIsAskedFor(t *testing.T) {
	rows := func(show Show) string {
		var b bytes.Buffer
		if err := WriteTable(&b, shownRun(), TableOptions{Width: 120, Show: show}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if all := rows(ShowAll); !strings.Contains(all, "sympy__sympy-22005") || !strings.Contains(all, "total 7 ") {
		t.Error(all)
	}
	some := rows(ShowNotResolved)
	if strings.Contains(some, "sympy") || !strings.Contains(some, "django") || !strings.Contains(some, "total 7 (6 shown)") || !strings.Contains(some, "1 resolved") {
		t.Error(some)
	}
	if none := rows(ShowNone); none != "" {
		t.Error(none)
	}
}

func TestTableColours(t *testing.T) {
	var plain, color bytes.Buffer
	for b, opts := range map[*bytes.Buffer]TableOptions{&plain: {Width: 80}, &color: {Width: 80, Color: true}} {
		if err := WriteTable(b, shownRun(), opts); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(plain.String(), "\x1b") {
		t.Error("colours that nobody asked for")
	}
	for _, want := range []string{"\x1b[32m✓ resolved\x1b[0m", "\x1b[31m✗ unresolved\x1b[0m", "\x1b[33m! build_failed\x1b[0m"} {
		if !strings.Contains(color.String(), want) {
			t.Errorf("no %q in\n%s", want, color.String())
		}
	}
	// Colours move nothing.
	strip := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[0m", "")
	if diff := cmp.Diff(plain.String(), strip.Replace(color.String())); diff != "" {
		t.Error(diff)
	}
}

func TestDocument(t *testing.T) {
	var b bytes.Buffer
	attempts := shownRun()
	attempts[0].Verdict.Tests.PassToPass.Success = []string{"p", "q"}
	attempts = attempts[:6]
	if err := NewDocument(&RunRecord{SchemaVersion: RunSchema, RunID: "r"}, "r", "org/m", []string{"z"}, nil).Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := NewDocument(nil, "r", "org/m", nil, attempts).Write(&b); err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "documents.json", b.String())
}

func TestSafeText(t *testing.T) {
	for in, want := range map[string]string{
		"plain é 日本 😀":            "plain é 日本 😀",
		"a\tb\nc\r\u2028d":        "a b c  d",
		"\x1b[31m\x00\x7f\u0085x": `\x1b[31m\x00\x7f x`,
		"a\u202eb\u200b":          `a\u202eb\u200b`,
		"\xffa":                   `\xffa`,
		"\ufffd":                  "\ufffd",
	} {
		if got := SafeText(in); got != want {
			t.Errorf("SafeText(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzTable(f *testing.F) {
	f.Add("日本語", "why\n", 80)
	f.Add(strings.Repeat("\u0301", 300), "\x1b]0;title\x07", 61)
	f.Add("👨‍👩‍👧‍👦🇩🇪", "…✓", 75)
	f.Fuzz(func(t *testing.T, id, reason string, width int) {
		if width > 400 {
			return
		}
		var b bytes.Buffer
		attempts := []Attempt{{InstanceID: id, Outcome: grading.Outcome(reason), Reason: reason}, {InstanceID: "x", Outcome: grading.Resolved}}
		if err := WriteTable(&b, attempts, TableOptions{Width: width}); err != nil {
			t.Fatal(err)
		}
		if err := NewSummary("r", id, nil, attempts).WriteText(&b, width); err != nil {
			t.Fatal(err)
		}
		checkShown(t, b.String(), tableWidth(width))
	})
}
