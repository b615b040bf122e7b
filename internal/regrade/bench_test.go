package regrade

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
)

// BenchmarkGrade grades as many stored logs as SWE-bench has instances, 100 KB
// each, in the official folders.
func BenchmarkGrade(b *testing.B) {
	const instances = 2294
	root := b.TempDir()
	var output strings.Builder
	row := datasets.Instance{Repo: "o/r", LogParser: "parse_log_pytest_v2"}
	for i := 0; output.Len() < 100<<10; i++ {
		id := fmt.Sprintf("tests/unit/test_module_%d.py::TestClass::test_method_%d[param]", i%9, i)
		fmt.Fprintf(&output, "  File \"/testbed/package/module.py\", line %d, in function\n    value = compute(argument, other=[1, 2, 3])\nPASSED %s\n", i, id)
		row.PassToPass = append(row.PassToPass, id)
	}
	row.FailToPass = row.PassToPass[:1]
	log := official(output.String(), 0)
	rows := make([]datasets.Instance, instances)
	for i := range rows {
		rows[i] = row
		rows[i].ID = fmt.Sprintf("o__r-%d", i)
		write(b, filepath.Join(root, "run", "m", rows[i].ID, testOutput), log)
	}
	b.SetBytes(int64(instances * len(log)))
	b.ReportAllocs()
	for b.Loop() {
		logs, err := Find(root)
		if err != nil || len(logs) != instances {
			b.Fatalf("%d logs, %v", len(logs), err)
		}
		jobs := make([]Job, len(logs))
		for i := range logs {
			jobs[i] = Job{Log: logs[i], Instance: &rows[i]}
		}
		results, err := Grade(context.Background(), Options{Rules: grading.SWEBench5}, jobs)
		if err != nil || results[instances-1].Attempt.Outcome != grading.Resolved {
			b.Fatal(results[instances-1].Attempt.Outcome, err)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-from-OS")
}
