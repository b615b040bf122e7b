package runner

import (
	"context"
	"fmt"
	"strings"

	"github.com/evalrun/evalrun/internal/patch"
)

// maxChanges bounds how many changed files are asked about, and kept.
const maxChanges = 1000

// askTracked keeps those of the changed files that are tracked. Only for that the
// sandbox is asked, when there is something to ask.
func (t *trial) askTracked(ctx context.Context, changes []string) error {
	if len(changes) == 0 {
		return nil
	}
	if more := len(changes) - maxChanges; more > 0 {
		t.warn("%d more files of the checkout were changed by the tests than were asked about", more)
		changes = changes[:maxChanges]
	}
	status, paths := map[string]string{}, []string{}
	for _, line := range changes {
		kind, path, _ := strings.Cut(line, " ")
		path = strings.TrimSuffix(path, "/")
		status[path] = kind
		paths = append(paths, path)
	}
	nonce := newNonce()
	text, err := patch.TrackedTask(nonce, paths)
	if err != nil {
		return err
	}
	result, err := t.ask(ctx, "tracked", nonce, text)
	if err != nil {
		return err
	}
	for _, path := range result.Tracked {
		kind, ok := status[path]
		if !ok {
			kind = "D" // with its folder
		}
		t.a.ChangedByTests = append(t.a.ChangedByTests, kind+" "+path)
	}
	return nil
}

// snapshotScript takes down the tracked files as the tests find them.
func (t *trial) snapshotScript() (*script, error) {
	nonce := newNonce()
	text, err := patch.SnapshotTask(nonce, "")
	s := newScript("snapshot", nonce, text, func(result patch.Result) bool {
		t.tree = result.Tree
		return true
	})
	s.optional = true
	return s, err
}

// askChanges takes down which tracked files build and tests have changed. They may
// have changed what tells us so, too: it is for people, and decides nothing.
func (t *trial) askChanges(ctx context.Context) error {
	if t.tree == "" {
		return nil
	}
	nonce := newNonce()
	text, err := patch.SnapshotTask(nonce, t.tree)
	if err != nil {
		return err
	}
	result, err := t.ask(ctx, "changes", nonce, text)
	for _, c := range result.Changed {
		t.a.ChangedByTests = append(t.a.ChangedByTests, c.Status+" "+c.Path)
	}
	return err
}

// ask runs a task after the tests. That it fails is a warning, as what it tells decides
// nothing; the error is that of an interrupted run.
func (t *trial) ask(ctx context.Context, name, nonce, text string) (patch.Result, error) {
	out := &bounded{max: ourOutput}
	cmd, err := tasks(out, changesTimeout, newScript(name, nonce, text, nil))
	if err != nil {
		return patch.Result{}, err
	}
	res, err := t.r.exec(ctx, t.box, cmd)
	if ctx.Err() != nil {
		return patch.Result{}, context.Cause(ctx)
	}
	var result patch.Result
	switch {
	case err != nil:
	case res.TimedOut:
		err = fmt.Errorf("not done after %s", changesTimeout)
	default:
		result, err = patch.ParseResult(nonce, out.String())
	}
	if err != nil {
		t.warn("which tracked files the tests changed is not known: %v", err)
	}
	return result, nil
}
