package grading

import (
	"fmt"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/grading/logparse"
)

// BenchmarkFromLog grades a log of about 100 KB, the usual size.
func BenchmarkFromLog(b *testing.B) {
	var region strings.Builder
	var want Expectation
	for i := 0; region.Len() < 100<<10; i++ {
		name := fmt.Sprintf("tests/unit/test_module_%d.py::TestClass::test_method_%d[param]", i%9, i)
		fmt.Fprintf(&region, "  File \"/testbed/package/module.py\", line %d, in function\nPASSED %s\n", i, name)
		want.PassToPass = append(want.PassToPass, name)
	}
	log := official(region.String(), 0)
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		if !FromLog(SWEBench5, log, "parse_log_pytest", logparse.Context{}, want).Resolved {
			b.Fatal("not resolved")
		}
	}
}
