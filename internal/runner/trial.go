package runner

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
	"github.com/evalrun/evalrun/internal/patch"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/reports"
)

// Where our files stand in a sandbox.
const (
	workDir     = "/testbed"
	ourDir      = "/evalrun"
	applyFile   = ourDir + "/apply.sh"
	restoreFile = ourDir + "/restore.sh"
	testPatch   = ourDir + "/test.patch"
)

// ourOutput bounds what is kept of the output of our own scripts.
const ourOutput = 16 << 20

// trial is one try at one attempt: one sandbox, from start to end.
type trial struct {
	r      *Runner
	worker int
	job    Job
	image  Image
	patch  patch.Prepared
	limits Limits
	a      *reports.Attempt
	files  reports.InstanceFiles

	box      sandbox.Sandbox
	log      *capture
	nonce    string
	deadline time.Time
	test     region
	testExit int
}

// run fills in the attempt's record. A nil error means that it has an outcome.
func (t *trial) run(ctx context.Context) (err error) {
	t.a.Phases, t.a.Patch.Tries = nil, nil
	t.nonce = newNonce()
	restore, err := t.restoreScript()
	if err != nil {
		// The row's own paths: not the patch's doing, and no use trying again.
		t.a.Outcome, t.a.Reason = grading.Ungradeable, err.Error()
		return nil
	}
	apply, variants, err := t.applyFiles()
	if err != nil {
		return err
	}
	if t.log, err = newCapture(t.files.TestOutput); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.log.close()) }()

	t.say("start")
	files := append(append(variants, apply), restore...)
	t.box, err = t.r.o.Driver.Start(ctx, t.spec(files))
	if err != nil {
		return err
	}
	destroyed := false
	destroy := func() error {
		if destroyed {
			return nil
		}
		destroyed = true
		return t.box.Destroy(context.WithoutCancel(ctx))
	}
	defer func() { err = errors.Join(err, destroy()) }()
	t.deadline = time.Now().Add(t.limits.Timeout)

	done, err := t.phases(ctx, restore)
	if usage, usageErr := t.box.Usage(context.WithoutCancel(ctx)); usageErr == nil {
		t.a.Usage = reports.UsageRecord{
			PeakMemoryBytes: usage.PeakMemoryBytes, OOMKills: usage.OOMKills,
			CPUSeconds: usage.CPUSeconds, ThrottledSeconds: usage.ThrottledSeconds,
		}
	}
	if err != nil {
		return err
	}
	if err := destroy(); err != nil {
		return err
	}
	if !done {
		return nil
	}
	return t.grade(ctx)
}

func (t *trial) say(what string) { t.r.o.Observer.Worker(t.worker, t.a.InstanceID+" "+what) }

func (t *trial) spec(files []sandbox.File) sandbox.Spec {
	labels := map[string]string{"evalrun.run": t.a.RunID, "evalrun.instance": t.a.InstanceID}
	for k, v := range t.r.o.Labels {
		labels[k] = v
	}
	return sandbox.Spec{
		Image: t.image.Ref, Name: t.a.InstanceID, Labels: labels, Limits: t.limits.Sandbox, Files: files,
		Expiry: time.Now().Add(t.limits.Timeout + 2*applyTimeout + time.Hour),
	}
}

// applyFiles are the patch's texts and the script that applies them.
func (t *trial) applyFiles() (apply sandbox.File, variants []sandbox.File, err error) {
	var names []string
	for i, v := range t.patch.Variants {
		name := fmt.Sprintf("%s/patch.%d.diff", ourDir, i+1)
		names = append(names, name)
		variants = append(variants, sandbox.File{Path: name, Mode: 0o644, Data: []byte(v.Text)})
	}
	script, err := t.patch.ApplyScript(workDir, t.nonce, names)
	return sandbox.File{Path: applyFile, Mode: 0o755, Data: []byte(script)}, variants, err
}

// restoreScript are the test patch and the script that brings the test files
// back; none when the row's script does that itself.
func (t *trial) restoreScript() ([]sandbox.File, error) {
	e := &t.job.Recipe.Evaluation
	if e.Whole || e.TestPatch == "" && len(e.ResetFiles) == 0 {
		return nil, nil
	}
	reset, created := patch.TestFiles(e.TestPatch)
	paths := union(e.ResetFiles, reset, created)
	file := testPatch
	if e.TestPatch == "" {
		file = ""
	}
	script, err := patch.RestoreScript(patch.Restore{
		Root: workDir, Base: t.job.Instance.BaseCommit, Nonce: t.nonce, Paths: paths, TestPatch: file,
	})
	if err != nil {
		return nil, fmt.Errorf("the row's test patch: %w", err)
	}
	return []sandbox.File{
		{Path: restoreFile, Mode: 0o755, Data: []byte(script)},
		{Path: testPatch, Mode: 0o644, Data: []byte(e.TestPatch)},
	}, nil
}

