package screen

import (
	"math/bits"
	"regexp/syntax"
	"slices"
	"unicode"
)

// letters is how many there may be. A letter stands for characters that all expressions
// take alike.
const letters = 128

type letterSet [letters / 64]uint64

func (s *letterSet) has(letter uint8) bool { return s[letter>>6]&(1<<(letter&63)) != 0 }

func (s *letterSet) add(letter int) { s[letter>>6] |= 1 << (letter & 63) }

// wide reports whether there are many.
func (s *letterSet) wide() bool { return bits.OnesCount64(s[0])+bits.OnesCount64(s[1]) > letters/5 }

func (s *letterSet) with(o *letterSet) { s[0], s[1] = s[0]|o[0], s[1]|o[1] }

// finish prepares the program, to which nothing is added any more.
func (p *program) finish() *program {
	p.divide()
	p.takes = make([]letterSet, len(p.insts))
	for pc := range p.insts {
		switch in := &p.insts[pc]; in.Op {
		case syntax.InstRune1:
			p.takes[pc].add(int(p.letter[in.Rune[0]]))
		case syntax.InstRune, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			for letter, r := range p.sample {
				if r >= 0 && in.MatchRune(r) {
					p.takes[pc].add(letter)
				}
			}
		}
	}
	for kind := range kinds {
		for letter, r := range p.sample {
			p.empty[kind] = append(p.empty[kind], syntax.EmptyOpContext(kindSample[kind], r))
			for op := range p.holds[kind] {
				if syntax.EmptyOp(op)&^p.empty[kind][letter] == 0 {
					p.holds[kind][op].add(letter)
				}
			}
		}
		p.begin(kind)
		p.ahead[kind] = make([]letterSet, len(p.insts))
		var seen []place
		for pc := range p.insts {
			if out := p.insts[pc].Out; p.takes[pc] != (letterSet{}) && p.ahead[kind][out] == (letterSet{}) {
				p.ahead[kind][out], seen = p.lookAhead(kind, out, seen[:0])
			}
		}
	}
	return p
}

// begin finds what begins after a character of a kind.
func (p *program) begin(kind int) {
	p.fresh[kind] = make([]begun, len(p.sample))
	for _, pc := range p.starts {
		_, places := p.lookAhead(kind, pc, nil)
		for _, at := range places {
			in := &p.insts[at.pc]
			takes, fires := &p.takes[at.pc], in.Op == syntax.InstMatch
			if *takes == (letterSet{}) && !fires {
				continue
			}
			for letter := range p.sample {
				switch b := &p.fresh[kind][letter]; {
				case at.has&^p.empty[kind][letter] != 0:
				case fires:
					b.fired = append(b.fired, uint16(in.Arg))
				case takes.has(uint8(letter)):
					b.next = append(b.next, uint16(in.Out))
				}
			}
		}
	}
}

// divide makes letters of the symbols.
func (p *program) divide() {
	var borders [symbols + 1]bool
	mark := func(from, to rune) {
		borders[min(from, other)], borders[min(to+1, other)] = true, true
	}
	for _, r := range [][2]rune{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}, {'\n', '\n'}} {
		mark(r[0], r[1])
	}
	for i := range p.insts {
		switch in := &p.insts[i]; {
		case in.Op == syntax.InstRune1 || in.Op == syntax.InstRune && len(in.Rune) == 1:
			mark(in.Rune[0], in.Rune[0])
			lower := unicode.ToLower(in.Rune[0]) // in case that case is folded
			mark(lower, lower)
		case in.Op == syntax.InstRune:
			for n := 0; n < len(in.Rune); n += 2 {
				mark(in.Rune[n], in.Rune[n+1])
			}
		}
	}
	borders[other], borders[end] = true, true
	p.sample = []rune{0}
	for s := 1; s < symbols; s++ {
		if borders[s] {
			p.sample = append(p.sample, rune(s))
		}
		p.letter[s] = uint8(len(p.sample) - 1)
	}
	p.sample[p.letter[other]], p.sample[p.letter[end]] = 'é', -1
	if len(p.sample) > letters {
		panic("screen: more letters of characters than there may be")
	}
}

// place is an instruction, and what has to hold to get there.
type place struct {
	pc  uint32
	has syntax.EmptyOp
}

// lookAhead finds with which letters an instruction comes to anything after a character
// of a kind, and the places that are looked at for that.
func (p *program) lookAhead(kind int, pc uint32, places []place) (letterSet, []place) {
	var set letterSet
	reach := func(pc uint32, has syntax.EmptyOp) {
		if at := (place{pc, has}); !slices.Contains(places, at) {
			places = append(places, at)
		}
	}
	reach(pc, 0)
	for i := 0; i < len(places); i++ {
		at := places[i]
		holds := &p.holds[kind][at.has]
		switch in := &p.insts[at.pc]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			reach(in.Out, at.has)
			reach(in.Arg, at.has)
		case syntax.InstCapture, syntax.InstNop:
			reach(in.Out, at.has)
		case syntax.InstEmptyWidth:
			reach(in.Out, at.has|syntax.EmptyOp(in.Arg))
		case syntax.InstMatch:
			set.with(holds)
		default:
			for i, word := range p.takes[at.pc] {
				set[i] |= word & holds[i]
			}
		}
	}
	return set, places
}

// walk follows a program over one character.
type walk struct {
	p     *program
	seen  []uint32 // instruction -> the walk it was last in
	round uint32
	stack []uint32
	next  []uint16 // where the program is after the character
	fired []uint16 // the fragments that match before it
}

func newWalk(p *program) walk { return walk{p: p, seen: make([]uint32, len(p.insts))} }

func (w *walk) reset() {
	w.round++
	w.next, w.fired = w.next[:0], w.fired[:0]
}

// from goes on at an instruction, between a character of a kind and one of a letter.
func (w *walk) from(pc uint32, kind int, letter uint8) {
	empty := w.p.empty[kind][letter]
	w.stack = append(w.stack, pc)
	for len(w.stack) > 0 {
		pc := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		if w.seen[pc] == w.round {
			continue
		}
		w.seen[pc] = w.round
		switch in := &w.p.insts[pc]; in.Op {
		case syntax.InstMatch:
			w.fired = append(w.fired, uint16(in.Arg))
		case syntax.InstAlt, syntax.InstAltMatch:
			w.stack = append(w.stack, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			w.stack = append(w.stack, in.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^empty == 0 {
				w.stack = append(w.stack, in.Out)
			}
		default:
			if w.p.takes[pc].has(letter) {
				w.next = append(w.next, uint16(in.Out))
			}
		}
	}
}
