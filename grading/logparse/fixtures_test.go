package logparse

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type fixture struct {
	Parser     string `json:"parser"`
	Log        string `json:"log"`
	InstanceID string `json:"instance_id"`
	Version    string `json:"version"`
	Repo       string `json:"repo"`
	Expect     map[string]struct {
		Map    map[string]Status `json:"map"`
		Error  string            `json:"error"`
		Absent bool              `json:"absent"`
	} `json:"expect"`
}

// TestParityFixtures holds every parser to small logs whose official answer is
// known, per release. Where the official parser raises, ours must say a reason.
func TestParityFixtures(t *testing.T) {
	var file struct {
		Cases []fixture `json:"cases"`
	}
	if err := json.NewDecoder(sharedFile(t, "parity/parser-fixtures.json")).Decode(&file); err != nil {
		t.Fatal(err)
	}
	cases, statuses, differences := 0, 0, 0
	for i, c := range file.Cases {
		for release, want := range c.Expect {
			edition, ok := map[string]Edition{"5.0.2": V5, "4.1.0": V41}[release]
			// What only 4.x-last had is read in the edition 5.
			if release == "4.x-last" && c.Expect["5.0.2"].Absent {
				edition, ok = V5, true
			}
			if !ok || want.Absent {
				continue
			}
			cases++
			got := Parse(c.Parser, c.Log, Context{Repo: c.Repo, Version: c.Version, InstanceID: c.InstanceID, Edition: edition})
			if want.Error != "" {
				if got.Reason == "" {
					differences++
					t.Errorf("case %d %s %s: official raises %s, want a reason\nlog: %q", i, c.Parser, release, want.Error, c.Log)
				}
				continue
			}
			statuses += len(want.Map)
			if diff := cmp.Diff(want.Map, got.Statuses.Map()); diff != "" {
				differences++
				t.Errorf("case %d %s %s (-official +got):\n%s\nlog: %q", i, c.Parser, release, diff, c.Log)
			}
			if got.Reason != "" {
				t.Errorf("case %d %s %s: unexpected reason %q", i, c.Parser, release, got.Reason)
			}
		}
	}
	t.Logf("parity: parser-fixtures.json: %d instances (a case under one release), %d statuses compared, 0 verdicts compared, %d differences", cases, statuses, differences)
}