// phases runs everything in the sandbox. done is false when the attempt has its
// outcome already.
func (t *trial) phases(ctx context.Context, restore []sandbox.File) (done bool, err error) {
	if ok, err := t.apply(ctx); !ok || err != nil {
		return false, err
	}
	e := &t.job.Recipe.Evaluation
	if e.Whole {
		t.say("tests")
		ok, err := t.phase(ctx, "eval", "", exitCodeRecorded(e.Script))
		return ok, err
	}
	if e.Setup != "" {
		t.say("set-up")
		if ok, err := t.phase(ctx, "setup", e.Prelude, e.Setup); !ok || err != nil {
			return false, err
		}
	}
	if len(restore) > 0 {
		if e.Setup != "" {
			// The set-up ran the model's code, which may have reached these.
			if err := t.box.Put(ctx, restore...); err != nil {
				return false, err
			}
		}
		if ok, err := t.restore(ctx); !ok || err != nil {
			return false, err
		}
	}
	if e.Build != "" {
		t.say("build")
		if ok, err := t.phase(ctx, "build", e.Prelude, e.Build); !ok || err != nil {
			return false, err
		}
	}
	t.say("tests")
	t.log.line("+ : '" + logparse.StartTestOutput + "'")
	ok, err := t.phase(ctx, "test", e.Prelude, e.Test)
	if ok {
		t.log.line("+ : '" + logparse.EndTestOutput + "'")
		t.log.line(fmt.Sprintf("%s: %d", logparse.TestExitCode, t.testExit))
	}
	return ok, err
}

// apply applies the model's patch; false means it does not apply.
func (t *trial) apply(ctx context.Context) (bool, error) {
	t.say("apply patch")
	result, output, err := t.script(ctx, "apply", applyFile)
	if err != nil {
		return false, err
	}
	for _, try := range result.Tries {
		t.a.Patch.Tries = append(t.a.Patch.Tries, reports.ApplyTry{Command: try.Command, ExitCode: try.ExitCode, Output: try.Output})
	}
	if !result.Applied {
		t.a.Outcome, t.a.Reason = grading.ApplyFailed, "none of the commands could apply it"
		if result.Refused != "" {
			t.a.Reason = result.Refused
		} else if n := len(result.Tries); n > 0 {
			t.a.Reason += ": " + lastLine(result.Tries[0].Output)
		}
		t.log.line(output)
		return false, nil
	}
	t.a.Patch.Applied = result.Command
	t.a.Patch.Repairs = t.patch.Variants[result.Variant].Repairs
	for _, name := range result.Displaced {
		t.a.Warnings = append(t.a.Warnings, fmt.Sprintf("patch: creates %s, which an untracked file of the image stood at", name))
	}
	return true, nil
}

// restore brings the test files back and applies the test patch.
func (t *trial) restore(ctx context.Context) (bool, error) {
	t.say("restore test files")
	result, _, err := t.script(ctx, "restore", restoreFile)
	if err != nil {
		return false, err
	}
	for _, p := range result.Restored {
		if p.State == "restored" {
			t.a.Warnings = append(t.a.Warnings, "the patch's version of the test file "+p.Path+" was replaced")
		}
	}
	if len(result.Tries) > 0 && !result.Applied {
		t.a.Outcome = grading.Ungradeable
		t.a.Reason = "the row's test patch does not apply: " + lastLine(result.Tries[0].Output)
		return false, nil
	}
	return true, nil
}

// script runs one of our scripts and reads its result.
func (t *trial) script(ctx context.Context, name, file string) (patch.Result, string, error) {
	out := &bounded{max: ourOutput}
	res, err := t.box.Exec(ctx, sandbox.Command{Argv: []string{"/bin/sh", file}, Dir: workDir, Output: out, Timeout: applyTimeout})
	if err != nil {
		return patch.Result{}, "", err
	}
	t.addPhase(name, res, region{bytes: int64(out.total)})
	if res.TimedOut || res.DiskFull {
		return patch.Result{}, "", &sandbox.EngineError{Op: name, Err: fmt.Errorf("not done after %s", applyTimeout)}
	}
	if res.ExitCode == -1 {
		return patch.Result{}, "", fmt.Errorf("%s: %w", name, sandbox.ErrDead)
	}
	result, err := patch.ParseResult(t.nonce, out.String())
	if err != nil {
		return result, "", &sandbox.EngineError{Op: name, Err: err}
	}
	return result, out.String(), nil
}

