package screen

import (
	"encoding/binary"
	"math/bits"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// automaton runs a program over texts, in a step per character whatever the texts
// are. Its states are made as texts lead to them. It is of one patch, so that nobody
// shares it.
type automaton struct {
	p      *program
	w      walk
	states []state
	places []uint16 // of all states
	known  []uint16 // states by their hash, 0 is none
	ways   []ways   // from each state
	leads  []lead
	finds  []find
	findOf map[string]uint16
	key    []byte   // being made
	wide   []uint16 // likewise, of the base of a state
	room   int      // for states
	rounds int      // how often all was forgotten

	found []found  // by fragment
	dirty []uint16 // fragments that were found
	again *int     // bytes that may be held against expressions once more, whichever automaton does
}

// state is what is known after some characters: of what kind the last of them was, and
// where in the program one may be.
//
// Most letters end most of what has begun. So a state has a base, which has of those
// places the ones that go on with many letters, such as those in any word; where the
// others do not go on, the ways of the base are those of the state.
type state struct {
	kind     int
	from, to int // automaton.places
	hash     uint32
	base     uint16 // itself if it has none
	own      letterSet
}

// ways lead from a state, by letter: to a state, or from maxStates on by a lead.
type ways [letters]uint16

// lead is a way on which something is found.
type lead struct{ to, find uint16 }

// find is what is found at once.
type find struct {
	whole verdict  // expressions of one fragment
	parts []uint16 // fragments of others
}

// found is where a fragment ended, together with what has to be before it.
type found struct {
	first, last int // 0 is nowhere
	sure        bool
}

// unknown is a way that has not been made yet; no state leads back to the first.
const unknown = 0

// maxStates bounds the memory of an automaton, which begins anew when there are more,
// and so does maxLeads.
const (
	maxStates = 16 << 10
	maxLeads  = 1<<16 - maxStates
)

// again is how much text is held against expressions once more, to tell whether parts
// that were found are as far apart as they may be. Beyond it they count as if they were:
// a patch with so many lines that come so close to a rule is for a person to look at,
// and not to be read for seconds.
const again = 16 << 10

func newAutomaton(p *program, again *int) *automaton {
	a := &automaton{p: p, w: newWalk(p), found: make([]found, len(p.fragments)), again: again, room: maxStates}
	a.forget()
	return a
}

// forget drops all states but the first.
func (a *automaton) forget() {
	a.rounds++
	a.states, a.ways = append(a.states[:0], state{kind: beginning}), append(a.ways[:0], ways{})
	a.leads, a.places, a.known = a.leads[:0], a.places[:0], make([]uint16, 512)
	a.finds, a.findOf = append(a.finds[:0], find{}), map[string]uint16{"": 0}
}

// read tells which expressions a text matches.
func (a *automaton) read(text string) verdict {
	v := a.p.always
	letter, ways, now, at := &a.p.letter, a.ways, uint16(0), 1
	for i := 0; i < len(text); at++ {
		c := uint8(0)
		if text[i] < utf8.RuneSelf {
			c = letter[text[i]]
			i++
		} else {
			_, size := utf8.DecodeRuneInString(text[i:])
			c, i = letter[other], i+size
		}
		to := ways[now][c%letters]
		if to == unknown {
			to = a.step(now, c)
			ways = a.ways
		}
		if to >= maxStates {
			to = a.follow(to, at, &v)
		}
		now = to
	}
	c := letter[end]
	to := a.ways[now][c]
	if to == unknown {
		to = a.step(now, c)
	}
	a.follow(to, at, &v)
	if len(a.dirty) > 0 {
		a.settle(text, &v)
	}
	return v
}

// follow takes in what is found on a way, and gives the state it leads to. at counts
// characters, from 1.
func (a *automaton) follow(way uint16, at int, v *verdict) uint16 {
	l := a.leads[way-maxStates]
	f := &a.finds[l.find]
	v.add(&f.whole)
	for _, n := range f.parts {
		here := found{at, at, false}
		if f := &a.p.fragments[n]; f.nth > 0 {
			possible, sure := f.after(&a.found[n-1], at)
			if !possible {
				continue
			}
			here.sure = sure
		}
		was := &a.found[n]
		if was.first == 0 {
			*was = here
			a.dirty = append(a.dirty, n)
		} else {
			was.last, was.sure = at, was.sure || here.sure
		}
	}
	return l.to
}

// after reports whether a fragment that ends at a place may be one after those before
// it, and whether it surely is: where it begins depends on how long it is.
func (f *fragment) after(before *found, at int) (possible, sure bool) {
	if before.first == 0 || before.first > at-f.min {
		return false, false
	}
	if f.within >= 0 && f.max >= 0 && before.last < at-f.max-f.within {
		return false, false
	}
	if f.loose || f.max < 0 {
		return true, false
	}
	near := before.last
	if near > at-f.max {
		near = before.first
	}
	return true, near <= at-f.max && (f.within < 0 || near >= at-f.min-f.within)
}

// settle tells which expressions match by the parts that were found.
func (a *automaton) settle(text string, v *verdict) {
	for _, n := range a.dirty {
		f, was := &a.p.fragments[n], a.found[n]
		a.found[n] = found{}
		s := &a.p.sequences[f.sequence]
		if !f.last || v[s.role]&(1<<s.rule) != 0 {
			continue
		}
		if !was.sure && (s.role == excusing || *a.again >= len(text)) {
			*a.again -= len(text)
			was.sure = s.whole().MatchString(text)
		} else {
			was.sure = true
		}
		if was.sure {
			v[s.role] |= 1 << s.rule
		}
	}
	a.dirty = a.dirty[:0]
}

// step makes the way from a state by a letter.
func (a *automaton) step(from uint16, letter uint8) uint16 {
	s, round, to := a.states[from], a.rounds, uint16(unknown)
	if s.base != from && !s.own.has(letter) {
		if to = a.ways[s.base][letter]; to == unknown {
			to = a.step(s.base, letter)
		}
	} else {
		a.w.reset()
		for _, pc := range a.places[s.from:s.to] {
			if a.p.ahead[s.kind][pc].has(letter) {
				a.w.from(uint32(pc), s.kind, letter)
			}
		}
		begun := &a.p.fresh[s.kind][letter]
		a.w.next, a.w.fired = append(a.w.next, begun.next...), append(a.w.fired, begun.fired...)
		slices.Sort(a.w.next)
		slices.Sort(a.w.fired)
		to = a.way(slices.Compact(a.w.next), slices.Compact(a.w.fired), letter)
	}
	if a.rounds == round {
		a.ways[from][letter] = to
	}
	return to
}

// way leads by a letter to where the program is after it.
func (a *automaton) way(at, fired []uint16, letter uint8) uint16 {
	to := uint16(0)
	if r := a.p.sample[letter]; r >= 0 {
		if to = a.state(at, kindOf(r)); len(fired) == 0 {
			return to
		}
	}
	a.key = a.key[:0]
	for _, n := range fired {
		a.key = binary.LittleEndian.AppendUint16(a.key, n)
	}
	find, ok := a.findOf[string(a.key)]
	if !ok {
		find = a.find(fired)
		a.findOf[string(a.key)] = find
	}
	a.leads = append(a.leads, lead{to, find})
	return uint16(maxStates + len(a.leads) - 1)
}

func (a *automaton) find(fired []uint16) uint16 {
	var x find
	for _, n := range fired {
		f := &a.p.fragments[n]
		if s := &a.p.sequences[f.sequence]; f.last && f.nth == 0 && !f.loose {
			x.whole[s.role] |= 1 << s.rule
		} else {
			x.parts = append(x.parts, n)
		}
	}
	a.finds = append(a.finds, x)
	return uint16(len(a.finds) - 1)
}

func kindOf(r rune) int {
	switch {
	case syntax.IsWordChar(r):
		return wordChar
	case r == '\n':
		return newline
	}
	return anything
}

// state is the one at these places, made if it is new.
func (a *automaton) state(at []uint16, kind int) uint16 {
	hash := uint32(kind + 1)
	for _, pc := range at {
		hash = (hash ^ uint32(pc)) * 0x9e3779b1
	}
	for i := a.slot(hash); a.known[i] != 0; i = (i + 1) % len(a.known) {
		n := a.known[i]
		if s := &a.states[n]; s.hash == hash && s.kind == kind && slices.Equal(a.places[s.from:s.to], at) {
			return n
		}
	}
	if len(a.states) > a.room-3 || len(a.leads) == maxLeads { // it, its base, and the base of that
		a.forget()
	}
	s := state{kind: kind, hash: hash}
	var row ways
	if len(at) > 0 {
		s.base, s.own = a.base(at, kind)
		row = a.ways[s.base]
		for i, word := range s.own {
			for ; word != 0; word &= word - 1 {
				row[64*i+bits.TrailingZeros64(word)] = unknown
			}
		}
	} else {
		s.base = uint16(len(a.states))
	}
	s.from, s.to = len(a.places), len(a.places)+len(at)
	a.places = append(a.places, at...)
	if len(a.ways) == cap(a.ways) {
		a.ways = slices.Grow(a.ways, 3*len(a.ways)) // rows are large to be copied often
	}
	a.states, a.ways = append(a.states, s), append(a.ways, row)
	if len(a.states) > len(a.known)/2 {
		a.known = make([]uint16, 4*len(a.known))
		for n := 1; n < len(a.states)-1; n++ {
			a.remember(uint16(n))
		}
	}
	n := uint16(len(a.states) - 1)
	a.remember(n)
	return n
}

// base is the one of a state at these places, and the letters for which it does not do.
func (a *automaton) base(at []uint16, kind int) (uint16, letterSet) {
	var narrow, all letterSet
	a.wide = a.wide[:0]
	for _, pc := range at {
		ahead := &a.p.ahead[kind][pc]
		all.with(ahead)
		if ahead.wide() {
			a.wide = append(a.wide, pc)
		} else {
			narrow.with(ahead)
		}
	}
	if len(a.wide) == len(at) {
		return a.state(nil, kind), all
	}
	return a.state(a.wide, kind), narrow
}

func (a *automaton) slot(hash uint32) int { return int(hash>>8) % len(a.known) }

func (a *automaton) remember(n uint16) {
	i := a.slot(a.states[n].hash)
	for a.known[i] != 0 {
		i = (i + 1) % len(a.known)
	}
	a.known[i] = n
}
