package patch_test

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/evalrun/evalrun/internal/patch"
	"github.com/evalrun/evalrun/internal/reference"
)

func shared(t *testing.T, name string) string {
	t.Helper()
	return reference.Path(t, name)
}

func eachLine(t *testing.T, file string, use func(n int, line []byte)) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := bufio.NewScanner(f)
	r.Buffer(nil, 64<<20)
	n := 0
	for r.Scan() {
		n++
		use(n, r.Bytes())
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Fatalf("%s is empty", file)
	}
}

type oracleRow struct {
	Instance string `json:"instance_id"`
	Patch    string
	Cmds     map[string]struct {
		RC     int
		Out    string
		Status string
	}
}

// Where git applied a real patch, ours must see the same files, refuse nothing,
// and give git the same bytes first.
func TestParityOracle(t *testing.T) {
	accepted, rejected, differences := 0, 0, 0
	differ := func(format string, args ...any) {
		t.Helper()
		differences++
		t.Errorf(format, args...)
	}
	eachLine(t, shared(t, "parity/apply-oracle.jsonl"), func(n int, line []byte) {
		var row oracleRow
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		if row.Patch == "" { // left out for its size
			return
		}
		p, err := patch.Prepare(row.Patch)
		plain, ok := row.Cmds["git apply --verbose"]
		if !ok {
			t.Fatalf("row %d: no git apply", n)
		}
		if first := p.Variants[0].Text; first != row.Patch && first != row.Patch+"\n" {
			differ("row %d (%s): the first variant is not the original", n, row.Instance)
		}
		any := false
		for _, c := range row.Cmds {
			any = any || c.RC == 0
		}
		if any && err != nil {
			differ("row %d (%s): applied by the official commands, but: %v", n, row.Instance, err)
		}
		if strings.Contains(plain.Out, "corrupt patch") || strings.Contains(plain.Out, "fragment without header") {
			if len(p.Problems) == 0 {
				differ("row %d (%s): git says %q, ours finds nothing wrong", n, row.Instance, lastLine(plain.Out))
			}
			rejected++
		}
		if plain.RC != 0 {
			return
		}
		accepted++
		// A new folder shows as one entry in the status.
		want := statusPaths(plain.Status)
		covered := func(path string) bool {
			return slices.ContainsFunc(want, func(w string) bool {
				return w == path || strings.HasSuffix(w, "/") && strings.HasPrefix(path, w)
			})
		}
		for _, path := range p.Paths {
			// A hunk that puts a line in its own place leaves the status clean.
			if !covered(path) && !strings.Contains(plain.Out, "Applied patch "+path+" cleanly.") {
				differ("row %d (%s): %s was not changed by git apply; it changed %v", n, row.Instance, path, want)
			}
		}
		for _, w := range want {
			if !slices.ContainsFunc(p.Paths, func(path string) bool {
				return path == w || strings.HasSuffix(w, "/") && strings.HasPrefix(path, w)
			}) {
				differ("row %d (%s): git apply changed %s; ours sees %v", n, row.Instance, w, p.Paths)
			}
		}
	})
	t.Logf("parity: apply-oracle.jsonl: %d instances (%d that git applies, %d corrupt), 0 statuses compared, 0 verdicts compared, %d differences", accepted+rejected, accepted, rejected, differences)
	if accepted < 300 || rejected < 20 {
		t.Errorf("%d accepted and %d corrupt patches seen, want hundreds and dozens", accepted, rejected)
	}
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndex(s, "\n")+1:]
}

func statusPaths(status string) []string {
	var out []string
	for l := range strings.Lines(status) {
		l = strings.TrimRight(l, "\n")
		if len(l) > 3 {
			out = append(out, strings.Trim(l[3:], `"`))
		}
	}
	sort.Strings(out)
	return out
}

// go-gitdiff reads well-formed patches; on those both must agree.
func TestAgreesWithGitdiff(t *testing.T) {
	compared := 0
	eachLine(t, shared(t, "parity/apply-oracle.jsonl"), func(n int, line []byte) {
		var row oracleRow
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		p, problems := patch.Parse(row.Patch)
		files, _, err := gitdiff.Parse(strings.NewReader(row.Patch))
		if len(problems) == 0 && err != nil {
			t.Errorf("row %d: ours finds no problem, go-gitdiff says: %v", n, err)
		}
		if len(problems) > 0 || err != nil {
			return
		}
		compared++
		if len(files) != len(p.Files) {
			t.Errorf("row %d: %d files, go-gitdiff sees %d", n, len(p.Files), len(files))
			return
		}
		for i, g := range files {
			var added, deleted int64
			for _, f := range g.TextFragments {
				added += f.LinesAdded
				deleted += f.LinesDeleted
			}
			if f := p.Files[i]; int64(f.Added) != added || int64(f.Deleted) != deleted {
				t.Errorf("row %d, %s: +%d -%d, go-gitdiff counts +%d -%d", n, f.Path(), f.Added, f.Deleted, added, deleted)
			}
		}
	})
	if compared < 300 {
		t.Errorf("only %d patches compared", compared)
	}
}
