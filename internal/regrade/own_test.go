package regrade

import (
	"testing"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// What a run decided by a control without the patch is not undone by its log.
func TestOwnOutcomeOfMissingNetwork(t *testing.T) {
	for was, want := range map[grading.Outcome]grading.Outcome{
		grading.Unresolved:  grading.Unresolved,
		grading.Ungradeable: grading.Ungradeable,
	} {
		e := evidence{own: &reports.Attempt{Outcome: was, Reason: "as it was"}}
		if got, _ := e.ownOutcome(&grading.Report{}, "parse_log_gotest", "GOPROXY=off"); got != want {
			t.Errorf("a run of %s is %s now, want %s", was, got, want)
		}
	}
}
