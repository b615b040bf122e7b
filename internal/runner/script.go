package runner

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/patch"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/screen"
	"github.com/evalrun/evalrun/reports"
)

// ourOutput bounds what is kept of the output of our own scripts.
const ourOutput = 16 << 20

// tasksFile runs scripts of ours.
const tasksFile = ourDir + "/tasks"

// script is one of our own scripts, with the files it works on.
type script struct {
	name  string
	nonce string
	path  string
	files []sandbox.File
	take  func(patch.Result) bool // takes in the result; false when the attempt has its outcome
	// optional scripts decide nothing: of one that fails the record tells, and the
	// attempt goes on.
	optional bool
	// alone scripts run once whatever ran before them is over.
	alone bool
}

func newScript(name, nonce, text string, take func(patch.Result) bool, files ...sandbox.File) *script {
	file := ourDir + "/" + name + ".sh"
	files = append(files, sandbox.File{Path: file, Mode: 0o755, Data: []byte(text)})
	return &script{name: name, nonce: nonce, path: file, files: files, take: take}
}

// ended reports whether the script got to its result.
func (s *script) ended(output string) bool {
	_, err := patch.ParseResult(s.nonce, output)
	return err == nil
}

// applyScript applies the model's patch.
func (t *trial) applyScript() (*script, error) {
	var names []string
	var files []sandbox.File
	for i, v := range t.patch.Variants {
		name := fmt.Sprintf("%s/patch.%d.diff", ourDir, i+1)
		names = append(names, name)
		files = append(files, sandbox.File{Path: name, Mode: 0o644, Data: []byte(v.Text)})
	}
	nonce := newNonce()
	text, err := t.patch.ApplyTask(nonce, names)
	return newScript("apply", nonce, text, t.applied, files...), err
}

// restoreScript brings the test files back and applies the test patch; nil when
// the row's script does that itself.
func (t *trial) restoreScript() (*script, error) {
	e := &t.job.Recipe.Evaluation
	if e.Whole || e.TestPatch == "" && len(e.ResetFiles) == 0 {
		return nil, nil
	}
	reset, created := patch.TestFiles(e.TestPatch)
	t.testFiles = slices.Concat(e.ResetFiles, reset, created)
	// What the policy puts back is put back again after the set-up.
	paths := slices.Concat(e.ResetFiles, reset, created, t.patch.screen.With(screen.Restore))
	slices.Sort(paths)
	r := patch.Restore{Base: t.job.Instance.BaseCommit, Nonce: newNonce(), Paths: slices.Compact(paths), Trusted: e.Setup == ""}
	var files []sandbox.File
	if e.TestPatch != "" {
		r.TestPatch = ourDir + "/test.patch"
		files = append(files, sandbox.File{Path: r.TestPatch, Mode: 0o644, Data: []byte(e.TestPatch)})
	}
	text, err := patch.RestoreTask(r)
	if err != nil {
		return nil, fmt.Errorf("the row's test patch: %w", err)
	}
	return newScript("restore", r.Nonce, text, t.restored, files...), nil
}

// protectScript puts back what the policy does not leave to a patch; nil when
// there is nothing of the kind.
func (t *trial) protectScript() (*script, error) {
	paths := t.patch.screen.With(screen.Restore)
	if len(paths) == 0 {
		return nil, nil
	}
	nonce := newNonce()
	text, err := patch.RestoreTask(patch.Restore{Base: t.job.Instance.BaseCommit, Nonce: nonce, Paths: paths})
	return newScript("protect", nonce, text, t.restored), err
}

// applied takes in what became of the model's patch.
func (t *trial) applied(result patch.Result) bool {
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
		return false
	}
	t.a.Patch.Applied = result.Command
	t.a.Patch.Repairs = t.patch.Variants[result.Variant].Repairs
	for _, name := range result.Displaced {
		t.warn("patch: creates %s, which an untracked file of the image stood at", name)
	}
	return true
}

