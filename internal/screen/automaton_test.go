package screen

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lineOf are pieces that rules are about, and what may stand between them.
var lineOf = strings.Fields("os._exit( print( >>>>> PASSED subprocess git log show /usr/bin/ open( write 'w' , ( ) [ ] { } = == : # \\b é 日 \xff . _ pytest_configure sys.modules['pytest'] exec( b64decode base64 " +
	"__eq__ lambda True return setattr(builtins x1 global.expect process.exit 169.254.169.254 curl nc /proc/self/mem sys.stdout= 'a'+'b' chr(1)+ /dev/stdout 1 ok passed ==== replace => harness=false // func init() os.Exit t\tab")

// check holds an automaton of each rule against its expression.
func check(t *testing.T, automata []*automaton, text string) {
	t.Helper()
	for i := range rules {
		want := rules[i].match.MatchString(text)
		got, ok := automata[i].matches(text)
		if ok && (want && !got || automata[i].exact && want != got) {
			t.Fatalf("rule %d, %s (exact: %t): %q: %t, want %t", i, rules[i].name, automata[i].exact, text, got, want)
		}
	}
}

func automata(t interface{ Fatal(...any) }) []*automaton {
	var all []*automaton
	for i := range rules {
		a, err := newAutomaton(rules[i].match)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

func TestAutomaton(t *testing.T) {
	all := automata(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var text strings.Builder
		for range random.IntN(12) {
			text.WriteString(lineOf[random.IntN(len(lineOf))])
			text.WriteString(strings.Repeat(" ", random.IntN(2)))
		}
		check(t, all, text.String())
	}
}

func FuzzAutomaton(f *testing.F) {
	f.Add("    os._exit(0)  # é")
	f.Add("print('>>>>> Start')")
	all := automata(f)
	f.Fuzz(func(t *testing.T, text string) { check(t, all, text) })
}

// A large patch is read by automata, and its report is that of its lines in small
// ones, whatever they are.
func TestLargeAsSmall(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, name := range []string{"pkg/a.py", "conftest.py", "lib/a.js", "a.go", "a.c", "a.sh", "Makefile", "setup.cfg", "go.mod", "Cargo.toml", "a.java", "a.php", "a.rb"} {
		var lines []string
		for range 600 {
			var line []string
			for range 1 + random.IntN(6) {
				line = append(line, lineOf[random.IntN(len(lineOf))])
			}
			lines = append(lines, strings.Join(line, strings.Repeat(" ", random.IntN(9)*10)))
		}
		large := map[string]int{}
		x := expressions{}
		for l := range addedLines(x, prepare(t, adding(name, lines...))) {
			broken(x, l, func(r *rule) { large[fmt.Sprint(l.number, r.name, r.why)]++ })
		}
		small := map[string]int{}
		for l := range addedLines(expressions{}, prepare(t, adding(name, lines...))) {
			broken(expressions{}, l, func(r *rule) { small[fmt.Sprint(l.number, r.name, r.why)]++ })
		}
		if diff := cmp.Diff(small, large); diff != "" {
			t.Errorf("%s (-small +large):\n%s", name, diff)
		}
		if len(small) == 0 && name != "go.mod" {
			t.Errorf("%s: no line has a finding, so that nothing is shown", name)
		}
	}
}
