package screen

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"
)

// program is many expressions made into one, which an automaton runs over a text once
// to tell which of them match. It is made once and shared.
//
// An expression like "print.{0,40}passed" would double the states of such an
// automaton, since for whatever else is read there has been a print or not. So
// expressions are taken apart where anything may stand in between: the program looks
// for the parts, and what of them was found where is kept beside the states.
type program struct {
	insts     []syntax.Inst // InstMatch has a fragment as its Arg
	starts    []uint32
	fragments []fragment
	sequences []sequence
	always    verdict // what needs no look
	apart     bool    // expressions are taken apart

	letter [symbols]uint8          // of each symbol: what stands for it
	sample []rune                  // a character of each letter
	empty  [kinds][]syntax.EmptyOp // what holds between a character of a kind and a letter
	holds  [kinds][64]letterSet    // with what letters after a character of a kind, by what is to hold
	takes  []letterSet             // by instruction: what it goes on with
	ahead  [kinds][]letterSet      // by instruction, between a character of a kind and the next: with what it comes to anything
	fresh  [kinds][]begun          // what begins at a character, by the kind of the one before and the letter
}

// The alphabet: ASCII, all other characters, of which no rule tells one from another,
// and the end of the text.
const (
	other   = 128
	end     = 129
	symbols = 130
)

// kind of a character: all that expressions tell of it once it is behind.
const (
	beginning = iota // there is none
	wordChar
	newline
	anything
	kinds
)

var kindSample = [kinds]rune{-1, 'a', '\n', ' '}

// role is what it means for a rule that an expression matches.
type role int

const (
	matching role = iota
	needed
	excusing
	preceding
	roles
)

// verdict is, by role, the rules of which the expression matches.
type verdict [roles]ruleSet

func (v *verdict) add(o *verdict) {
	for i := range v {
		v[i] |= o[i]
	}
}

// sequence is one way for an expression to match: fragments one after the other.
type sequence struct {
	role  role
	rule  int
	whole func() *regexp.Regexp
}

// fragment is a part of a sequence.
type fragment struct {
	sequence int
	nth      int  // of its sequence
	last     bool // of its sequence
	within   int  // characters that may be between the one before it and this; -1 is any number
	loose    bool // not any characters may, or more is to be looked at
	min, max int  // characters it is long; -1 is any number
}

// begun is where the program is after a character if it began just before it, and the
// fragments that matched before it.
type begun struct {
	next  []uint16
	fired []uint16
}

// longest is the count up to which repetitions are counted as states. Longer ones are
// taken for any number, and looked at once more.
const longest = 8

// add has the program tell when an expression matches.
func (p *program) add(re *regexp.Regexp, role role, rule int) {
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		panic(err) // it is what regexp has parsed
	}
	if tree.Op == syntax.OpEmptyMatch {
		p.always[role] |= 1 << rule
		return
	}
	ways := [][]*syntax.Regexp{{tree}}
	if p.apart {
		ways = expand(tree)
	}
	for _, parts := range ways {
		tree := &syntax.Regexp{Op: syntax.OpConcat, Sub: parts}
		p.sequences = append(p.sequences, sequence{role, rule, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(tree.String()) })})
		f := fragment{sequence: len(p.sequences) - 1}
		for len(parts) > 0 {
			n := slices.IndexFunc(parts, isGap)
			if n < 0 {
				n, f.last = len(parts), true
			}
			tree, long := uncounted(&syntax.Regexp{Op: syntax.OpConcat, Sub: parts[:n]})
			f.loose = f.loose || long
			p.addFragment(f, tree)
			f.nth, f.within, f.loose = f.nth+1, 0, f.nth > 0 || f.loose
			for parts = parts[n:]; len(parts) > 0 && isGap(parts[0]); parts = parts[1:] {
				f.gap(parts[0])
			}
		}
	}
}

func (p *program) addFragment(f fragment, tree *syntax.Regexp) {
	f.min, f.max = length(tree)
	code, err := syntax.Compile(tree.Simplify())
	if err != nil {
		panic(err)
	}
	base := uint32(len(p.insts))
	p.starts = append(p.starts, base+uint32(code.Start))
	for _, in := range code.Inst {
		switch in.Op {
		case syntax.InstMatch:
			in.Arg = uint32(len(p.fragments))
		case syntax.InstAlt, syntax.InstAltMatch:
			in.Arg += base
		}
		in.Out += base
		p.insts = append(p.insts, in)
	}
	p.fragments = append(p.fragments, f)
}