// restored takes in what became of the test files.
func (t *trial) restored(result patch.Result) bool {
	for _, p := range result.Restored {
		if p.State == "restored" {
			t.warn("the patch's version of the test file %s was replaced", p.Path)
		}
	}
	for _, name := range result.Cleared {
		t.warn("the patch put %s, which was removed, where a folder of a test file belongs", name)
	}
	if len(result.Tries) > 0 && !result.Applied {
		t.a.Outcome = grading.Ungradeable
		t.a.Reason = "the row's test patch does not apply: " + lastLine(result.Tries[0].Output)
		return false
	}
	return true
}

// scripts runs scripts of ours one after the other, in one process since
// starting one takes longer than most of them, and takes in their results. false
// means that the attempt has its outcome.
func (t *trial) scripts(ctx context.Context, list ...*script) (bool, error) {
	if len(list) == 0 {
		return true, nil
	}
	var names []string
	for _, s := range list {
		names = append(names, s.name)
	}
	name := strings.Join(names, "+")
	t.say(name)
	out := &bounded{max: ourOutput}
	cmd, err := tasks(out, applyTimeout, list...)
	if err != nil {
		return false, err
	}
	res, err := t.r.exec(ctx, t.box, cmd)
	if err != nil {
		return false, err
	}
	t.addPhase(name, res, region{bytes: int64(out.total)})
	switch {
	case res.TimedOut && t.try == 1:
		// Once, it may be the machine that has too much to do.
		return false, t.broken(name, fmt.Errorf("not done after %s", applyTimeout))
	case res.TimedOut && list[0].name == "apply" && !list[0].ended(out.String()):
		t.a.Outcome, t.a.Reason = grading.ApplyFailed, fmt.Sprintf("it was not applied within %s", applyTimeout)
		return false, nil
	case res.TimedOut:
		return false, t.broken(name, fmt.Errorf("not done after %s", applyTimeout))
	case res.DiskFull:
		t.diskFull(name)
		return false, nil
	case res.ExitCode == -1:
		return false, fmt.Errorf("%s: %w", name, sandbox.ErrDead)
	}
	for _, s := range list {
		result, err := patch.ParseResult(s.nonce, out.String())
		if err != nil && s.optional {
			t.warn("%s: %v", s.name, err)
			continue
		}
		if err != nil {
			return false, t.broken(s.name, err)
		}
		if !s.take(result) {
			t.acquit(ctx)
			if t.log != nil { // a control has none
				t.log.line(out.String())
			}
			return false, nil
		}
	}
	return true, nil
}

// tasks is the command that runs scripts of ours. The files come with it: code of the
// model may have run since the start.
func tasks(out io.Writer, limit time.Duration, list ...*script) (sandbox.Command, error) {
	text, err := patch.Tasks(workDir)
	cmd := sandbox.Command{Argv: []string{"/bin/sh", tasksFile}, Dir: workDir, Output: out, Timeout: limit}
	cmd.Files = append(cmd.Files, sandbox.File{Path: tasksFile, Mode: 0o755, Data: []byte(text)})
	for _, s := range list {
		cmd.Argv, cmd.Files = append(cmd.Argv, s.path), append(cmd.Files, s.files...)
		cmd.Alone = cmd.Alone || s.alone
	}
	return cmd, err
}

// acquit finds out who is to blame for test files that cannot be brought back once
// code of the model has run: if they can without it, the patch is.
func (t *trial) acquit(ctx context.Context) {
	if t.modelRan && t.a.Outcome == grading.Ungradeable && t.r.control(ctx, t) == nil {
		t.a.Outcome, t.a.Reason = grading.Unresolved, "what the patch runs keeps the test files from being brought back: "+t.a.Reason
	}
}

func (t *trial) warn(format string, args ...any) {
	t.a.Warnings = append(t.a.Warnings, fmt.Sprintf(format, args...))
}

// broken is the error of a script of ours that could not do its work. Once code
// of the model has run, it may have broken the tools the script uses, and the
// engine is not to blame before the same happened twice.
func (t *trial) broken(name string, err error) error {
	if t.modelRan {
		return fmt.Errorf("%s: %w: %w", name, sandbox.ErrDead, err)
	}
	return &sandbox.EngineError{Op: name, Err: err}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
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
