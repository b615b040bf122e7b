package ledger

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// call is one call of a run: whether it is fresh, how many attempts it left to be
// made at its end, or that it was killed before.
type call struct {
	fresh bool
	left  int // below 0 is killed
}

const (
	killed  = -1
	through = 0
)

func finished(model string) *reports.Attempt {
	return &reports.Attempt{
		SchemaVersion: reports.AttemptSchema, InstanceID: "o__r-1", Model: model, RunID: "run", Key: "key", RunKey: "run key " + "0123456789",
		Outcome: grading.Resolved, Verdict: &grading.Report{Resolved: true, Found: true}, Rules: "swebench-5", LogParser: "x",
	}
}

// ofCall makes a call of a run: what it finds of its own, and then finishes.
func ofCall(t *testing.T, o Options, c call) (found bool) {
	t.Helper()
	o.Fresh = c.fresh
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Begin(reports.RunEvent{Run: reports.RunRecord{RunID: "run", Models: []string{"m"}}}); err != nil {
		t.Fatal(err)
	}
	a, err := l.Result(t.Context(), finished("m"), &datasets.Instance{ID: "o__r-1"})
	if err != nil {
		t.Fatal(err)
	}
	if a == nil {
		if err := l.Started(finished("m")); err != nil {
			t.Fatal(err)
		}
		if err := l.Finished(logged(t, l, "m", "log")); err != nil {
			t.Fatal(err)
		}
	}
	if c.fresh {
		if b, err := l.Result(t.Context(), finished("another"), &datasets.Instance{ID: "o__r-1"}); b != nil || err != nil {
			t.Errorf("a fresh call takes another model's result: %v, %v", b, err)
		}
	}
	if c.left != killed {
		if err := l.End(reports.RunRecord{RunID: "run"}, c.left); err != nil {
			t.Fatal(err)
		}
	}
	return a != nil
}

// TestFresh: a fresh call goes on from fresh ones that were not through, and from no
// other; one that is not fresh goes on from all.
func TestFresh(t *testing.T) {
	for name, c := range map[string]struct {
		before []call
		fresh  bool
		want   bool
	}{
		"nothing":                                    {nil, true, false},
		"a fresh one that was killed":                {[]call{{true, killed}}, true, true},
		"a fresh one that left some":                 {[]call{{true, 3}}, true, true},
		"two fresh ones":                             {[]call{{true, killed}, {true, 1}}, true, true},
		"a fresh one that was through":               {[]call{{true, through}}, true, false},
		"an ordinary one that was killed":            {[]call{{false, killed}}, true, false},
		"an ordinary one that was through":           {[]call{{false, through}}, true, false},
		"a fresh one, and then an ordinary one":      {[]call{{true, killed}, {false, killed}}, true, false},
		"an ordinary one, and then a fresh one":      {[]call{{false, through}, {true, killed}}, true, true},
		"ordinary, of a fresh one that was killed":   {[]call{{true, killed}}, false, true},
		"ordinary, of a fresh one that was through":  {[]call{{true, through}}, false, true},
		"ordinary, of an ordinary one":               {[]call{{false, killed}}, false, true},
		"fresh ones, killed and then through":        {[]call{{true, killed}, {true, through}}, true, false},
		"through, and a fresh one that left nothing": {[]call{{true, through}, {true, through}}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Layout: reports.Layout{Root: t.TempDir()}, RunID: "run"}
			for _, before := range c.before {
				ofCall(t, o, before)
			}
			o.Fresh = c.fresh
			known, err := Finished(o)
			if len(c.before) > 0 && (err != nil || (known(finished("m").ID()) == grading.Resolved) != c.want || known(finished("another").ID()) != "") {
				t.Errorf("the plan knows of %q, %v", known(finished("m").ID()), err)
			}
			if got := ofCall(t, o, call{c.fresh, killed}); got != c.want {
				t.Errorf("finds its own result: %v, want %v", got, c.want)
			}
		})
	}
}

// TestAttempt: what is finished is read back from the journal.
func TestAttempt(t *testing.T) {
	o := Options{Layout: reports.Layout{Root: t.TempDir()}, RunID: "run"}
	ofCall(t, o, call{false, through})
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := l.Attempt(finished("m").ID())
	if err != nil || a.Outcome != grading.Resolved || a.Key != "key" {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := l.Attempt(finished("another").ID()); err == nil {
		t.Errorf("an attempt that was never made is %+v", a)
	}
}

// A log is put in place whole, or what was there stays; which side failed is told.
func TestPlace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "test_output.txt")
	broken := errors.New("broken")
	for _, c := range []struct {
		what, path string
		log        io.Reader
		want       string // the log there is then
		err        error
		ours       bool // it is the side that is written
	}{
		{"none, where none is", path, nil, "", nil, false},
		{"a log", path, strings.NewReader("one"), "one", nil, false},
		{"another", path, strings.NewReader("two"), "two", nil, false},
		{"one that breaks off", path, io.MultiReader(strings.NewReader("three"), iotest.ErrReader(broken)), "two", broken, false},
		{"below a file", filepath.Join(path, "x"), strings.NewReader("four"), "two", errPlace, true},
		{"none", path, nil, "", nil, false},
	} {
		err := place(c.path, c.log)
		if !errors.Is(err, c.err) || errors.Is(err, errPlace) != c.ours {
			t.Errorf("%s: %v", c.what, err)
		}
		if text, _ := os.ReadFile(path); string(text) != c.want {
			t.Errorf("%s: there is %q, want %q", c.what, text, c.want)
		}
		if files, _ := os.ReadDir(filepath.Dir(path)); len(files) > 1 {
			t.Errorf("%s: left are %v", c.what, files)
		}
	}
}

