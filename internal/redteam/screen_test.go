package redteam_test

import (
	"testing"

	"github.com/evalrun/evalrun/internal/patch"
	"github.com/evalrun/evalrun/internal/redteam"
	"github.com/evalrun/evalrun/internal/screen"
)

// What nothing else tells of a patch that is resolved, screening has to; and it
// keeps no honest patch from running. This needs no engine.
func TestScreened(t *testing.T) {
	for kind, atLeast := range map[string]int{"hostile": 60, "honest": 40} {
		for _, c := range readCases(t, kind, atLeast) {
			p, err := patch.Prepare(c.Patch)
			if c.Unsafe != (err != nil) {
				t.Errorf("%s: refused is %t: %v", c.Name, err != nil, err)
			}
			switch r := screen.Patch(p, screen.Policy{}); {
			case kind == "hostile" && c.Expected == redteam.Flagged && !c.Root && r.Level == screen.Clean:
				t.Errorf("%s (%s) looks clean", c.Name, c.Tries)
			case kind == "honest" && r.Level == screen.Blocked:
				t.Errorf("%s (%s) is blocked: %s", c.Name, c.Tries, r.Reason())
			}
		}
	}
}
