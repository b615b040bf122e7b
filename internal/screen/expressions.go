package screen

import "regexp"

// expressions holds texts of one patch against expressions: at first as they are;
// one that has read much, by an automaton, which is ten times as fast. What is known
// of each stands under the expression itself; what is known of all under nil.
type expressions map[*regexp.Regexp]*expression

type expression struct {
	read      int // bytes held against it as it is
	automaton *automaton
	refused   bool // no automaton is to be had
}

const (
	// slowly is how much is held against an expression as it is.
	slowly = 2 << 10
	// again is how much that an inexact automaton has let through is held against
	// expressions once more. Beyond it, words that are too far apart for a rule count
	// as if they were not: a patch with so many lines that come so close to one is
	// for a person to look at, and not to be read for seconds.
	again = 64 << 10
)

func (x expressions) match(re *regexp.Regexp, text string) bool {
	e := x.of(re)
	if e.automaton == nil {
		if e.refused || e.read+len(text) <= slowly {
			e.read += len(text)
			return re.MatchString(text)
		}
		a, err := newAutomaton(re)
		if err != nil {
			e.refused = true
			return re.MatchString(text)
		}
		e.automaton = a
	}
	match, ok := e.automaton.matches(text)
	if !ok {
		e.refused, e.automaton = true, nil
		return re.MatchString(text)
	}
	if all := x.of(nil); match && !e.automaton.exact && all.read+len(text) <= again {
		all.read += len(text)
		return re.MatchString(text)
	}
	return match
}

// surely is match for what takes a finding back, for which close is not enough.
func (x expressions) surely(re *regexp.Regexp, text string) bool {
	if !x.match(re, text) {
		return false
	}
	e := x.of(re)
	return e.automaton == nil || e.automaton.exact || re.MatchString(text)
}

func (x expressions) of(re *regexp.Regexp) *expression {
	e := x[re]
	if e == nil {
		e = &expression{}
		x[re] = e
	}
	return e
}
