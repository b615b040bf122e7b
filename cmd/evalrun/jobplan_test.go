package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
)

// planOf is the plan of a run with these predictions, of instances i-0 and on.
func planOf(t testing.TB, instances, attempts int, lines string) *plan {
	t.Helper()
	path := filepath.Join(t.TempDir(), "preds.jsonl")
	writeText(t, path, lines)
	spool := datasets.NewSpool(t.TempDir())
	t.Cleanup(func() { spool.Close() })
	sets, _, err := datasets.LoadPredictions(path, nil, datasets.PredictionOptions{Attempts: attempts, Spool: spool})
	if err != nil {
		t.Fatal(err)
	}
	var rows []datasets.Instance
	recipes := map[string]*datasets.Recipe{}
	for i := range instances {
		rows = append(rows, datasets.Instance{ID: fmt.Sprint("i-", i)})
		recipes[rows[i].ID] = &datasets.Recipe{}
	}
	p, err := newPlan(rows, sets, recipes, attempts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func predictionLine(instance, model, patch string) string {
	return fmt.Sprintf(`{"instance_id":%q,"model_name_or_path":%q,"model_patch":%q}`+"\n", instance, model, patch)
}

// Jobs go instance by instance, each model's in the order of its predictions; a model with
// one prediction for each instance gets as many attempts at that; what has no prediction
// is told, and what is not selected counts as predicted.
func TestNewPlan(t *testing.T) {
	p := planOf(t, 3, 3, predictionLine("i-1", "many", "first")+predictionLine("i-0", "one", "alone")+predictionLine("other", "many", "x")+
		predictionLine("i-0", "many", "")+predictionLine("i-1", "many", "second")+predictionLine("i-1", "one", " \n")+predictionLine("other", "one", "y"))
	var got []string
	for i := range p.Len() {
		j, err := p.Job(i)
		if err != nil {
			t.Fatal(err)
		}
		text, err := j.Prediction.Text()
		if err != nil {
			t.Fatal(err)
		}
		if j.ID() != p.id(i) || j.Instance != p.Instance(i) || j.Prediction.Empty() != p.Empty(i) || j.Recipe != p.recipes[j.Instance.ID] {
			t.Errorf("job %d: %+v, %+v, empty %v", i, j.ID(), p.id(i), p.Empty(i))
		}
		got = append(got, fmt.Sprintf("%s %s %d: %q, repetition %d", j.Instance.ID, j.Prediction.Model, j.Attempt, *text, j.Repetition))
	}
	want := []string{
		`i-0 many 1: "", repetition 0`, `i-0 one 1: "alone", repetition 0`, `i-0 one 2: "alone", repetition 1`, `i-0 one 3: "alone", repetition 2`,
		`i-1 many 1: "first", repetition 0`, `i-1 many 2: "second", repetition 0`,
		`i-1 one 1: " \n", repetition 0`, `i-1 one 2: " \n", repetition 1`, `i-1 one 3: " \n", repetition 2`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	missing := []map[string][]string{
		{"many": {"i-2"}, "one": {"i-2"}}, {"many": {"i-0", "i-2"}, "one": {"i-2"}}, {"many": {"i-0", "i-1", "i-2"}, "one": {"i-2"}},
	}
	if diff := cmp.Diff(missing, p.missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	for n, want := range [][2][]string{{{"i-1", "other", "i-0"}, {"i-0", "i-1", "other"}}, {{"i-1"}, {"i-0", "i-1", "other"}}, {nil, {"i-0", "i-1", "other"}}} {
		if diff := cmp.Diff(want, [2][]string{p.predicted(n+1, "many"), p.predicted(n+1, "one")}); diff != "" {
			t.Errorf("attempt %d is predicted for (-want +got):\n%s", n+1, diff)
		}
	}
}

// TestJobsAreSmall: what is in memory of an attempt, and of how it ended, does not depend on
// its prediction.
func TestJobsAreSmall(t *testing.T) {
	const instances, attempts, most = 100, 200, 48
	var lines strings.Builder
	for n := range attempts {
		for i := range instances {
			lines.WriteString(predictionLine(fmt.Sprint("i-", i), "a model with a long name", fmt.Sprint("a patch ", n)))
		}
	}
	text := lines.String()
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	p := planOf(t, instances, attempts, text)
	e := newEndings(p.Len())
	for i := range p.Len() {
		e.set(i, ended{outcome: grading.Resolved, image: "sha256:" + p.Instance(i).ID, deviations: []string{"another kernel"}})
	}
	each := (heap() - before) / (instances * attempts)
	t.Logf("%d bytes of memory for an attempt", each)
	if p.Len() != instances*attempts || each > most {
		t.Errorf("%d attempts with %d bytes of memory each, want at most %d", p.Len(), each, most)
	}
	if m := e.at(150); m.outcome != grading.Resolved || m.image != "sha256:i-0" || e.at(p.Len()-1).image != "sha256:i-99" {
		t.Errorf("it ended as %+v", m)
	}
	runtime.KeepAlive(text)
}

// BenchmarkManyAttempts is the plan of many attempts of four models at 500 instances, and
// a run of them that ends soon after it has begun: the most memory the program held.
// BENCH_LINES sets how many predictions there are.
func BenchmarkManyAttempts(b *testing.B) {
	const models, instances = 4, 500
	lines := 20_000
	if text := os.Getenv("BENCH_LINES"); text != "" {
		if _, err := fmt.Sscan(text, &lines); err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	writeRows(b, filepath.Join(dir, "rows.jsonl"), instances)
	f, err := os.Create(filepath.Join(dir, "preds.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriter(f)
	padding := strings.Repeat("+ a line of the patch\n", 20)
	for i := range lines {
		w.WriteString(predictionLine(fmt.Sprintf("name-%03d", i%instances), fmt.Sprint("model-", i/instances%models), patchOf("PATCH-GOOD", i)+padding))
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		b.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	bin := filepath.Join(dir, "evalrun-fake") // what the test binary is when it is called so
	if err := os.Symlink(exe, bin); err != nil {
		b.Fatal(err)
	}
	for what, end := range map[string]string{"plan": "in all ", "run": "deadline has come"} {
		b.Run(what, func(b *testing.B) {
			most := int64(0)
			for b.Loop() {
				args := fakeRun(dir, b.TempDir(), "--attempts", fmt.Sprint(lines/(models*instances)), "--show", "none", "--deadline", "1s")
				args[0] = what
				cmd := exec.CommandContext(b.Context(), bin, args...)
				text, err := cmd.CombinedOutput()
				if !strings.Contains(string(text), end) {
					b.Fatalf("%v\n%s", err, text[max(0, len(text)-1000):])
				}
				if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
					most = max(most, usage.Maxrss)
				}
			}
			b.ReportMetric(float64(most)/1024, "peak-RSS-MiB")
			b.ReportMetric(float64(lines), "attempts")
		})
	}
}
