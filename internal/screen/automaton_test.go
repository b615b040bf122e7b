package screen

import (
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// lineOf are pieces that rules are about, and what may stand between them.
var lineOf = strings.Fields("os._exit( print( >>>>> PASSED subprocess git log show /usr/bin/ open( write 'w' , ( ) [ ] { } = == : # \\b é 日 \xff . _ pytest_configure sys.modules['pytest'] exec( b64decode base64 " +
	"__eq__ lambda True return setattr(builtins x1 global.expect process.exit 169.254.169.254 curl nc /proc/self/mem sys.stdout= 'a'+'b' chr(1)+ /dev/stdout 1 ok passed ==== replace => harness=false // func init() os.Exit t\tab")

// byExpressions is what the expressions of the rules say of a text as they stand.
func byExpressions(language, text string) (v verdict) {
	text = text[:min(len(text), maxLine)]
	for i := range rules {
		r, bit := &rules[i], ruleSet(1)<<i
		if !r.speaks(language) {
			continue
		}
		if r.match.MatchString(text) {
			v[matching] |= bit
		}
		if r.with == nil || r.with.MatchString(text) {
			v[needed] |= bit
		}
		if r.but != nil && r.but.MatchString(text) {
			v[excusing] |= bit
		}
		if r.after != nil && r.after.MatchString(text) {
			v[preceding] |= bit
		}
	}
	return v
}

// pathByExpressions is likewise what those about paths say.
func pathByExpressions(text string) (v verdict) {
	for i := range patterns {
		if patterns[i].match.MatchString(text) {
			v[matching] |= 1 << i
		}
	}
	for i := range rules {
		if rules[i].notAt != nil && rules[i].notAt.MatchString(text) {
			v[excusing] |= 1 << i
		}
	}
	return v
}

// written appends a text that an expression matches, more or less.
func written(random *rand.Rand, text []byte, t *syntax.Regexp) []byte {
	least, most := 1, 1
	switch t.Op {
	case syntax.OpLiteral:
		return append(text, string(t.Rune)...)
	case syntax.OpCharClass:
		i := 2 * random.IntN(len(t.Rune)/2)
		from, to := max(t.Rune[i], ' '), min(t.Rune[i+1], 0x17f)
		return utf8.AppendRune(text, from+rune(random.IntN(int(max(to-from, 0))+1)))
	case syntax.OpAnyCharNotNL:
		return append(text, "x; ('"[random.IntN(5)])
	case syntax.OpAlternate:
		return written(random, text, t.Sub[random.IntN(len(t.Sub))])
	case syntax.OpStar, syntax.OpPlus:
		least, most = 0, 3
	case syntax.OpQuest:
		least = 0
	case syntax.OpRepeat:
		least, most = t.Min, t.Min+3
		if t.Max > 0 {
			most = t.Max + 1 // at times one too many
		}
	}
	for range least + random.IntN(most-least+1) {
		for _, sub := range t.Sub {
			text = written(random, text, sub)
		}
	}
	return text
}

// nearly gives lines about as long as wanted, of what the expressions look for, each
// cut at random.
func nearly(random *rand.Rand, of []*regexp.Regexp) func(long int) string {
	var trees []*syntax.Regexp
	for _, re := range of {
		if tree, err := syntax.Parse(re.String(), syntax.Perl); err == nil {
			trees = append(trees, tree)
		}
	}
	return func(long int) string {
		var text []byte
		for len(text) < long {
			begin := len(text)
			text = written(random, text, trees[random.IntN(len(trees))])
			text = append(text[:len(text)-random.IntN(len(text)-begin+1)/2], " x;(.=é"[random.IntN(7)])
		}
		return string(text)
	}
}

// about are the expressions for a language.
func about(language string) (all []*regexp.Regexp) {
	for i := range rules {
		if r := &rules[i]; r.speaks(language) {
			for _, re := range []*regexp.Regexp{r.match, r.with, r.but, r.after} {
				if re != nil && re.String() != "" {
					all = append(all, re)
				}
			}
		}
	}
	return all
}

func aboutPaths() (all []*regexp.Regexp) {
	for i := range patterns {
		all = append(all, patterns[i].match)
	}
	return all
}

// withAgain are automata that may look at so many bytes once more, and keep so many
// states.
func withAgain(again, room int) expressions {
	x := expressions{}
	for language := range indexed.language {
		a := x.of(language)
		*a.again, a.room = again, room
	}
	x.of(pathsProgram).room = room
	return x
}

// check holds what an automaton reads in a text against the expressions.
func check(t *testing.T, x expressions, language, text string) {
	t.Helper()
	a := x.of(language)
	got, want := a.read(text), verdict{}
	if language == pathsProgram {
		want = pathByExpressions(text)
	} else {
		want = byExpressions(language, text)
	}
	for role := range want {
		for i := range rules {
			g, w := got[role]&(1<<i) != 0, want[role]&(1<<i) != 0
			if inDoubt := *a.again < len(text) && g && role != int(excusing); g != w && !inDoubt {
				t.Fatalf("%q: %s %s, role %d: %q: %t, want %t", language, rules[i].name, rules[i].match, role, text, g, w)
			}
		}
	}
}

// What an automaton reads is exactly what the expressions match, however often it has
// to begin anew; and when it may not look once more, nothing that they match is missing.
func TestAutomaton(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sets := []expressions{withAgain(1<<40, maxStates), withAgain(1<<40, 20), withAgain(0, maxStates)}
	for language := range sets[0] {
		near := nearly(random, about(language))
		if language == pathsProgram {
			near = nearly(random, aboutPaths())
		}
		for range 100 {
			var pieces strings.Builder
			for range random.IntN(12) {
				pieces.WriteString(lineOf[random.IntN(len(lineOf))])
				pieces.WriteString(strings.Repeat(" ", random.IntN(2)))
			}
			for _, text := range []string{pieces.String(), near(1), near(random.IntN(200))} {
				for _, x := range sets {
					check(t, x, language, text)
				}
			}
		}
	}
}

func FuzzAutomaton(f *testing.F) {
	f.Add("    os._exit(0)  # é")
	f.Add("print('>>>>> Start')")
	x := withAgain(1<<40, maxStates)
	f.Fuzz(func(t *testing.T, text string) {
		check(t, x, pathsProgram, text)
		line, _, _ := strings.Cut(text, "\n")
		for language := range indexed.language {
			check(t, x, language, line)
		}
	})
}

// brokenByExpressions is what rules say of a line by their expressions as they stand.
func brokenByExpressions(l *line, language string) (names []string) {
	v, before := byExpressions(language, l.text), byExpressions(language, l.before)
	for i := range rules {
		r, bit := &rules[i], ruleSet(1)<<i
		if l.rules&v[matching]&v[needed]&^v[excusing]&bit != 0 && len(l.text) > r.longer && (r.after == nil || before[preceding]&bit != 0) {
			names = append(names, r.name+r.why)
		}
	}
	return names
}

// A patch's report is that of its lines, each held against the expressions.
func TestLinesByExpressions(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, name := range []string{"pkg/a.py", "conftest.py", "lib/a.js", "a.go", "a.c", "a.sh", "Makefile", "setup.cfg", "go.mod", "Cargo.toml", "a.java", "a.php", "a.rb"} {
		var lines []string
		near := nearly(random, about(language(name)))
		for n := range 150 {
			var line []string
			for range 1 + random.IntN(6) {
				line = append(line, lineOf[random.IntN(len(lineOf))])
			}
			lines = append(lines, strings.Join(line, strings.Repeat(" ", random.IntN(9)*10)))
			if n%2 == 0 {
				lines = append(lines, near(100))
			}
		}
		findings := 0
		for l := range addedLines(withAgain(1<<40, maxStates), prepare(t, adding(name, lines...))) {
			var got []string
			broken(l, func(r *rule) { got = append(got, r.name+r.why) })
			if diff := cmp.Diff(brokenByExpressions(l, language(name)), got); diff != "" {
				t.Errorf("%s: %q (-want +got):\n%s", name, l.text, diff)
			}
			findings += len(got)
		}
		if findings == 0 && name != "go.mod" {
			t.Errorf("%s: no line has a finding, so that nothing is shown", name)
		}
	}
}

// What a scan holds on to does not grow with what it finds.
func TestAllocations(t *testing.T) {
	allocated := func(lines int) float64 {
		p := prepare(t, adding("a.py", slices.Repeat([]string{"os._exit(subprocess.call(['git', 'log']))  # " + strings.Repeat("long ", 40)}, lines)...))
		return testing.AllocsPerRun(3, func() { Patch(p, Policy{}) })
	}
	if few, many := allocated(200), allocated(5000); many > few+10 {
		t.Errorf("%v allocations for 200 lines with findings, %v for 5000", few, many)
	}
}
