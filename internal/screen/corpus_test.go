package screen

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/evalrun/evalrun/internal/patch"
	"github.com/evalrun/evalrun/internal/reference"
)

// Gold patches are honest. Few of them may look like anything else; and what is said
// of their lines is what the expressions of the rules say.
func TestGoldPatches(t *testing.T) {
	x := expressions{}
	for name, most := range map[string]int{"SWE-bench_Verified.test.jsonl": 2, "SWE-bench_Multilingual.test.jsonl": 1} {
		f, err := os.Open(reference.Path(t, "data/datasets/"+name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines, suspicious := bufio.NewScanner(f), 0
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var row struct {
				ID    string `json:"instance_id"`
				Patch string `json:"patch"`
			}
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				t.Fatal(err)
			}
			p, err := patch.Prepare(row.Patch)
			if err != nil {
				t.Errorf("%s: %v", row.ID, err)
				continue
			}
			if r := Patch(p, Policy{}); r.Level != Clean {
				t.Logf("%s: %s", row.ID, r.Reason())
				suspicious++
			}
			for l := range addedLines(x, p) {
				var got []string
				broken(l, func(r *rule) { got = append(got, r.name+r.why) })
				if want := brokenByExpressions(l, language(l.path)); !slices.Equal(got, want) {
					t.Errorf("%s: rules say %q of %q, want %q", row.ID, got, l.text, want)
				}
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		if suspicious > most {
			t.Errorf("%s: %d gold patches look suspicious, want no more than %d", name, suspicious, most)
		}
	}
}
