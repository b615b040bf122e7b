package html

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

func TestFlattened(t *testing.T) {
	type inner struct {
		Name  string    `json:"name_of"`
		Count int       `json:"count"`
		Share float64   `json:"share,omitempty"`
		When  time.Time `json:"when,omitzero"`
		plain int
	}
	record := struct {
		Zebra   string            `json:"zebra"`
		A       inner             `json:"a_field"`
		List    []inner           `json:"list,omitempty"`
		Words   []string          `json:"words"`
		Map     map[string]string `json:"map"`
		Pointer *inner            `json:"pointer"`
		Flag    bool              `json:"flag"`
		Off     bool              `json:"off,omitempty"`
		Hidden  string            `json:"-"`
		Gone    string            `json:"gone"`
		Outcome grading.Outcome   `json:"outcome"`
		Any     any               `json:"any"`
		Bare    int
	}{
		Zebra: "z\x1b", A: inner{Name: "n", plain: 1}, List: []inner{{Name: "x", Count: 2, Share: .5}, {When: time.Unix(0, 5).UTC()}}, Words: []string{"a", "b"},
		Map: map[string]string{"k_2": "v", "k_1": "w", "none": ""}, Flag: true, Hidden: "h", Gone: "g", Outcome: grading.Resolved, Any: 1e21, Bare: 7,
	}
	want := []pair{
		{"Bare", "7"}, {"a field", "count 0, name of n"}, {"any", "1e+21"}, {"flag", "true"},
		{"list", "count 2, name of x, share 0.5; count 0, when 1970-01-01T00:00:00.000000005Z"}, {"map", "k 1 w, k 2 v"}, {"outcome", "resolved"}, {"words", "a; b"}, {"zebra", `z\x1b`},
	}
	if diff := cmp.Diff(want, flattened(&record, "gone")); diff != "" {
		t.Error(diff)
	}
	// Records as they are: nothing is listed that has nothing in it.
	for _, r := range []any{&reports.Attempt{}, &reports.RunRecord{}} {
		for _, p := range flattened(r) {
			if p.Value == "" || p.Value == "null" {
				t.Errorf("%T: %s is %q", r, p.Name, p.Value)
			}
		}
	}
}