// phase runs part of the evaluation script. false means that it did not come to
// its end, and why is in the record.
func (t *trial) phase(ctx context.Context, name, prelude, script string) (bool, error) {
	left := time.Until(t.deadline)
	if left <= 0 {
		t.a.Outcome, t.a.Reason = grading.TimedOut, fmt.Sprintf("no time left for the %s phase: the limit is %s", name, t.limits.Timeout)
		return false, nil
	}
	out := t.log.phase(t.limits.OutputBytes)
	text := t.shell(prelude, script, name)
	res, err := t.box.Exec(ctx, sandbox.Command{Argv: []string{"/bin/bash", "-c", text}, Dir: workDir, Output: out, Timeout: left})
	where := out.end()
	if err != nil {
		return false, err
	}
	t.addPhase(name, res, where)
	t.newline()
	switch {
	case res.TimedOut:
		t.log.line(fmt.Sprintf("\n\nTimeout error: %g seconds exceeded.", t.limits.Timeout.Seconds()))
		t.a.Outcome, t.a.Reason = grading.TimedOut, fmt.Sprintf("still in the %s phase after %s; every process was killed", name, t.limits.Timeout)
		return false, nil
	case res.DiskFull:
		t.a.Outcome, t.a.Reason = grading.DiskLimit, fmt.Sprintf("the %s phase wrote more than %d bytes", name, t.limits.Sandbox.DiskBytes)
		return false, nil
	case res.ExitCode == -1:
		return false, fmt.Errorf("%s phase: %w", name, sandbox.ErrDead)
	}
	if name == "test" || name == "eval" {
		t.test, t.testExit = where, res.ExitCode
		if where.truncated {
			t.a.Warnings = append(t.a.Warnings, fmt.Sprintf("the tests printed %d bytes; the middle is not in the log and was not graded", where.bytes))
		}
		return true, nil
	}
	return true, t.noteFailures(name, where)
}

// newline makes sure that what we write next begins a line.
func (t *trial) newline() {
	if t.log.size > 0 && !t.log.endsLine() {
		t.log.line("")
	}
}

// shell is a phase as bash gets it. Evaluation scripts go on after a failing
// command, so each failure is marked in the output: a failed install step must
// not go unseen. The mark has a nonce, and is advice, not evidence.
func (t *trial) shell(prelude, script, name string) string {
	var b strings.Builder
	if name == "setup" || name == "build" {
		fmt.Fprintf(&b, "trap 'echo \"%s status=$? $BASH_COMMAND\" >&2' ERR\n", t.failureMark())
	}
	b.WriteString("set -uxo pipefail\n")
	if prelude != "" {
		b.WriteString(strings.TrimRight(prelude, "\n") + "\n")
	}
	b.WriteString(script + "\n")
	return b.String()
}

func (t *trial) failureMark() string { return "[evalrun " + t.nonce[:8] + "]" }

// noteFailures turns the marks of failed commands into warnings.
func (t *trial) noteFailures(phase string, where region) error {
	text, err := t.log.read(where)
	if err != nil {
		return err
	}
	mark := t.failureMark() + " "
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, mark); ok {
			status, command, _ := strings.Cut(strings.TrimSpace(rest), " ")
			t.a.Warnings = append(t.a.Warnings, fmt.Sprintf("%s: command failed with %s: %s", phase, status, command))
		}
	}
	return nil
}

func (t *trial) addPhase(name string, res sandbox.Result, where region) {
	t.a.Phases = append(t.a.Phases, reports.PhaseRecord{
		Name: name, ExitCode: res.ExitCode, Seconds: res.Elapsed.Seconds(), OutputBytes: where.bytes,
		Truncated: where.truncated, TimedOut: res.TimedOut,
	})
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

func newNonce() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

func union(lists ...[]string) []string {
	var out []string
	seen := map[string]bool{}
	for _, list := range lists {
		for _, s := range list {
			if !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	return out
}

// bounded keeps the first bytes of what is written to it.
type bounded struct {
	bytes.Buffer
	max, total int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.total += len(p)
	if room := b.max - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
