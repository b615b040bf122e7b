package html

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports/results"
)

// BenchmarkWrite makes the page of ten models on 2,294 instances, each with a
// hundred tests, a patch and a log of 30 kB; MB/heap is what is held at the end.
func BenchmarkWrite(b *testing.B) {
	const models, instances, folders = 10, 2294, 100
	dir := b.TempDir()
	noise := strings.Repeat("tests/test_something.py::test_number_one PASSED   [ 12%]\n", 520)
	var some []attempt
	for n := range folders {
		some = append(some, attempt{id: fmt.Sprintf("o__a-%d", n), outcome: grading.Resolved,
			patch: strings.Repeat(smallPatch, 10+n%7), log: fmt.Sprintf("%sFAILED tests/test_a.py::test_%d - assert %d\n", noise, n, n)})
	}
	files := newSet(b, dir, "files", some...)
	var sets []*results.Set
	for m := range models {
		s := &results.Set{Name: fmt.Sprintf("model-%d", m), Kind: results.KindRun}
		for n := range instances {
			it := files.Items[(n+m)%folders]
			it.ID = fmt.Sprintf("owner%d__name-%d", n%12, n)
			it.FailToPass = &results.Tests{Failed: []string{fmt.Sprintf("tests/test_a.py::test_%d", n)}}
			if (n+m)%3 > 0 {
				it.Outcome = grading.Unresolved
			}
			it.PassToPass = &results.Tests{}
			for k := range 100 {
				it.PassToPass.Passed = append(it.PassToPass.Passed, testNames[k])
			}
			s.Items = append(s.Items, it)
		}
		ids := s.IDs()
		s.Complete(ids)
		sets = append(sets, s)
	}
	p := pageOf(sets...)
	path := filepath.Join(dir, "report.html")
	for b.Loop() {
		out, err := Write(context.Background(), path, p)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(out.Bytes+out.Details)/1e6, "MB/written")
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/1e6, "MB/heap")
}

var testNames = func() (out [100]string) {
	for k := range out {
		out[k] = fmt.Sprintf("tests/unit/test_module_%d.py::TestThings::test_that_it_does_what_it_should[%d]", k%7, k)
	}
	return out
}()
