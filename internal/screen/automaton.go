package screen

import (
	"encoding/binary"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// automaton answers, for one expression, whether a text matches, in a step per
// character whatever the text is. The states are made as texts lead to them, so that
// it pays for large patches only; and it is of one patch, so that nobody shares it.
//
// Long counted repetitions (".{0,60}") would need a state for each way to count. They
// are taken for unbounded ones: what does not match here does not match, and what
// does is to be looked at again unless the automaton is exact.
type automaton struct {
	exact  bool
	prog   *syntax.Prog
	states []state
	ways   []int32          // from each state, by each symbol
	known  map[string]int32 // state by its key
	stack  []uint32         // of the closure being made
	seen   []uint32         // instruction -> the closure it was last in
	round  uint32
	next   []uint32 // of the state being made
}

// state is what is known after some characters: where in the program one may be, and
// what kind of character was the last.
type state struct {
	at   []uint32
	last rune // stands for all of its kind; -1 at the beginning
}

// The alphabet: ASCII, all other characters, of which no rule tells one from another,
// and the end of the text.
const (
	other   = 128
	end     = 129
	symbols = 256 // a power of two, for speed
)

// What a state leads to, besides other states, whose ways begin at that place.
const (
	unknown int32 = 0 // not made yet; no state leads back to the first
	found   int32 = -1
	never   int32 = -2 // at the end only
)

// maxStates bounds the memory of an automaton.
const maxStates = 2048

// longest is the count up to which repetitions are counted.
const longest = 16

func newAutomaton(of *regexp.Regexp) (*automaton, error) {
	tree, err := syntax.Parse(of.String(), syntax.Perl)
	if err != nil {
		return nil, err
	}
	a := &automaton{exact: true, known: map[string]int32{}}
	a.uncount(tree)
	if a.prog, err = syntax.Compile(tree.Simplify()); err != nil {
		return nil, err
	}
	a.seen = make([]uint32, len(a.prog.Inst))
	a.states, a.ways = []state{{last: -1}}, make([]int32, symbols)
	return a, nil
}

// uncount takes the bounds from long repetitions.
func (a *automaton) uncount(tree *syntax.Regexp) {
	for _, sub := range tree.Sub {
		a.uncount(sub)
	}
	if tree.Op == syntax.OpRepeat && tree.Max > longest {
		a.exact = false
		tree.Max = -1
	}
}

// matches reports whether the text may match: certainly, where the automaton is
// exact. ok is false when there is no telling, since there would be too many states.
func (a *automaton) matches(text string) (match, ok bool) {
	now, ways := int32(0), a.ways
	for i := 0; i < len(text); {
		symbol := int32(text[i])
		if symbol < utf8.RuneSelf {
			i++
		} else {
			_, size := utf8.DecodeRuneInString(text[i:])
			symbol, i = other, i+size
		}
		to := ways[now+symbol]
		if to > unknown {
			now = to
			continue
		}
		if to == unknown {
			if to, ok = a.step(now, symbol); !ok {
				return false, false
			}
			ways = a.ways
		}
		if to == found {
			return true, true
		}
		now = to
	}
	to := a.ways[now+end]
	if to == unknown {
		to, _ = a.step(now, end)
	}
	return to == found, true
}

// step makes the way from a state by a symbol; ok is false when there is no room.
func (a *automaton) step(from, symbol int32) (to int32, ok bool) {
	r := rune(symbol)
	switch symbol {
	case other:
		r = 'é'
	case end:
		r = -1
	}
	match := a.closure(&a.states[from/symbols], r)
	switch {
	case match:
		to = found
	case symbol == end:
		to = never
	default:
		if to, ok = a.state(kind(r)); !ok {
			return 0, false
		}
	}
	a.ways[from+symbol] = to
	return to, true
}

// closure collects in a.next where the program is after a character, begun anew at
// each, and reports whether it has matched before it.
func (a *automaton) closure(from *state, r rune) bool {
	empty := syntax.EmptyOpContext(from.last, r)
	a.round++
	a.next = a.next[:0]
	a.stack = append(append(a.stack[:0], uint32(a.prog.Start)), from.at...)
	for len(a.stack) > 0 {
		pc := a.stack[len(a.stack)-1]
		a.stack = a.stack[:len(a.stack)-1]
		if a.seen[pc] == a.round {
			continue
		}
		a.seen[pc] = a.round
		switch in := &a.prog.Inst[pc]; in.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			a.stack = append(a.stack, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			a.stack = append(a.stack, in.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^empty == 0 {
				a.stack = append(a.stack, in.Out)
			}
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if r >= 0 && in.MatchRune(r) {
				a.next = append(a.next, in.Out)
			}
		}
	}
	return false
}

// kind is the character that stands for all that expressions do not tell apart once
// they are behind.
func kind(r rune) rune {
	switch {
	case syntax.IsWordChar(r):
		return 'a'
	case r == '\n':
		return r
	}
	return ' '
}

// state is the one at a.next, made if it is new.
func (a *automaton) state(last rune) (int32, bool) {
	var key []byte
	key = append(key, byte(last))
	for _, pc := range a.next {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	if n, ok := a.known[string(key)]; ok {
		return n, true
	}
	if len(a.states) == maxStates {
		return 0, false
	}
	n := int32(len(a.ways))
	a.ways = append(a.ways, make([]int32, symbols)...)
	a.states = append(a.states, state{at: append([]uint32(nil), a.next...), last: last})
	a.known[string(key)] = n
	return n, true
}