// isGap reports whether the expression is any number of nearly any characters, or many.
func isGap(t *syntax.Regexp) bool {
	many := t.Op == syntax.OpStar || t.Op == syntax.OpPlus || t.Op == syntax.OpRepeat && t.Max > longest
	return many && (t.Sub[0].Op == syntax.OpAnyCharNotNL || t.Sub[0].Op == syntax.OpCharClass && wide(t.Sub[0]))
}

// uncounted is the expression without the bounds of long repetitions, and whether there
// are any.
func uncounted(t *syntax.Regexp) (*syntax.Regexp, bool) {
	free, any := *t, t.Op == syntax.OpRepeat && t.Max > longest
	if any {
		free.Max = -1
	}
	free.Sub = make([]*syntax.Regexp, len(t.Sub))
	for i := range t.Sub {
		sub, more := uncounted(t.Sub[i])
		free.Sub[i], any = sub, any || more
	}
	return &free, any
}

// wide reports whether a class has most characters.
func wide(class *syntax.Regexp) bool {
	n := 0
	for i := 0; i < len(class.Rune); i += 2 {
		n += int(class.Rune[i+1]-class.Rune[i]) + 1
	}
	return n > symbols
}

// gap adds what may be before the fragment.
func (f *fragment) gap(t *syntax.Regexp) {
	switch {
	case t.Op != syntax.OpRepeat:
		f.within = -1
	case f.within >= 0:
		f.within += t.Max
	}
	if t.Sub[0].Op != syntax.OpAnyCharNotNL || t.Op == syntax.OpPlus || t.Min > 0 {
		f.loose = true
	}
}

func hasGap(t *syntax.Regexp) bool {
	return isGap(t) || (t.Op == syntax.OpConcat || t.Op == syntax.OpAlternate) && slices.ContainsFunc(t.Sub, hasGap)
}

// expand gives the concatenations of which an expression matches one, so that gaps are
// in none of their parts.
func expand(t *syntax.Regexp) [][]*syntax.Regexp {
	if isGap(t) || !hasGap(t) {
		return [][]*syntax.Regexp{{t}}
	}
	var all [][]*syntax.Regexp
	if t.Op == syntax.OpConcat {
		all = append(all, nil)
		for _, sub := range t.Sub {
			var longer [][]*syntax.Regexp
			for _, head := range all {
				for _, tail := range expand(sub) {
					longer = append(longer, slices.Concat(head, tail))
				}
			}
			all = longer
		}
		return all
	}
	whole := &syntax.Regexp{Op: syntax.OpAlternate}
	for _, sub := range t.Sub {
		if hasGap(sub) {
			all = append(all, expand(sub)...)
		} else {
			whole.Sub = append(whole.Sub, sub)
		}
	}
	if len(whole.Sub) > 0 {
		all = append(all, []*syntax.Regexp{whole})
	}
	return all
}

// length gives how many characters an expression matches, at least and at most.
func length(t *syntax.Regexp) (least, most int) {
	switch t.Op {
	case syntax.OpLiteral:
		return len(t.Rune), len(t.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1, 1
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		least, most = length(t.Sub[0])
		switch {
		case t.Op == syntax.OpQuest:
			return 0, most
		case t.Op == syntax.OpRepeat && t.Max >= 0 && most >= 0:
			return least * t.Min, most * t.Max
		case t.Op == syntax.OpRepeat:
			return least * t.Min, -1
		case t.Op == syntax.OpPlus:
			return least, -1
		}
		return 0, -1
	}
	for i, sub := range t.Sub {
		l, m := length(sub)
		unbounded := most < 0 || m < 0
		if t.Op == syntax.OpAlternate && i > 0 {
			least, most = min(least, l), max(most, m)
		} else {
			least, most = least+l, most+m
		}
		if unbounded {
			most = -1
		}
	}
	return least, most
}
