package ledger

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/journal"
	"github.com/evalrun/evalrun/reports"
)

// of is a finished attempt.
func of(model, instance string, number int, runKey string, outcome grading.Outcome) *reports.Attempt {
	a := finished(model)
	a.InstanceID, a.Attempt, a.RunKey, a.Outcome = instance, number, runKey, outcome
	return a
}

// What is found is of the attempt that was asked for, and the last of it; another one's
// result is found by its key as long as it is there.
func TestIndex(t *testing.T) {
	x := newIndex()
	at := func(e entry, ok bool) string { return fmt.Sprint(e.offset, " ", e.size, " ", ok) }
	for i, a := range []*reports.Attempt{
		of("a", "i", 1, "one", grading.Resolved), of("b", "i", 1, "one", grading.Unresolved), of("a", "i", 2, "two", grading.Resolved),
		of("a", "j", 1, "", grading.EmptyPatch), of("a", "j", 2, "three", grading.TimedOut),
	} {
		x.remember(a, journal.Place{Offset: int64(i+1) << 33, Size: i})
	}
	for id, want := range map[reports.AttemptID]string{
		{Model: "a", InstanceID: "i", Attempt: 1}: "8589934592 0 true", {Model: "b", InstanceID: "i", Attempt: 1}: "17179869184 1 true",
		{Model: "a", InstanceID: "i", Attempt: 2}: "25769803776 2 true", {Model: "a", InstanceID: "i", Attempt: 3}: "0 0 false",
		{Model: "i", InstanceID: "a", Attempt: 1}: "0 0 false", {Model: "a", InstanceID: "j", Attempt: 1}: "34359738368 3 true",
	} {
		if got := at(x.find(id)); got != want {
			t.Errorf("%+v is at %s, want %s", id, got, want)
		}
	}
	for key, want := range map[string]string{"one": "17179869184 1 true", "two": "25769803776 2 true", "": "0 0 false", "three": "0 0 false"} {
		if got := at(x.at(key)); got != want {
			t.Errorf("key %q is at %s, want %s", key, got, want)
		}
	}
	if e, _ := x.find(reports.AttemptID{Model: "b", InstanceID: "i", Attempt: 1}); x.outcome(e) != grading.Unresolved {
		t.Errorf("its outcome is %s", x.outcome(e))
	}
	x.forget(reports.AttemptID{Model: "b", InstanceID: "i", Attempt: 1})
	if got := at(x.at("one")); got != "0 0 false" {
		t.Errorf("of an attempt that is made anew there is %s", got)
	}
	x.remember(of("b", "i", 1, "one", grading.TimedOut), journal.Place{Offset: 1})
	if got := at(x.at("one")); got != "0 0 false" {
		t.Errorf("others may take a result that says nothing of their patch: %s", got)
	}
}

// TestIndexIsSmall: what is in memory of a finished attempt does not depend on its record,
// nor on how long names are.
func TestIndexIsSmall(t *testing.T) {
	const attempts, most = 100_000, 130
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	x := newIndex()
	for i := range attempts {
		a := of(fmt.Sprint("a model with a long name ", i%4), fmt.Sprintf("name__name-%05d", i/4%500), i/2000+1, fmt.Sprint(i), grading.Resolved)
		x.remember(a, journal.Place{Offset: int64(i) << 12, Size: 1 << 12})
	}
	each := (heap() - before) / attempts
	t.Logf("%d bytes of memory for an attempt", each)
	if each > most {
		t.Errorf("%d bytes of memory for an attempt, want at most %d", each, most)
	}
	runtime.KeepAlive(x)
}