// logged is a finished attempt whose log lies in place.
func logged(t *testing.T, l *Ledger, model, log string) *reports.Attempt {
	t.Helper()
	a := finished(model)
	a.LogBytes = int64(len(log))
	if err := place(l.files(a).TestOutput, strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	return a
}

// begin opens a run and begins a call of it.
func begin(t *testing.T, o Options) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Begin(reports.RunEvent{Run: reports.RunRecord{RunID: "run", Models: []string{"m", "new"}}}); err != nil {
		t.Fatal(err)
	}
	return l
}

// An earlier record does not count any more, on disk, before its files are touched, also
// in a call that takes none of earlier ones. Where there is none, nothing is waited for.
func TestStartedIsOnDisk(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		o := Options{Layout: reports.Layout{Root: t.TempDir()}, RunID: "run"}
		l := begin(t, o)
		if err := errors.Join(l.Finished(logged(t, l, "m", "log")), l.End(reports.RunRecord{RunID: "run"}, 0), l.Close()); err != nil {
			t.Fatal(err)
		}
		o.Fresh = fresh
		l = begin(t, o)
		defer l.Close()
		if !l.Holds(finished("m").ID()) || l.Holds(finished("new").ID()) {
			t.Errorf("fresh %v: it holds %v and %v", fresh, l.Holds(finished("m").ID()), l.Holds(finished("new").ID()))
		}
		size := func() int64 {
			info, err := os.Stat(o.Layout.JournalFile("run"))
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		before := size()
		if err := l.Started(finished("new")); err != nil || size() != before {
			t.Errorf("fresh %v: of a new one %d bytes are written, %v", fresh, size()-before, err)
		}
		if err := l.Started(finished("m")); err != nil || size() == before || l.Holds(finished("m").ID()) {
			t.Errorf("fresh %v: of one with a record %d bytes are written, %v", fresh, size()-before, err)
		}
		known, err := Finished(Options{Layout: o.Layout, RunID: "run"}) // as if the call were killed now
		if err != nil || known(finished("m").ID()) != "" {
			t.Errorf("fresh %v: the journal still has %q, %v", fresh, known(finished("m").ID()), err)
		}
	}
}

// A record whose log is gone, or is another one, is none.
func TestLogOfARecord(t *testing.T) {
	for what, c := range map[string]struct {
		change func(path string) error
		want   bool
	}{
		"as it was":  {func(string) error { return nil }, true},
		"gone":       {os.Remove, false},
		"cut off":    {func(path string) error { return os.Truncate(path, 1) }, false},
		"another":    {func(path string) error { return os.WriteFile(path, []byte("another log"), 0o644) }, false},
		"of no size": {func(path string) error { return os.Truncate(path, 0) }, false},
	} {
		t.Run(what, func(t *testing.T) {
			var warned []string
			o := Options{Layout: reports.Layout{Root: t.TempDir()}, RunID: "run", Warn: func(text string) { warned = append(warned, text) }}
			l := begin(t, o)
			a := logged(t, l, "m", "log")
			if err := errors.Join(l.Finished(a), l.Close(), c.change(l.files(a).TestOutput)); err != nil {
				t.Fatal(err)
			}
			l = begin(t, o)
			defer l.Close()
			earlier, err := l.Earlier(a.ID())
			if err != nil || (earlier != nil) != c.want {
				t.Errorf("earlier: %v, %v", earlier, err)
			}
			found, err := l.Result(t.Context(), a, &datasets.Instance{ID: a.InstanceID})
			if err != nil || (found != nil) != c.want {
				t.Errorf("result: %v, %v", found, err)
			}
			other, err := l.Result(t.Context(), finished("new"), &datasets.Instance{ID: a.InstanceID})
			if err != nil || (other != nil) != c.want {
				t.Errorf("another model's: %v, %v", other, err)
			}
			if len(warned) > 1 || (len(warned) == 0) != c.want {
				t.Errorf("warned %q", warned)
			}
		})
	}
}
