package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/builder"
	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/observe"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/reports"
)

// display tells the progress bar what the run and the builder do.
type display struct {
	progress *progress
	watch    *observe.Watch // of a run

	mu       sync.Mutex
	troubles map[cause.Cause]bool // that were shown
}

// builderLine is the line of the progress display that shows builds.
const builderLine = -1

func (d *display) Worker(i int, text string) {
	d.progress.Worker(i, text)
	d.watch.Worker(i, text)
}

func (d *display) Done(a *reports.Attempt) {
	d.progress.Done(a.InstanceID, string(a.Outcome), a.Seconds)
}

// event shows the first failure of each cause at once. Those like it are counted by
// the runner, which ends the run when there are too many.
func (d *display) event(ev runner.Event) {
	d.watch.Event(ev)
	if ev.Kind == runner.Stays {
		d.progress.Note(fmt.Sprintf("instance %s, model %s: its image cannot be had, and the result of an earlier call stays", ev.Job.Instance.ID, ev.Job.Prediction.Model))
		return
	}
	if ev.Kind != runner.Trouble && !(ev.Kind == runner.ImageReady && ev.Err != nil) {
		return
	}
	c := cause.Of(ev.Err)
	d.mu.Lock()
	seen := d.troubles[c]
	if d.troubles == nil {
		d.troubles = map[cause.Cause]bool{}
	}
	d.troubles[c] = true
	d.mu.Unlock()
	if seen {
		return
	}
	text := fmt.Sprintf("first failure: instance %s: %v", ev.Job.Instance.ID, ev.Err)
	switch {
	case c != cause.Unknown && ev.Again:
		text += fmt.Sprintf("\n  (%s; it is tried again; if it stays so: %s)", c, c.Advice())
	case c != cause.Unknown:
		text += fmt.Sprintf("\n  (%s: %s)", c, c.Advice())
	}
	d.progress.Note(text)
}

// note tells people something, beside the progress bar where there is one, and before it
// comes and when it is gone all the same.
func (d *display) note(out io.Writer, text string) {
	if d.progress == nil || !d.progress.Note(text) {
		fmt.Fprintln(out, reports.SafeText(text))
	}
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

// networkProof proves once in a run that its sandboxes are cut off.
type networkProof struct {
	engine *engine.Engine

	probing sync.Mutex
	mu      sync.Mutex
	probed  bool
	text    string
	err     error
	earlier string // what attempts say that are not of this call
}

// of probes with the first image it is asked about. What an interrupted probe says is not
// kept.
func (p *networkProof) of(ctx context.Context, image runner.Image) (string, error) {
	p.probing.Lock()
	defer p.probing.Unlock()
	if p.probed {
		return p.text, p.err
	}
	text, err := p.engine.ProbeNetwork(ctx, image.Digest)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probed, p.text = true, text
	if err != nil {
		// Nothing may run in a sandbox that is not cut off.
		p.err = fmt.Errorf("%w: %w", runner.ErrEndRun, err)
	}
	return p.text, p.err
}

// heard takes what was proven for an attempt that was not made anew.
func (p *networkProof) heard(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.earlier = cmp.Or(p.earlier, text)
}

// found is what is known of the run's network: of this call, or else of earlier ones.
func (p *networkProof) found() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.text, p.earlier)
}

// planner says what would be built for an instance.
type planner interface {
	Spec(ctx context.Context, inst *datasets.Instance) (images.InstanceSpec, error)
	Prebuilt(inst *datasets.Instance) string
}
