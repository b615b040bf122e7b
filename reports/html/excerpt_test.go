package html

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports/results"
)

// excerptOf is the excerpt of a log as text: numbered lines, * before those that
// decide, ... where some are left out.
func excerptOf(t testing.TB, log string, it *results.Item) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(log), 0o644); err != nil {
		t.Fatal(err)
	}
	e, err := new(scratch).readLog(path, "log", it)
	if err != nil {
		t.Fatal(err)
	}
	marks := map[int]bool{}
	for _, m := range e.Marks {
		marks[m] = true
	}
	var out strings.Builder
	at := 1
	for _, p := range e.Parts {
		if p.From < at {
			t.Fatalf("a part begins at line %d, after line %d", p.From, at-1)
		}
		if p.From > at {
			fmt.Fprintln(&out, "...")
		}
		at = p.From
		for line := range strings.SplitSeq(p.Text, "\n") {
			sign := ""
			if marks[at] {
				sign = "*"
			}
			fmt.Fprintf(&out, "%s%d %s\n", sign, at, line)
			at++
		}
	}
	if at-1 > e.Lines {
		t.Fatalf("shows line %d of %d", at-1, e.Lines)
	}
	return out.String()
}

func failing(tests ...string) *results.Item {
	return &results.Item{Outcome: grading.Unresolved, FailToPass: &results.Tests{Failed: tests}}
}

func TestExcerpt(t *testing.T) {
	for what, c := range map[string]struct {
		log  string
		item *results.Item
		want string
	}{
		"the test that fails":      {"ok a\nFAILED b\n", failing("b"), "1 ok a\n*2 FAILED b\n"},
		"no longer name":           {"FAILED t::ab\nFAILED t::a_b\nFAILED t::a[1]\nxt::a\n", failing("t::a"), "1 FAILED t::ab\n2 FAILED t::a_b\n*3 FAILED t::a[1]\n4 xt::a\n"},
		"what made it so":          {"PASSED a\nPASSED b\n", &results.Item{Outcome: grading.Resolved, FailToPass: &results.Tests{Passed: []string{"b"}}}, "1 PASSED a\n*2 PASSED b\n"},
		"the patch does not apply": {">>>>> Patch Apply Failed:\nx\n", failing(), "*1 >>>>> Patch Apply Failed:\n2 x\n"},
		"colours, unseen, ends":    {"\x1b[31mred\x1b[0m\ta\u202eb\x07\r\n\n", failing(), "1 red\ta\\u202eb\\x07\n2 \n"},
		"no end of a last line":    {"a\nb", failing(), "1 a\n2 b\n"},
		"no bytes":                 {"", failing(), "1 \n"},
		"an endless line":          {strings.Repeat("x", 5000), failing(), "1 " + strings.Repeat("x", mostLine) + " …\n"},
	} {
		if got := excerptOf(t, c.log, c.item); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", what, got, c.want)
		}
	}
}

// TestExcerptOfLongLog shows both ends and what is around the line that decides.
func TestExcerptOfLongLog(t *testing.T) {
	var log strings.Builder
	for n := range 5000 {
		fmt.Fprintf(&log, "line %d\n", n+1)
		if n == 2500 {
			fmt.Fprintln(&log, "FAILED me")
		}
	}
	got := strings.Split(strings.TrimSpace(excerptOf(t, log.String(), failing("me"))), "\n")
	if want := headLines + 1 + 2*around + 1 + 1 + tailLines; len(got) != want {
		t.Errorf("%d lines, want %d", len(got), want)
	}
	for at, want := range map[int]string{0: "1 line 1", headLines: "...", headLines + 1 + around: "*2502 FAILED me", len(got) - 1: "5001 line 5000"} {
		if got[at] != want {
			t.Errorf("line %d is %q, want %q", at, got[at], want)
		}
	}
}

// TestExcerptOfHugeLog: the middle is not looked at, and lines keep their numbers.
func TestExcerptOfHugeLog(t *testing.T) {
	const line = "0123456789012345678901234567890123456789012345678901234567890\n"
	n := 3*scanned/len(line) + 7
	got := excerptOf(t, strings.Repeat(line, n)+"FAILED me\n", failing("me"))
	if want := fmt.Sprintf("*%d FAILED me\n", n+1); !strings.HasSuffix(got, want) {
		t.Errorf("ends with %q, want %q", got[len(got)-60:], want)
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add("PASSED a\nFAILED b\n", "b")
	f.Add("\x1b[31m\xff\r\n\t\n", "")
	f.Add(strings.Repeat("line\n", 9000), "line")
	f.Fuzz(func(t *testing.T, log, test string) {
		got := excerptOf(t, log, failing(test))
		for _, r := range got {
			if r < ' ' && r != '\n' && r != '\t' || r == 0x202e {
				t.Fatalf("shows %q", r)
			}
		}
	})
}
