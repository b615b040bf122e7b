package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/upkeep"
)

// imageUses keeps account of the images that runs take, for `evalrun cache`. That it
// cannot is told once, and no reason for a run to fail.
type imageUses struct {
	noted *upkeep.Uses
	say   func(string)
	once  sync.Once
}

// usesOf is the account of an engine's images.
func (f engineFlags) usesOf(eng *engine.Engine) *upkeep.Uses {
	return upkeep.NewUses(f.cacheDir(), eng.Info.Store)
}

// Take implements provision.Uses.
func (u *imageUses) Take(image string) { u.heard(u.noted.Take(image)) }

// Gone implements provision.Uses.
func (u *imageUses) Gone(image string) { u.heard(u.noted.Gone(image)) }

// Close implements provision.Uses.
func (u *imageUses) Close() { u.noted.Close() }

func (u *imageUses) heard(err error) {
	if err != nil {
		u.once.Do(func() {
			u.say(fmt.Sprintf("warning: it cannot be noted which images this run uses and pulls, and `evalrun cache` will not know: %v", err))
		})
	}
}

// imageLister is a store in which there are images of others, too.
type imageLister interface {
	ImageIDs(ctx context.Context) (map[string]bool, error)
}

// notedPulls is an engine's store that takes down which images it pulls. Those that were
// there when the first was pulled are somebody's, whatever name they are pulled under.
type notedPulls struct {
	engine.Store
	others imageLister
	engine string
	uses   *imageUses

	mu     sync.Mutex
	before map[string]bool // nil until they are listed
}

// noting has pulls taken down where it takes that to know whose an image is.
func noting(eng *engine.Engine, uses *imageUses) engine.Store {
	others, ok := eng.Images.(imageLister)
	if !ok {
		return eng.Images
	}
	return &notedPulls{Store: eng.Images, others: others, engine: eng.Name, uses: uses}
}

// Pull implements engine.Store.
func (s *notedPulls) Pull(ctx context.Context, ref string) error {
	before, lookErr := s.there(ctx)
	if err := s.Store.Pull(ctx, ref); err != nil {
		return err
	}
	// It is there, also where the run has ended meanwhile.
	id, ok, err := s.Store.Image(context.WithoutCancel(ctx), ref)
	if err = errors.Join(lookErr, err); err == nil && ok && !before[id] {
		// Taken first, so that nobody finds it pulled and not in use.
		err = errors.Join(s.uses.noted.Take(id), s.uses.noted.Pulled(upkeep.Pull{Image: id, Reference: ref, Engine: s.engine}))
	}
	s.uses.heard(err)
	return nil
}

// there are the images that were there before any was pulled.
func (s *notedPulls) there(ctx context.Context) (map[string]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before == nil {
		ids, err := s.others.ImageIDs(ctx)
		if err != nil {
			return nil, err
		}
		s.before = ids
	}
	return s.before, nil
}
