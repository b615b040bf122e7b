package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// What programs print when a root that cannot be written, or a user that is not
// root, keeps them from their work.
var (
	refusedByRoot = regexp.MustCompile(`(?i)read-only file ?system|\bEROFS\b`)
	refusedToUser = regexp.MustCompile(`(?i)permission denied|operation not permitted|not permitted to|\bE(?:ACCES|PERM)\b`)
)

// restriction names the flag a line of output may be due to, or "".
func (t *trial) restriction(line []byte) string {
	switch {
	case t.limits.ReadOnly && refusedByRoot.Match(line):
		return "--read-only"
	case t.limits.User != "" && refusedToUser.Match(line):
		return "--user " + t.limits.User
	}
	return ""
}

// lookForRefusal takes down the first line a phase printed of what it was not let
// do.
func (t *trial) lookForRefusal(phase string, where region) error {
	if t.refused != "" || !t.limits.ReadOnly && t.limits.User == "" {
		return nil
	}
	text, err := t.log.section(where)
	if err != nil {
		return err
	}
	defer text.Close()
	for lines := bufio.NewReader(text); ; {
		line, _, err := lines.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if flag := t.restriction(line); flag != "" {
			const most = 200
			t.refusedBy, t.refusedIn, t.refused = flag, phase, phase+": "+strings.TrimSpace(string(line[:min(len(line), most)]))
			return nil
		}
	}
}

// refusal finds out who is to blame for a row that was not let do something and is
// not resolved: the patch, or the row, which then needs what a flag keeps from it. A
// patch could print as much.
func (r *Runner) refusal(ctx context.Context, failed *trial) {
	a := failed.a
	if failed.refused == "" || failed.unpatched || a.Outcome != grading.Unresolved && a.Outcome != grading.Ungradeable {
		return
	}
	without, err := r.unpatched(ctx, failed)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		// Not known, and so not the patch's failure: it is found out when it is run again.
		a.Outcome = grading.InfraFailed
		a.Reason = fmt.Sprintf("whether the row works with %s could not be found out without the patch: %v", failed.refusedBy, err)
	case without.refused == "":
	case without.disabled(failed.refusedIn):
		a.Outcome = grading.Ungradeable
		a.Reason = "the row does not work with " + failed.refusedBy + ", which is not the patch's doing; run it without. It says in " + failed.refused
	default:
		failed.warn("without the patch, too, something was not let do by %s: %s", without.refusedBy, without.refused)
	}
}

// disabled reports whether what was refused in a phase is why the row does not work.
func (t *trial) disabled(phase string) bool {
	a := t.a
	if a.Outcome == grading.Ungradeable || t.refusedIn == phase && slices.Contains(t.failedIn, phase) {
		return true
	}
	return a.Verdict == nil || !a.Verdict.Found || a.Verdict.Tests == nil || len(a.Verdict.Tests.PassToPass.Failure) > 0
}

// unpatched tries the attempt without the patch. The outcome is in its record.
func (r *Runner) unpatched(ctx context.Context, failed *trial) (*trial, error) {
	a := reports.Attempt{InstanceID: failed.a.InstanceID, RunID: failed.a.RunID}
	files := failed.files
	files.TestOutput = filepath.Join(files.Dir, "control_output.txt")
	t := &trial{r: r, job: failed.job, image: failed.image, limits: failed.limits, a: &a, files: files, unpatched: true}
	err := t.run(ctx)
	failed.a.WaitedSeconds += a.WaitedSeconds
	return t, err
}
