package results

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/evalrun/evalrun/internal/reference"
)

// TestRealSubmissions reads submissions as their authors left them, and counts as
// the leaderboard does.
func TestRealSubmissions(t *testing.T) {
	board := reference.Path(t, "data/leaderboard/evaluation/verified")
	sets, err := Load(t.Context(), board, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(sets) < 10 {
		t.Fatalf("%d submissions, want 10 or more", len(sets))
	}
	for _, s := range sets {
		data, err := os.ReadFile(filepath.Join(s.Source, "results", "resolved_by_repo.json"))
		if err != nil {
			t.Fatal(err)
		}
		var byRepo map[string]struct{ Resolved int }
		if err := json.Unmarshal(data, &byRepo); err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, r := range byRepo {
			want += r.Resolved
		}
		if got := s.Resolved(); got != want {
			t.Errorf("%s: %d resolved, resolved_by_repo.json has %d", s.Name, got, want)
		}
		if s.Info.Date == "" || s.Info.Title == "" {
			t.Errorf("%s: info %+v", s.Name, s.Info)
		}
	}
}
