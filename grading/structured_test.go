package grading

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading/logparse"
)

func TestReadJUnit(t *testing.T) {
	const good = `<?xml version="1.0"?><testsuites><testsuite name="pytest" tests="4">
<testcase classname="tests.test_a" name="test_b[1-x]" time="0.1"/>
<testcase classname="tests.test_a.TestC" name="test_d"><failure message="no">E  assert</failure></testcase>
<testcase classname="tests.test_a" name="test_e"><skipped/></testcase>
<testcase classname="tests.test_a" name="test_f"/><testcase classname="tests.test_a" name="test_f"><error/></testcase>
</testsuite></testsuites>`
	got, err := ReadJUnit(strings.NewReader(good))
	want := Structured{"tests.test_a::test_b[1-x]": Passed, "tests.test_a.TestC::test_d": Failed, "tests.test_a::test_e": Skipped, "tests.test_a::test_f": Error}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for name, bad := range map[string]string{
		"cut short":            good[:len(good)-30],
		"nothing":              "",
		"not XML":              "PASSED",
		"deep":                 strings.Repeat("<a>", 1000),
		"a long element":       "<testsuite " + strings.Repeat(`a="" `, maxTag/5) + "/>",
		"entities of entities": `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>`,
		"unknown entity":       `<!DOCTYPE x [<!ENTITY a "b">]><testsuite>&a;</testsuite>`,
	} {
		if _, err := ReadJUnit(strings.NewReader(bad)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestGoOutput(t *testing.T) {
	const in = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
# of the compiler
{"Action":"fail","Package":"p","Test":"TestB/x y","Elapsed":0}
{"not": "an event"}
`
	var out bytes.Buffer
	got, err := GoOutput(strings.NewReader(in), &out)
	if diff := cmp.Diff(Structured{"TestA": Passed, "TestB/x y": Failed}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if want := "=== RUN   TestA\n--- PASS: TestA (0.00s)\n# of the compiler\n{\"not\": \"an event\"}\n"; out.String() != want {
		t.Errorf("text:\n%s", out.String())
	}
}

func TestCrossCheckStructured(t *testing.T) {
	want := Expectation{FailToPass: []string{"tests/test_a.py::test_b[1-x]", "tests/test_a.py::TestC::test_d"}, PassToPass: []string{"a.py::cut"}}
	log := Report{Resolved: true, Statuses: logparse.StatusesOf("tests/test_a.py::test_b[1-x]", "PASSED", "tests/test_a.py::TestC::test_d", "PASSED")}
	for _, tt := range []struct {
		name  string
		cases Structured
		want  int
	}{
		{"agrees", Structured{"tests.test_a::test_b[1-x]": Passed, "tests.test_a.TestC::test_d": Passed}, 0},
		{"failed", Structured{"tests.test_a::test_b[1-x]": Failed, "tests.test_a.TestC::test_d": Passed}, 1},
		{"not there", Structured{"tests.test_a.TestC::test_d": Passed}, 1},
		{"no report", nil, 2},
	} {
		if got := CrossCheckStructured(PytestJUnit, want, log, tt.cases); len(got) != tt.want {
			t.Errorf("%s: %v, want %d", tt.name, got, tt.want)
		}
	}
}

func FuzzReadJUnit(f *testing.F) {
	f.Add(`<testsuite><testcase classname="a" name="b"><failure/></testcase></testsuite>`)
	f.Fuzz(func(t *testing.T, text string) { ReadJUnit(strings.NewReader(text)) })
}

func FuzzGoOutput(f *testing.F) {
	f.Add(`{"Action":"pass","Test":"A","Output":"x"}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := GoOutput(strings.NewReader(text), &bytes.Buffer{}); err != nil {
			t.Error(err)
		}
	})
}
