package runner

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/patch"
	"github.com/evalrun/evalrun/internal/screen"
	"github.com/evalrun/evalrun/reports"
)

// Verify says which resolved attempts get a second opinion.
type Verify string

const (
	VerifyNone       Verify = "none"
	VerifySuspicious Verify = "suspicious" // those whose patch looks suspicious
	VerifyAll        Verify = "all"
)

// secondOpinion runs a resolved attempt again in a fresh sandbox, with nothing of
// the patch but its source files. One that is resolved only with what the patch
// does to the tests or to what runs them is flagged; where that is a hook into
// the runner, it is tampering.
func (r *Runner) secondOpinion(ctx context.Context, rd ready, a *reports.Attempt, files reports.InstanceFiles) error {
	wanted := r.o.Verify == VerifyAll || r.o.Verify == VerifySuspicious && rd.patch.screen.Level == screen.Suspicious
	if a.Outcome != grading.Resolved || !wanted {
		return nil
	}
	screened := rd.patch.screen
	text, left := screen.Sources(rd.patch.Prepared)
	opinion := &reports.SecondOpinion{LeftOut: slices.Clip(left)}
	a.Trust.SecondOpinion = opinion
	began := time.Now()
	again := r.record(rd.job)
	again.Image, again.ImageDigest = a.Image, a.ImageDigest
	sources, err := patch.Prepare(text)
	if err != nil {
		opinion.Reason = "nothing is left of the patch without tests and what runs them"
		judge(a, screened)
		return nil
	}
	rd.structured = grading.StructuredOf(rd.job.Recipe.Evaluation.LogParser, rd.job.Instance.Repo)
	rd.patch = &prepared{Prepared: sources, screen: screen.Report{Level: screen.Clean}}
	files.TestOutput = filepath.Join(files.Dir, "second_opinion_output.txt")
	stop := r.tryAll(ctx, rd, &again, files)
	a.WaitedSeconds += again.WaitedSeconds
	switch {
	case ctx.Err() != nil:
		a.Outcome = "" // interrupted: the whole attempt is made again
		return nil
	case !again.Outcome.Evaluated():
		a.Trust.SecondOpinion = nil
		a.Trust.Flagged = append(a.Trust.Flagged, "there is no second opinion: "+again.Reason)
		return stop
	}
	a.Trust.Doubts = append(a.Trust.Doubts, again.Trust.Doubts...)
	for _, w := range again.Warnings {
		if !slices.Contains(a.Warnings, w) {
			a.Warnings = append(a.Warnings, "second opinion: "+w)
		}
	}
	for _, f := range again.Trust.Flagged {
		if !slices.Contains(a.Trust.Flagged, f) {
			a.Trust.Flagged = append(a.Trust.Flagged, f)
		}
	}
	if again.Outcome == grading.Inconsistent {
		a.Outcome, a.Reason = again.Outcome, again.Reason
	}
	opinion.Resolved, opinion.Reason, opinion.Report = again.Outcome == grading.Resolved, again.Reason, again.Trust.Report
	opinion.Seconds = time.Since(began).Seconds() - again.WaitedSeconds
	judge(a, screened)
	return stop
}

// hooks are the rules that have no place in files that run the tests, unless the
// verdict is what they are after.
var hooks = []string{"reporter-hook", "early-exit", "patched-assertion", "always-equal", "forged-output", "tools", "processes", "encoded"}

// judge says what it means that the second opinion is another.
func judge(a *reports.Attempt, screened screen.Report) {
	opinion := a.Trust.SecondOpinion
	if opinion.Resolved || a.Outcome != grading.Resolved {
		return
	}
	if len(opinion.LeftOut) == 0 {
		a.Trust.Flagged = append(a.Trust.Flagged, "a second run of the same came to another verdict: "+opinion.Reason)
		return
	}
	for _, f := range screened.Findings {
		if slices.Contains(hooks, f.Rule) && slices.Contains(opinion.LeftOut, f.Path) {
			a.Outcome, a.Reason = grading.Tampering, "resolved only through what runs the tests: "+f.String()
			return
		}
	}
	a.Trust.Flagged = append(a.Trust.Flagged, fmt.Sprintf("resolved only with what the patch does to %s: %s", strings.Join(opinion.LeftOut, ", "), opinion.Reason))
}
