package schedule

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An instance's own runs count before its repository's, and those before all others.
func TestEstimateLevels(t *testing.T) {
	h := NewHistory()
	if e := h.Estimate("a-1", "a"); e.Level != Guessed || e.Seconds != guessedSeconds {
		t.Errorf("nothing is known, and yet: %+v", e)
	}
	for range 20 {
		h.Observe(Observation{Instance: "a-1", Repo: "a", Seconds: 100, CPUSeconds: 150, MemoryBytes: 1 << 30, DiskBytes: 1 << 20})
		h.Observe(Observation{Instance: "b-1", Repo: "b", Seconds: 10, CPUSeconds: 5, MemoryBytes: 1 << 20})
	}
	tests := []struct {
		instance, repo string
		level          Level
		low, high      float64
		needs          Resources
	}{
		{"a-1", "a", ByInstance, 98, 105, Resources{1.5, 1 << 30, 1 << 20}},
		{"a-2", "a", ByRepo, 90, 160, Resources{1.5, 1 << 30, 1 << 20}},
		{"b-1", "b", ByInstance, 9.8, 10.5, Resources{0.5, 1 << 20, 0}},
		{"c-1", "c", ByDefault, 10, 120, Resources{1.5, 1 << 30, 1 << 20}},
	}
	for _, tt := range tests {
		e := h.Estimate(tt.instance, tt.repo)
		if e.Level != tt.level || e.Seconds < tt.low || e.Seconds > tt.high {
			t.Errorf("%s: %.1f s by %s, want %.1f to %.1f by %s", tt.instance, e.Seconds, e.Level, tt.low, tt.high, tt.level)
		}
		if n := e.Needs; math.Abs(n.CPUs-tt.needs.CPUs) > 0.01 || math.Abs(float64(n.MemoryBytes-tt.needs.MemoryBytes)) > 2 || n.DiskBytes-tt.needs.DiskBytes > 2 {
			t.Errorf("%s: needs %+v, want %+v", tt.instance, e.Needs, tt.needs)
		}
	}
}

// A machine that has become slower is noticed.
func TestLaterRunsWeighMore(t *testing.T) {
	h := NewHistory()
	for range 100 {
		h.Observe(Observation{Instance: "i", Repo: "r", Seconds: 10})
	}
	for range 20 {
		h.Observe(Observation{Instance: "i", Repo: "r", Seconds: 40})
	}
	if s := h.Estimate("i", "r").Seconds; s < 30 || s > 60 {
		t.Errorf("after twenty runs of 40 s, %.1f s are expected", s)
	}
}

// What is observed is there for the next run, torn lines and rubbish are not in
// the way, and two processes may write at a time.
func TestHistoryFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "history.jsonl")
	one, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	two, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		one.Observe(Observation{Instance: "a", Repo: "r", Seconds: 5})
		two.Observe(Observation{Instance: "b", Repo: "r", Seconds: 50})
	}
	one.Observe(Observation{Instance: "never", Seconds: 0})
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, "%s\n{\"i\":\"c\",\"s\":-1}\nnonsense\n{\"i\":\"torn\",\"s\":7", strings.Repeat("x", 1<<20))
	f.Close()
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	again, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	for instance, want := range map[string]Level{"a": ByInstance, "b": ByInstance, "c": ByRepo, "torn": ByRepo, "never": ByRepo} {
		if got := again.Estimate(instance, "r").Level; got != want {
			t.Errorf("%s is known by %s, want by %s", instance, got, want)
		}
	}
}

// A history grows for ever only in principle.
func TestHistoryIsShortened(t *testing.T) {
	const keep = 1000
	path := filepath.Join(t.TempDir(), "history.jsonl")
	var b strings.Builder
	for i := range keep + 10 {
		fmt.Fprintf(&b, "{\"i\":\"i-%d\",\"r\":\"r\",\"s\":1}\n", i)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openHistory(path, keep); err != nil {
		t.Fatal(err)
	}
	again, err := openHistory(path, keep)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(again.instances); n < keep*4/10 || n > keep*6/10 {
		t.Errorf("%d instances are left of %d, want half", n, keep+10)
	}
	if again.instances[fmt.Sprint("i-", keep+9)] == nil || again.instances["i-0"] != nil {
		t.Error("the wrong half is left")
	}
}

// That nothing can be written is told once, and stops nothing.
func TestHistoryThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h := NewHistory()
	h.path = filepath.Join(dir, "file", "history.jsonl")
	h.Observe(Observation{Instance: "a", Repo: "r", Seconds: 5})
	h.Observe(Observation{Instance: "a", Repo: "r", Seconds: 5})
	if h.Estimate("a", "r").Level != ByInstance {
		t.Error("it is not remembered either")
	}
	if h.Close() == nil {
		t.Error("nobody is told")
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte("{\"i\":\"a\",\"r\":\"b\",\"s\":1e300,\"m\":-1}\n{}"))
	f.Add([]byte("{\"i\":\"a\",\"r\":\"b\",\"s\":12,\"c\":1e308,\"m\":9223372036854775807}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h := NewHistory()
		if _, err := h.read(strings.NewReader(string(data))); err != nil {
			t.Fatal(err)
		}
		e := h.Estimate("a", "b")
		if !(e.Seconds > 0) || math.IsInf(e.Seconds, 0) || e.Needs.MemoryBytes < 0 || math.IsNaN(e.Needs.CPUs) {
			t.Errorf("%+v", e)
		}
	})
}
