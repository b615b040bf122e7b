package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/builder"
	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/provision"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/reports"
)

// display tells the progress bar what the run and the builder do.
type display struct {
	progress *progress
}

// builderLine is the line of the progress display that shows builds.
const builderLine = -1

func (d *display) Worker(i int, text string) { d.progress.Worker(i, text) }

func (d *display) Done(a *reports.Attempt) {
	d.progress.Done(a.InstanceID, string(a.Outcome), a.Seconds)
}

// built shows what the builder does.
func (d *display) built(ev builder.Event) {
	if d.progress == nil {
		return
	}
	what := fmt.Sprintf("%s image %s", ev.Kind, ev.Name)
	switch {
	case ev.Done && ev.Err != nil:
		d.progress.Worker(builderLine, "")
		d.progress.Note(fmt.Sprintf("%s failed after %.0f s: %v", what, ev.Seconds, ev.Err))
		var failed *builder.Error
		if errors.As(ev.Err, &failed) && failed.Log != "" {
			d.progress.Note("  the whole log: " + failed.Log)
		}
	case ev.Done && !ev.Cached:
		d.progress.Worker(builderLine, "")
		d.progress.Note(fmt.Sprintf("%s built in %.1f s", what, ev.Seconds))
	case ev.Step != "":
		d.progress.Worker(builderLine, "build "+ev.Name+": "+ev.Step)
	}
}

// probingImages proves the network of the first image before anything runs in it.
type probingImages struct {
	*provision.Provider
	engine *engine.Engine

	once sync.Once
	mu   sync.Mutex
	text string
	err  error
}

// Image gives an instance's image; the first one is probed.
func (p *probingImages) Image(ctx context.Context, inst *datasets.Instance) (runner.Image, error) {
	img, err := p.Provider.Image(ctx, inst)
	if err != nil {
		return img, err
	}
	p.once.Do(func() {
		text, err := p.engine.ProbeNetwork(ctx, img.Digest)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.text = text
		if err != nil {
			// Nothing may run in a sandbox that is not cut off.
			p.err = fmt.Errorf("%w: %w", runner.ErrEndRun, err)
		}
	})
	return img, p.err
}

func (p *probingImages) found() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text
}

// planner says what would be built for an instance.
type planner interface {
	Spec(ctx context.Context, inst *datasets.Instance) (images.InstanceSpec, error)
	Prebuilt(inst *datasets.Instance) string
}
