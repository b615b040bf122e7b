package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/room"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/reports"
)

// removerStore has one image, or an error for each question.
type removerStore struct {
	labels          map[string]string
	there, removes  bool
	labelsErr, lost error
	removed         int
}

func (s *removerStore) Image(_ context.Context, ref string) (string, bool, error) {
	return ref, s.there, s.lost
}

func (s *removerStore) ImageLabels(context.Context, string) (map[string]string, error) {
	return s.labels, s.labelsErr
}

func (s *removerStore) RemoveImage(context.Context, string) (bool, error) {
	s.removed++
	return s.removes, s.lost
}

// Only what is the run's own is removed. An image that is gone already has made room,
// and an engine that is away for a moment does not end a run.
func TestRemoveImage(t *testing.T) {
	ours := map[string]string{"evalrun.kind": "instance"}
	away := cause.As(cause.Engine, errors.New("connection refused"))
	broken, missing := errors.New("input/output error"), errors.New("no such image")
	for name, c := range map[string]struct {
		store  removerStore
		pulled bool
		want   bool
		err    error
		asked  int
	}{
		"built":                    {removerStore{labels: ours, there: true, removes: true}, false, true, nil, 1},
		"pulled by this run":       {removerStore{there: true, removes: true}, true, true, nil, 1},
		"somebody else's":          {removerStore{there: true, removes: true}, false, false, nil, 0},
		"in use":                   {removerStore{labels: ours, there: true}, false, false, nil, 1},
		"gone":                     {removerStore{labelsErr: missing}, false, true, nil, 0},
		"pulled, and gone":         {removerStore{}, true, true, nil, 1},
		"the engine is away":       {removerStore{there: true, labelsErr: away, lost: away}, false, false, nil, 0},
		"it goes away meanwhile":   {removerStore{labels: ours, there: true, lost: away}, false, false, nil, 1},
		"the store is broken":      {removerStore{labels: ours, there: true, labelsErr: broken}, false, false, broken, 0},
		"the store breaks by this": {removerStore{labels: ours, there: true, lost: broken}, false, false, broken, 1},
	} {
		got, err := removeImage(t.Context(), &c.store, "sha256:x", c.pulled)
		if got != c.want || !errors.Is(err, c.err) || c.store.removed != c.asked {
			t.Errorf("%s: %v, %v, removed %d times; want %v, %v, %d times", name, got, err, c.store.removed, c.want, c.err, c.asked)
		}
	}
}

// Between the end of an attempt and the start of one that is made from its image, the
// image stays.
func TestRoomOfFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Int64
		free.Store(1000)
		removed := false
		k, err := room.New(room.Options{
			Engine: "engine", Floor: 400, Every: time.Second, Say: func(string) {},
			Stat:   func(string) (room.Disk, error) { return room.Disk{Free: free.Load(), Inodes: -1}, nil },
			Remove: func(context.Context, string) (bool, error) { removed = true; return false, nil },
		}, slices.Values([]string{"a", "a", "b"}))
		if err != nil {
			t.Fatal(err)
		}
		d := roomyDisplay{nobody{}, k, &sync.Map{}}
		jobs := []runner.Job{}
		for _, model := range []string{"one", "two"} {
			jobs = append(jobs, runner.Job{Instance: &datasets.Instance{ID: "a"}, Prediction: &datasets.Prediction{InstanceID: "a", Model: model}})
		}
		done := func(j runner.Job) { d.Done(&reports.Attempt{InstanceID: "a", Model: j.Prediction.Model}) }

		if err := k.Enter(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		k.Has("a", "image")
		free.Store(100)
		d.event(runner.Event{Kind: runner.ImageReady, Job: jobs[0]})
		d.event(runner.Event{Kind: runner.Follows, Job: jobs[1]})
		done(jobs[0])
		began := time.Now()
		go func() {
			time.Sleep(time.Hour)
			free.Store(1000)
			done(jobs[1])
		}()
		if err := k.Enter(t.Context(), "b"); err != nil || removed || time.Since(began) < time.Hour {
			t.Errorf("%v after %s; the image was to be removed: %v", err, time.Since(began), removed)
		}
	})
}

// nobody is told nothing.
type nobody struct{}

func (nobody) Worker(int, string)    {}
func (nobody) Done(*reports.Attempt) {}
