package logparse

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
)

// Status is what a log said of one test. Parsers of the pytest family take the
// word as it stands in the log, so values other than the constants occur.
type Status string

// The statuses that mean something to grading.
const (
	Passed  Status = "PASSED"
	Failed  Status = "FAILED"
	Skipped Status = "SKIPPED"
	Error   Status = "ERROR"
	XFail   Status = "XFAIL"
)

// Statuses holds the status of each test, in the order in which the tests first
// appeared in the log. The order matters to one grading rule (cut ids), and to
// people who read the output. The zero value is empty and ready to use; copies are
// for reading only.
//
// A log can have a million tests, and most of a parser's time would go into a map
// of them. This is a plain hash table that keeps the hashes in its slots, so that
// neither looking up nor growing reads names that are not meant.
type Statuses struct {
	names []string
	codes []uint32         // status of each name: see code
	slots []uint64         // hash << 32 | index into names + 1; 0 is free; a power of 2 long
	arena *strings.Builder // names are cut from it

	words    []Status // statuses that are none of the constants
	oddWords map[Status]uint32

	// What a name had before, the first time it was set to something else. It is
	// evidence: runners say one thing of a test, or the same twice.
	before map[uint32]uint32
}

// maxLoad is how many of eight slots are in use at most.
const maxLoad = 5

// maxConflicts bounds what is kept of them.
const maxConflicts = 10000

// knownWords have codes of their own.
var knownWords = [...]Status{Passed, Failed, Skipped, Error, XFail}

// arenaSize is how many bytes of names are allocated at once.
const arenaSize = 1 << 15

var hashSeed = maphash.MakeSeed()

// StatusesOf makes Statuses of name, status pairs in the given order.
func StatusesOf(pairs ...string) Statuses {
	var s Statuses
	for i := 0; i+1 < len(pairs); i += 2 {
		s.Set(pairs[i], Status(pairs[i+1]))
	}
	return s
}

// Set records a status; a later one for the same name replaces the earlier.
// The name is copied, so that statuses do not keep a whole log in memory.
func (s *Statuses) Set(name string, status Status) {
	code := s.code(status)
	hash := hashOf(name)
	slot, found := s.find(name, hash)
	if found {
		i := indexIn(s.slots[slot])
		if s.codes[i] != code && len(s.before) < maxConflicts {
			if s.before == nil {
				s.before = map[uint32]uint32{}
			}
			if _, told := s.before[i]; !told {
				s.before[i] = s.codes[i]
			}
		}
		s.codes[i] = code
		return
	}
	if len(s.names) >= len(s.slots)*maxLoad/8 {
		s.grow()
		slot, _ = s.find(name, hash)
	}
	s.names = append(s.names, s.keep(name))
	s.codes = append(s.codes, code)
	s.slots[slot] = uint64(hash)<<32 | uint64(len(s.names))
}

// indexIn is the index into names that a slot in use holds.
func indexIn(slot uint64) uint32 { return uint32(slot) - 1 }

func hashOf(name string) uint32 { return uint32(maphash.String(hashSeed, name)) }

// code numbers a status.
func (s *Statuses) code(status Status) uint32 {
	for i, word := range knownWords {
		if word == status {
			return uint32(i)
		}
	}
	code, known := s.oddWords[status]
	if !known {
		status = Status(strings.Clone(string(status)))
		s.words = append(s.words, status)
		code = uint32(len(knownWords) + len(s.words) - 1)
		if s.oddWords == nil {
			s.oddWords = map[Status]uint32{}
		}
		s.oddWords[status] = code
	}
	return code
}

func (s Statuses) word(code uint32) Status {
	if int(code) < len(knownWords) {
		return knownWords[code]
	}
	return s.words[int(code)-len(knownWords)]
}

// find returns the slot that holds the name, or the free one it would go to.
func (s *Statuses) find(name string, hash uint32) (slot int, found bool) {
	if len(s.slots) == 0 {
		return 0, false
	}
	mask := uint32(len(s.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		slot := s.slots[at]
		if slot == 0 {
			return int(at), false
		}
		if uint32(slot>>32) == hash && s.names[indexIn(slot)] == name {
			return int(at), true
		}
	}
}

func (s *Statuses) grow() {
	old := s.slots
	s.slots = make([]uint64, max(64, 2*len(old)))
	room := len(s.slots)*maxLoad/8 - len(s.names) + 1
	s.names, s.codes = slices.Grow(s.names, room), slices.Grow(s.codes, room)
	mask := uint32(len(s.slots) - 1)
	for _, slot := range old {
		if slot == 0 {
			continue
		}
		at := uint32(slot>>32) & mask
		for s.slots[at] != 0 {
			at = (at + 1) & mask
		}
		s.slots[at] = slot
	}
}

// keep copies a name into the arena. What a Builder has written never moves while
// it has room, so the strings cut from it stay good.
func (s *Statuses) keep(name string) string {
	if len(name) > arenaSize/8 {
		return strings.Clone(name)
	}
	if s.arena == nil || s.arena.Len()+len(name) > s.arena.Cap() {
		s.arena = new(strings.Builder)
		s.arena.Grow(min(arenaSize, 256+64*len(s.names)))
		if s.arena.Cap() < len(name) {
			s.arena.Grow(len(name))
		}
	}
	from := s.arena.Len()
	s.arena.WriteString(name)
	return s.arena.String()[from:]
}

// Get returns the status of a test and whether the log had one.
func (s Statuses) Get(name string) (Status, bool) {
	slot, found := s.find(name, hashOf(name))
	if !found {
		return "", false
	}
	return s.word(s.codes[indexIn(s.slots[slot])]), true
}

// Before returns what the log said of a test first, where it says different things
// of it.
func (s Statuses) Before(name string) (Status, bool) {
	slot, found := s.find(name, hashOf(name))
	if !found {
		return "", false
	}
	code, ok := s.before[indexIn(s.slots[slot])]
	return s.word(code), ok
}

// Len returns the number of tests.
func (s Statuses) Len() int { return len(s.names) }

// At returns the i-th test in order of first appearance.
func (s Statuses) At(i int) (string, Status) { return s.names[i], s.word(s.codes[i]) }

// All yields every test in order of first appearance.
func (s Statuses) All() iter.Seq2[string, Status] {
	return func(yield func(string, Status) bool) {
		for i, name := range s.names {
			if !yield(name, s.word(s.codes[i])) {
				return
			}
		}
	}
}

// Map returns a copy without order.
func (s Statuses) Map() map[string]Status {
	m := make(map[string]Status, len(s.names))
	for name, status := range s.All() {
		m[name] = status
	}
	return m
}

// MarshalJSON writes an object whose keys keep the order of the log.
func (s Statuses) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	write := func(v string) error {
		if err := enc.Encode(v); err != nil {
			return err
		}
		buf.Truncate(buf.Len() - 1) // Encode ends every value with a newline
		return nil
	}
	buf.WriteByte('{')
	for i, name := range s.names {
		if i > 0 {
			buf.WriteByte(',')
		}
		if err := write(name); err != nil {
			return nil, err
		}
		buf.WriteByte(':')
		if err := write(string(s.word(s.codes[i]))); err != nil {
			return nil, err
		}
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}
