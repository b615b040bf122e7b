package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
)

// filesIn are the files below a folder.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// What an earlier call has finished needs no image, as long as it would be made from the
// same; and where one is needed and cannot be had, the result stays.
func TestResumeWithoutImage(t *testing.T) {
	image := runner.Image{Ref: "x@sha256:1", Digest: "sha256:id", Env: []string{"PATH=/bin", "LANG=C"}, AddEnv: []string{"LANG=C"}}
	other := image
	other.Digest = "sha256:other"
	gone, full := errors.New("no such image"), errors.Join(runner.ErrEndRun, errors.New("the disk is full"))
	moreMemory := func(k *kit) { k.options.Limits.Sandbox.MemoryBytes++ }
	for _, tt := range []struct {
		name     string
		there    runner.Image
		isThere  bool
		thereErr error
		edit     func(*kit)
		image    runner.Image // that is got
		err      error        // that it cannot be had

		asked, ran int
		outcome    grading.Outcome
		stays      bool // and it is told
	}{
		{name: "it is there", there: image, isThere: true, err: gone, outcome: grading.Resolved},
		{name: "it is not there", there: runner.Image{Ref: "x@sha256:1"}, err: gone, outcome: grading.Resolved},
		{name: "it is not there, and known by digest", there: runner.Image{Ref: "x:tag", Pinned: "x@sha256:1"}, err: gone, outcome: grading.Resolved},
		{name: "the engine cannot say", there: runner.Image{Ref: "x@sha256:1"}, thereErr: errors.New("away"), err: gone, outcome: grading.Resolved},
		{name: "there is another", there: other, isThere: true, image: other, asked: 1, ran: 1, outcome: grading.Unresolved},
		{name: "another name", there: runner.Image{Ref: "y"}, image: other, asked: 1, ran: 1, outcome: grading.Unresolved},
		{name: "another name for the same", there: runner.Image{Ref: "y"}, image: image, asked: 1, outcome: grading.Resolved},
		{name: "another name, and it cannot be had", there: runner.Image{Ref: "y"}, err: gone, asked: 1, outcome: grading.NotRun, stays: true},
		{name: "nothing known, and it cannot be had", err: gone, asked: 1, outcome: grading.Resolved, stays: true},
		{name: "nothing known, and the disk is full", err: full, asked: 1, outcome: grading.Resolved, stays: true},
		{name: "another limit", there: image, isThere: true, edit: moreMemory, image: image, asked: 1, ran: 1, outcome: grading.Unresolved},
		{name: "another limit, and it cannot be had", there: image, edit: moreMemory, err: gone, asked: 1, outcome: grading.NotRun, stays: true},
		{name: "another limit, and the disk is full", edit: moreMemory, err: full, asked: 1, outcome: grading.NotRun, stays: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := newKit(t)
			known := &ledger{}
			first.options.Ledger = known
			first.images.image = func(context.Context, *datasets.Instance) (runner.Image, error) { return image, nil }
			if a := first.one(t, job("name")); a.Outcome != grading.Resolved {
				t.Fatalf("at first: %s %s", a.Outcome, a.Reason)
			}
			before := filesIn(t, first.options.Layout.Root)

			k := newKit(t)
			k.options.Ledger, k.options.Layout = known, first.options.Layout
			k.phases["test.sh"] = prints(failing, 1) // so that what is made again is another result
			asked, told := 0, false
			k.images.there = func(*datasets.Instance) (runner.Image, bool, error) { return tt.there, tt.isThere, tt.thereErr }
			k.images.image = func(context.Context, *datasets.Instance) (runner.Image, error) {
				asked++
				return tt.image, tt.err
			}
			k.options.Events = func(ev runner.Event) { told = told || ev.Kind == runner.Stays }
			if tt.edit != nil {
				tt.edit(k)
			}
			attempts, _, err := k.run(t, nil, job("name"))
			if errors.Is(err, runner.ErrEndRun) != errors.Is(tt.err, runner.ErrEndRun) || err != nil && !errors.Is(err, runner.ErrEndRun) {
				t.Errorf("the error is %v", err)
			}
			a := attempts[0]
			if asked != tt.asked || len(k.tested()) != tt.ran || a.Outcome != tt.outcome || told != tt.stays {
				t.Errorf("asked for %d images, ran tests %d times, %s %q, told %v", asked, len(k.tested()), a.Outcome, a.Reason, told)
			}
			if a.Outcome == grading.NotRun && !strings.Contains(a.Reason, tt.err.Error()) {
				t.Errorf("it does not say why: %q", a.Reason)
			}
			if a.Resumed != (tt.outcome == grading.Resolved) || len(k.seen.done) != 1 {
				t.Errorf("resumed: %v, done %v", a.Resumed, k.seen.done)
			}
			if tt.ran > 0 {
				return
			}
			if diff := cmp.Diff(before, filesIn(t, first.options.Layout.Root)); diff != "" || len(known.finished) != 1 {
				t.Errorf("%d results, and the files (-before +after):\n%s", len(known.finished), diff)
			}
		})
	}
}

// Without an earlier result a failure to get the image is one, as ever.
func TestNoImageAtFirst(t *testing.T) {
	k := newKit(t)
	known := &ledger{}
	k.options.Ledger = known
	k.images.image = func(context.Context, *datasets.Instance) (runner.Image, error) {
		return runner.Image{}, errors.New("no such image")
	}
	for range 2 { // what failed is no result to keep
		if a := k.one(t, job("name")); a.Outcome != grading.BuildFailed {
			t.Errorf("%s %s", a.Outcome, a.Reason)
		}
	}
	if len(known.finished) != 2 {
		t.Errorf("%d are written down, want both", len(known.finished))
	}
}
