package grading

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/evalrun/evalrun/grading/logparse"
)

// TestLongLog grades a log of many pieces whose results stand far apart.
func TestLongLog(t *testing.T) {
	noise := strings.Repeat("a line that is no result\n", 40000)
	log := noise + official(noise+"PASSED a::t\n"+noise+"PASSED a::u\r\n"+noise, 0)
	got := FromLog(SWEBench5, log, "parse_log_pytest", logparse.Context{}, Expectation{FailToPass: []string{"a::t", "a::u"}})
	if !got.Resolved || got.Statuses.Len() != 2 {
		t.Errorf("resolved %v, %d statuses: %s", got.Resolved, got.Statuses.Len(), got.Reason)
	}
}

func TestEndlessLine(t *testing.T) {
	region := strings.Repeat("x", 40<<20) + "\nPASSED a::t"
	if got := FromRegion(SWEBench5, region, 0, "parse_log_pytest", logparse.Context{}, oneTest); !got.Resolved {
		t.Error(got.Reason)
	}
}

// TestBrokenSource: a log that cannot be read is an error, never a verdict.
func TestBrokenSource(t *testing.T) {
	gone := errors.New("the file is gone")
	cannotOpen := Source(func() (io.ReadCloser, error) { return nil, gone })
	cannotRead := Source(func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(official("PASSED a::t", 0)), iotest.ErrReader(gone))), nil
	})
	for name, open := range map[string]Source{"open": cannotOpen, "read": cannotRead} {
		if report, err := FromLogSource(SWEBench5, open, "parse_log_pytest", logparse.Context{}, oneTest); !errors.Is(err, gone) || report.Resolved {
			t.Errorf("%s: resolved %v, %v", name, report.Resolved, err)
		}
		if report, err := FromRegionSource(SWEBench5, open, 0, "parse_log_pytest", logparse.Context{}, oneTest); !errors.Is(err, gone) || report.Resolved {
			t.Errorf("%s, region: resolved %v, %v", name, report.Resolved, err)
		}
	}
}
