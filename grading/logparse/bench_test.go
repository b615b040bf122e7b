package logparse

import (
	"fmt"
	"strings"
	"testing"
)

// benchLog repeats what make prints until the log has about 8 MB.
func benchLog(line func(b *strings.Builder, i int)) string {
	var b strings.Builder
	for i := 0; b.Len() < 8<<20; i++ {
		line(&b, i)
	}
	return b.String()
}

func benchParse(b *testing.B, parser, log string) {
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		if r := Parse(parser, log, Context{}); r.Statuses.Len() == 0 {
			b.Fatal("no statuses")
		}
	}
}

// A pytest log: some output of each test, verbose progress, a short summary.
func pytestLog() string {
	return benchLog(func(b *strings.Builder, i int) {
		fmt.Fprintf(b, "tests/unit/test_module_%d.py::TestClass::test_method_%d[param%d] PASSED [ 10%%]\n", i%97, i, i%7)
		if i%5 == 0 {
			b.WriteString("  File \"/testbed/package/module.py\", line 120, in function\n    value = compute(argument, other=[1, 2, 3])\n")
		}
		if i%3 == 0 {
			fmt.Fprintf(b, "PASSED tests/unit/test_module_%d.py::TestClass::test_method_%d[param%d]\n", i%97, i, i%7)
		}
	})
}

func BenchmarkParsePytest(b *testing.B) { benchParse(b, "parse_log_pytest", pytestLog()) }

func BenchmarkParsePytestV2(b *testing.B) { benchParse(b, "parse_log_pytest_v2", pytestLog()) }

func BenchmarkParseDjango(b *testing.B) {
	benchParse(b, "parse_log_django", benchLog(func(b *strings.Builder, i int) {
		fmt.Fprintf(b, "test_method_%d (module_%d.tests.SomeTestCase) ... ok\n", i, i%53)
		if i%4 == 0 {
			fmt.Fprintf(b, "test_documented_%d (module_%d.tests.SomeTestCase)\nThe first line of a docstring number %d. ... ok\n", i, i%53, i)
		}
		if i%10 == 0 {
			b.WriteString("    Applying auth.0001_initial... OK\n    Creating table app_model\n")
		}
	}))
}

func BenchmarkParseGoTest(b *testing.B) {
	benchParse(b, "parse_log_gotest", benchLog(func(b *strings.Builder, i int) {
		fmt.Fprintf(b, "=== RUN   TestFunction%d\n=== RUN   TestFunction%d/case_one\n    file_test.go:42: some output of the test\n", i, i)
		fmt.Fprintf(b, "--- PASS: TestFunction%d (0.00s)\n    --- PASS: TestFunction%d/case_one (0.00s)\n", i, i)
	}))
}

func BenchmarkParseJest(b *testing.B) {
	benchParse(b, "parse_log_jest", benchLog(func(b *strings.Builder, i int) {
		if i%20 == 0 {
			fmt.Fprintf(b, "PASS packages/module-%d/test/index.js\n  module %d\n", i, i)
		}
		fmt.Fprintf(b, "    ✓ does the thing number %d as expected (%d ms)\n", i, i%90)
	}))
}

func BenchmarkCut(b *testing.B) {
	log := "+ : '" + StartTestOutput + "'\n" + pytestLog() + "+ : '" + EndTestOutput + "'\n" + TestExitCode + ": 0\n"
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		if !Cut(log).Found {
			b.Fatal("no region")
		}
	}
}
