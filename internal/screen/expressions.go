package screen

import "sync"

// expressions holds texts of one patch against all expressions at once: lines against
// those of the rules about their language, paths against those about paths.
type expressions map[string]*automaton

// compiled are the programs in use, by language; none is ever dropped.
var compiled sync.Map

// pathsProgram stands for the expressions about paths, as if it was a language.
const pathsProgram = "/"

// of is the automaton for a language.
func (x expressions) of(language string) *automaton {
	if a := x[language]; a != nil {
		return a
	}
	spare := new(int)
	*spare = again
	for _, other := range x {
		spare = other.again
	}
	x[language] = newAutomaton(programOf(language), spare)
	return x[language]
}

func programOf(language string) *program {
	if p, ok := compiled.Load(language); ok {
		return p.(*program)
	}
	p := &program{}
	if language == pathsProgram {
		for i := range patterns {
			p.add(patterns[i].match, matching, i)
		}
		for i := range rules {
			if rules[i].notAt != nil {
				p.add(rules[i].notAt, excusing, i)
			}
		}
	} else {
		p.apart = true
		for i := range rules {
			if rules[i].speaks(language) {
				p.addRule(&rules[i], i)
			}
		}
	}
	first, _ := compiled.LoadOrStore(language, p.finish())
	return first.(*program)
}

func (p *program) addRule(r *rule, n int) {
	p.add(r.match, matching, n)
	if r.but != nil {
		p.add(r.but, excusing, n)
	}
	if r.with != nil {
		p.add(r.with, needed, n)
	} else {
		p.always[needed] |= 1 << n
	}
	if r.after != nil {
		p.add(r.after, preceding, n)
	}
}
