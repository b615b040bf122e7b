package regrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
)

func lookupOne(id string) (*datasets.Instance, error) {
	if id != oneTest.ID {
		return nil, errors.New("the dataset has no such instance")
	}
	return &oneTest, nil
}

// TestLinesKeepTheirOrder: long and short lines in turn, more than are worked on
// at a time.
func TestLinesKeepTheirOrder(t *testing.T) {
	var in strings.Builder
	const n = 60
	for i := range n {
		output := strings.Repeat("noise\n", (i%3)*4000) + fmt.Sprintf("PASSED t.py::n%d\n", i)
		text, err := json.Marshal(map[string]string{"instance_id": oneTest.ID, "log": official(output, 0)})
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(text, '\n', '\n'))
	}
	got := 0
	err := Lines(context.Background(), Options{Rules: grading.SWEBench5, Workers: 4}, strings.NewReader(in.String()), lookupOne, func(l Line) error {
		if name, _ := l.StatusMap.At(0); name != fmt.Sprintf("t.py::n%d", got) {
			t.Errorf("answer %d is about %s", got, name)
		}
		got++
		return nil
	})
	if err != nil || got != n {
		t.Errorf("%d answers, %v", got, err)
	}
}

// TestLinesEnd: no answer is awaited for ever when reading or writing fails.
func TestLinesEnd(t *testing.T) {
	o := Options{Rules: grading.SWEBench5, Workers: 2}
	gone, full := errors.New("gone"), errors.New("full")
	one := `{"instance_id":"o__r-1","log":"x"}` + "\n"
	if err := Lines(context.Background(), o, iotest.ErrReader(gone), lookupOne, func(Line) error { return nil }); !errors.Is(err, gone) {
		t.Error(err)
	}
	if err := Lines(context.Background(), o, strings.NewReader(strings.Repeat(one, 50)), lookupOne, func(Line) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Lines(ctx, o, strings.NewReader(strings.Repeat(one, 50)), lookupOne, func(Line) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRepoOf(t *testing.T) {
	for id, want := range map[string]string{
		"psf__requests-863": "psf/requests", "scikit-learn__scikit-learn-1": "scikit-learn/scikit-learn",
		"chartjs__Chart.js-8650": "chartjs/Chart.js", "x": "", "a-1": "", "": "",
	} {
		if got := RepoOf(id); got != want {
			t.Errorf("%q is of %q, want %q", id, got, want)
		}
	}
}

// TestParseEvidence: what each kind of log is taken for.
func TestParseEvidence(t *testing.T) {
	for _, tt := range []struct {
		name, log string
		found     bool
		tests     int
	}{
		{"official", "PASSED out\n" + official("PASSED a\n", 0), true, 1},
		{"results behind the end marker", official("", 0) + "PASSED a\n", true, 1},
		{"no marker at all", "PASSED a\nFAILED b\n", true, 2},
		{"of the first harnesses", logparse.PatchApplied + "\nPASSED a\n", true, 1},
		{"no end marker", "+ : '" + logparse.StartTestOutput + "'\nPASSED a\n", false, 0},
		{"a bad code", official("PASSED a\n", 0) + logparse.TestsErrored, false, 0},
		{"a status that contradicts", official("PASSED a\n", 1), false, 0},
	} {
		got, err := Parse(grading.SWEBench5, grading.OfString(tt.log), "parse_log_pytest", logparse.Context{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Found != tt.found || got.StatusMap.Len() != tt.tests || got.Found == (got.Reason != "") || got.BadCodes == nil {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// TestParseVerbatim: without markers the text goes to the parser as it is.
func TestParseVerbatim(t *testing.T) {
	got, err := Parse(grading.SWEBench5, grading.OfString("PASS a.js \r\n"), "parse_log_carbon", logparse.Context{})
	if err != nil {
		t.Fatal(err)
	}
	if _, found := got.StatusMap.Get("a.js \r"); !found {
		t.Errorf("statuses %v", got.StatusMap.Map())
	}
}
