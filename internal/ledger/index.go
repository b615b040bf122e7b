package ledger

import (
	"crypto/sha256"
	"maps"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/journal"
	"github.com/evalrun/evalrun/reports"
)

// index says where in the journal the records of finished attempts are. There may be a
// million, so that all it has of one are numbers; what else is asked of an attempt is in
// its record.
type index struct {
	done map[attempt]entry
	ran  map[runKey]attempt // whose result others may take, if it is still of that key
	// past are records that this call takes nothing of, and that count again for another
	// one as long as their attempt is not begun anew.
	past map[attempt]entry

	names   []string // of models, instances and outcomes
	numbers map[string]uint32
}

// attempt is a reports.AttemptID.
type attempt struct{ model, instance, number uint32 }

// entry is where the record of a finished attempt is, and what came of it.
type entry struct {
	offset int64
	size   uint32
	result uint32
}

// runKey is the beginning of a digest of the RunKey of a record. The record has all of
// it, and is asked before a result is taken.
type runKey [16]byte

func newIndex() index {
	return index{done: map[attempt]entry{}, ran: map[runKey]attempt{}, past: map[attempt]entry{}, numbers: map[string]uint32{}}
}

func (x *index) number(name string) uint32 {
	i, ok := x.numbers[name]
	if !ok {
		i = uint32(len(x.names))
		x.names, x.numbers[name] = append(x.names, name), i
	}
	return i
}

func (x *index) attempt(id reports.AttemptID) attempt {
	return attempt{x.number(id.Model), x.number(id.InstanceID), uint32(id.Attempt)}
}

func shortKey(text string) runKey {
	sum := sha256.Sum256([]byte(text))
	return runKey(sum[:])
}

func (x *index) remember(a *reports.Attempt, place journal.Place) {
	id := x.attempt(a.ID())
	x.done[id] = entry{place.Offset, uint32(place.Size), x.number(string(a.Outcome))}
	delete(x.past, id)
	key := shortKey(a.RunKey)
	if a.ReusedFrom == nil && shareable(a) {
		x.ran[key] = id
	} else if x.ran[key] == id {
		delete(x.ran, key) // it was made again, and what came of it now is not for others
	}
}

// forget is for an attempt that is made anew: its old log is gone. It reports whether
// there was a record of it.
func (x *index) forget(id reports.AttemptID) bool {
	n := x.attempt(id)
	_, done := x.done[n]
	_, past := x.past[n]
	delete(x.done, n)
	delete(x.past, n)
	return done || past
}

// setAside has a record count for nothing in this call.
func (x *index) setAside(id reports.AttemptID) {
	n := x.attempt(id)
	if e, ok := x.done[n]; ok {
		x.past[n] = e
		delete(x.done, n)
	}
}

// startOver sets all records aside.
func (x *index) startOver() {
	maps.Copy(x.past, x.done)
	x.done, x.ran = map[attempt]entry{}, map[runKey]attempt{}
}

// last gives the entry of an attempt's last record, whether it counts or not.
func (x *index) last(id reports.AttemptID) (entry, bool) {
	if e, ok := x.find(id); ok {
		return e, true
	}
	e, ok := x.past[x.attempt(id)]
	return e, ok
}

// find gives the entry of an attempt.
func (x *index) find(id reports.AttemptID) (entry, bool) {
	e, ok := x.done[x.attempt(id)]
	return e, ok
}

// at gives the entry of the attempt that was the last to have a run key. It may have been
// made again since, with another.
func (x *index) at(key string) (entry, bool) {
	id, ok := x.ran[shortKey(key)]
	if !ok {
		return entry{}, false
	}
	e, ok := x.done[id]
	return e, ok
}

func (x *index) outcome(e entry) grading.Outcome { return grading.Outcome(x.names[e.result]) }

func (e entry) place() journal.Place { return journal.Place{Offset: e.offset, Size: int(e.size)} }
