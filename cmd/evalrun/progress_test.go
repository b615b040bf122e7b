package main

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// tty is what a terminal of many columns shows after the bytes of out, for
// the few sequences that progress uses.
func tty(t *testing.T, out string) []string {
	t.Helper()
	out = regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(out, "")
	lines, row, col := [][]rune{nil}, 0, 0
	for out != "" {
		switch {
		case strings.HasPrefix(out, "\x1b[J"):
			lines[row] = lines[row][:min(col, len(lines[row]))]
			lines = lines[:row+1]
			out = out[len("\x1b[J"):]
			continue
		case strings.HasPrefix(out, lineUp):
			row--
			out = out[len(lineUp):]
			continue
		case out[0] == '\r':
			col = 0
		case out[0] == '\n':
			row, col = row+1, 0
			if row == len(lines) {
				lines = append(lines, nil)
			}
		case out[0] == '\x1b':
			t.Fatalf("a sequence that is not expected: %q", out[:min(len(out), 10)])
		default:
			r := []rune(out)[0]
			for len(lines[row]) <= col {
				lines[row] = append(lines[row], ' ')
			}
			lines[row][col] = r
			col++
			out = out[len(string(r)):]
			continue
		}
		out = out[1:]
	}
	var shown []string
	for _, line := range lines {
		shown = append(shown, strings.TrimRight(string(line), " "))
	}
	return shown
}

func TestPlainLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, false, 80, 10)
		p.Worker(1, "sympy__sympy-22005 tests")
		p.Note("a note\x1b[31m\nin two lines")
		p.Done("a__b-1", "resolved", 12.34)
		p.Done("evil\x1b[2J", "out_of_memory", 0)
		time.Sleep(31 * time.Second)
		p.Worker(1, "")
		time.Sleep(30 * time.Second)
		p.Done("a__b-2", "build_failed", 1)
		p.Close()
		p.Close()
		p.Done("late", "resolved", 1)
		p.Note("late")
		p.Worker(1, "late")
		want := `a note\x1b[31m
in two lines
[ 1/10] resolved      a__b-1  12.3s
[ 2/10] out_of_memory evil\x1b[2J  0.0s
[2/10] still running: w1 sympy__sympy-22005 tests 30s
[2/10] still running: no worker is busy
[ 3/10] build_failed  a__b-2  1.0s
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSilenceIsBrokenOnlyWhenNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, false, 80, 10)
		for range 10 {
			time.Sleep(20 * time.Second)
			p.Done("i", "unresolved", 20)
		}
		p.Close()
		if strings.Contains(out.String(), "still running") {
			t.Error(out.String())
		}
	})
}

func TestTerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, true, 100, 4)
		p.Worker(2, "django__django-11001 build")
		p.Worker(1, "sympy__sympy-22005 tests")
		time.Sleep(12*time.Second + redrawEvery/2) // past the last redrawing
		synctest.Wait()
		want := []string{
			"0% [                         ] (0/4) 0 resolved · 12s",
			"w1 sympy__sympy-22005 tests 12s | w2 django__django-11001 build 12s",
		}
		if diff := cmp.Diff(want, tty(t, out.String())); diff != "" {
			t.Error(diff)
		}

		p.Note("a note")
		p.Done("sympy__sympy-22005", "resolved", 12)
		p.Worker(1, "")
		p.Done("x", "infra_failed", 12)
		want = []string{
			"a note",
			"50% [===========>             ] (2/4) 1 resolved · 1 not evaluated · 9.8/min · ETA 12s · 12s",
			"w2 django__django-11001 build 12s",
		}
		if diff := cmp.Diff(want, tty(t, out.String())); diff != "" {
			t.Error(diff)
		}

		p.Worker(2, "")
		p.Done("y", "unresolved", 1)
		p.Done("z", "unresolved", 1)
		p.Close()
		want = []string{
			"a note",
			"100% [=========================] (4/4) 1 resolved · 1 not evaluated · 19.6/min · 12s",
			"",
		}
		if diff := cmp.Diff(want, tty(t, out.String())); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(out.String(), "\x1b[32m1 resolved\x1b[0m") {
			t.Error("no colours")
		}
	})
}

func TestNoColor(t *testing.T) {
	for env, sgr := range map[string]bool{"": true, "1": false} {
		t.Setenv("NO_COLOR", env)
		t.Setenv("TERM", "xterm")
		var out bytes.Buffer
		p := newProgress(&out, true, 80, 1)
		p.Done("a", "resolved", 1)
		p.Close()
		if got := regexp.MustCompile(`\x1b\[[0-9;]*m`).MatchString(out.String()); got != sgr {
			t.Errorf("NO_COLOR=%q: colours %v", env, got)
		}
	}
}

func TestDumbTerminalGetsPlainLines(t *testing.T) {
	t.Setenv("TERM", "dumb")
	var out bytes.Buffer
	p := newProgress(&out, true, 80, 1)
	p.Done("a", "resolved", 1)
	p.Close()
	if want := "[1/1] resolved      a  1.0s\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestLinesFitTheTerminal(t *testing.T) {
	for _, columns := range []int{20, 40, 80, 200} {
		t.Setenv("NO_COLOR", "1")
		t.Setenv("TERM", "xterm")
		var out bytes.Buffer
		p := newProgress(&out, true, columns, 500)
		for i := range 8 {
			p.Worker(i, "日本語__a-very-long-instance-name-12345 tests\x1b[2J")
			p.Done("x", "infra_failed", 1)
		}
		p.Close()
		for _, line := range tty(t, out.String()) {
			if n := twwidth.Width(line); n >= columns {
				t.Errorf("%d columns of %d: %q", n, columns, line)
			}
		}
	}
}

func TestMoreThanTheTotal(t *testing.T) {
	for _, total := range []int{0, -1, 1} {
		for _, terminal := range []bool{true, false} {
			t.Setenv("TERM", "xterm")
			var out bytes.Buffer
			p := newProgress(&out, terminal, 0, total)
			p.Done("a", "resolved", 1)
			p.Done("b", "resolved", 1)
			p.Close()
			if out.Len() == 0 {
				t.Errorf("total %d: nothing shown", total)
			}
		}
	}
}

// Nothing is written after Close, and many goroutines may write before: the
// race detector and the bubble's check for goroutines left over do the rest.
func TestManyGoroutines(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			p := newProgress(&out, terminal, 80, 400)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					for range 50 {
						p.Worker(i, "tests")
						time.Sleep(time.Second)
						p.Done("x", "resolved", 1)
						p.Note("n")
					}
				})
			}
			wg.Wait()
			p.Close()
			n := out.Len()
			p.Note("late")
			if !strings.Contains(out.String(), "400/400") || out.Len() != n {
				t.Errorf("%d bytes, then %d: …%s", n, out.Len(), out.String()[max(0, n-200):])
			}
		})
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestBrokenOutputDoesNotStopTheRun(t *testing.T) {
	p := newProgress(brokenPipe{}, true, 80, 1)
	p.Done("a", "resolved", 1)
	p.Close()
	if p.done != 1 {
		t.Errorf("counted %d", p.done)
	}
}
