package grading_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// knownDifference is a place where the official answer is plainly wrong and ours
// is not: testdata/known-differences.json, known upstream defects only.
type knownDifference struct {
	Source     string `json:"source"`
	InstanceID string `json:"instance_id"`
	What       string `json:"what"`   // what differs, as in differ
	Reason     string `json:"reason"` // the upstream defect
}

// tally counts what was compared, for one line per source (`make parity`).
type tally struct {
	t                                         *testing.T
	source                                    string
	instances, statuses, verdicts, difference int
	known                                     map[[2]string]knownDifference
	met                                       map[[2]string]bool
}

func newTally(t *testing.T, source string) *tally {
	t.Helper()
	c := &tally{t: t, source: source, known: map[[2]string]knownDifference{}, met: map[[2]string]bool{}}
	text, err := os.ReadFile(filepath.Join("testdata", "known-differences.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []knownDifference
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, k := range list {
		if k.Reason == "" {
			t.Errorf("%s, %s: a known difference needs a reason", k.Source, k.InstanceID)
		}
		if k.Source == source {
			c.known[[2]string{k.InstanceID, k.What}] = k
		}
	}
	return c
}

// differ counts a difference. One that is known is listed with its reason; any
// other fails the test.
func (c *tally) differ(id, what, diff string) {
	c.t.Helper()
	c.difference++
	key := [2]string{id, what}
	if k, known := c.known[key]; known {
		c.met[key] = true
		c.t.Logf("parity: %s: %s: %s differs: %s", c.source, id, what, k.Reason)
		return
	}
	if c.difference <= 20 {
		c.t.Errorf("%s: %s: %s (-official +got):\n%.2000s", c.source, id, what, diff)
	}
}

// report ends the comparison. A known difference that is none any more fails.
func (c *tally) report() {
	c.t.Helper()
	for key, k := range c.known {
		if !c.met[key] {
			c.t.Errorf("%s: %s: %s is said to differ, and does not: take it from the list", c.source, k.InstanceID, k.What)
		}
	}
	if c.instances == 0 {
		c.t.Errorf("%s: nothing was compared", c.source)
	}
	c.t.Logf("parity: %s: %d instances, %d statuses compared, %d verdicts compared, %d differences", c.source, c.instances, c.statuses, c.verdicts, c.difference)
}
