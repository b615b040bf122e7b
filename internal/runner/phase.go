package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
	"github.com/evalrun/evalrun/internal/sandbox"
)

// phase runs part of the evaluation script. false means that it did not come to
// its end, and why is in the record.
func (t *trial) phase(ctx context.Context, name, prelude, script string) (bool, error) {
	t.say(name)
	left := time.Until(t.deadline)
	if left <= 0 {
		t.a.Outcome, t.a.Reason = grading.TimedOut, fmt.Sprintf("no time left for the %s phase: the limit is %s", name, t.limits.Timeout)
		return false, nil
	}
	mark := failureMark()
	// As a file, since an argument has a limit of 128 KiB that scripts do pass.
	env, script, extra := t.askReport(name, script)
	file := sandbox.File{Path: ourDir + "/" + name + ".sh", Mode: 0o755, Data: []byte(shell(name, mark, prelude, script))}
	out := t.log.phase(t.limits.OutputBytes)
	heard := newSilence(ctx, t.limits.Silence, out)
	res, err := t.r.exec(heard.ctx, t.box, sandbox.Command{
		Argv: []string{"/bin/bash", file.Path}, Env: env, Dir: workDir, Files: append(extra, file), Output: heard, Timeout: left,
	})
	where, silent := out.end(), heard.end()
	if silent && ctx.Err() == nil && (err != nil || res.ExitCode == -1) {
		t.addPhase(name, res, where)
		t.log.startLine()
		t.log.line(fmt.Sprintf("\n\nTimeout error: no output for %g seconds.", t.limits.Silence.Seconds()))
		t.a.Outcome, t.a.Reason = grading.SilenceLimit, fmt.Sprintf("the %s phase printed nothing for %s; every process was killed", name, t.limits.Silence)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	t.addPhase(name, res, where)
	t.log.startLine()
	if err := t.lookForRefusal(name, where); err != nil {
		return false, err
	}
	switch {
	case res.TimedOut:
		t.log.line(fmt.Sprintf("\n\nTimeout error: %g seconds exceeded.", t.limits.Timeout.Seconds()))
		t.a.Outcome, t.a.Reason = grading.TimedOut, fmt.Sprintf("still in the %s phase after %s; every process was killed", name, t.limits.Timeout)
		return false, nil
	case res.DiskFull:
		t.diskFull(name)
		return false, nil
	case res.FilesFailed:
		return false, t.broken(name, errors.New("its script could not be put into the sandbox: "+t.tail(where)))
	case res.ExitCode == -1:
		return false, fmt.Errorf("%s phase: %w", name, sandbox.ErrDead)
	case name == "test" || name == "eval":
		t.test, t.testExit = where, res.ExitCode
		if where.truncated {
			t.warn("the tests printed %d bytes; the middle is not in the log and was not graded", where.bytes)
		}
		return true, nil
	}
	return true, t.noteFailures(name, mark, where)
}

// tail is the last line of a part of the log.
func (t *trial) tail(where region) string {
	where.start = max(where.start, where.end-4096)
	text, err := t.readRegion(where)
	if err != nil {
		return err.Error()
	}
	return lastLine(text)
}

func (t *trial) diskFull(name string) {
	t.a.Outcome, t.a.Reason = grading.DiskLimit, fmt.Sprintf("the %s phase wrote more than %d bytes", name, t.limits.Sandbox.DiskBytes)
}

// failureMark begins the lines that tell of failed commands. It is advice, not
// evidence: the commands themselves could print it.
func failureMark() string { return "[evalrun " + newNonce()[:8] + "]" }

// shell is a phase as bash gets it. Evaluation scripts go on after a failing
// command, so each failure is marked in the output: a failed install step must
// not go unseen.
func shell(name, mark, prelude, script string) string {
	if name == "eval" {
		return script
	}
	var b strings.Builder
	if name == "setup" || name == "build" {
		fmt.Fprintf(&b, "trap 'echo \"%s status=$? $BASH_COMMAND\" >&2' ERR\n", mark)
	}
	b.WriteString("set -uxo pipefail\n")
	if prelude != "" {
		b.WriteString(strings.TrimRight(prelude, "\n") + "\n")
	}
	b.WriteString(script + "\n")
	return b.String()
}

// noteFailures turns the marks of failed commands into warnings.
func (t *trial) noteFailures(phase, mark string, where region) error {
	text, err := t.log.section(where)
	if err != nil {
		return err
	}
	lines := bufio.NewReader(text)
	for {
		line, more, err := lines.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if rest, ok := strings.CutPrefix(string(line), mark+" "); ok {
			status, command, _ := strings.Cut(strings.TrimSpace(rest), " ")
			t.failedIn = append(t.failedIn, phase)
			t.warn("%s: command failed with %s: %s", phase, status, command)
		}
		for more && err == nil {
			_, more, err = lines.ReadLine() // the rest of a line too long to be a mark
		}
	}
}

// exitCodeRecorded adds to a script that runs whole what the official harness
// 5.0.2 adds: the status of the last test command, behind the end marker.
func exitCodeRecorded(script string) string {
	var out []string
	found := false
	for _, line := range strings.Split(script, "\n") {
		if !found && strings.Contains(line, logparse.EndTestOutput) {
			found = true
			out = append(out, "SWEBENCH_TEST_EXIT_CODE=$?", line, `echo "`+logparse.TestExitCode+`: $SWEBENCH_TEST_EXIT_CODE"`)
			continue
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}
