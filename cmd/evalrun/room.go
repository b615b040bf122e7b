package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/room"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/reports"
)

// diskFlags bound what a run takes of disks.
type diskFlags struct {
	Budget string `name:"disk-budget" placeholder:"SIZE" help:"Disk the run may take where the engine keeps images; above it new work waits, and images that are done with go."`
	Floor  string `name:"disk-floor" default:"1GiB" placeholder:"SIZE" help:"Space that stays free where the engine keeps images and where results are written; below it new work waits. 0 is none."`
}

// floorInodes is what stays free of inodes, where a file system counts them.
const floorInodes = 10000

// roomyImages gives images while there is room for what is run in them.
type roomyImages struct {
	next    runner.Images
	keeper  *room.Keeper
	fetched *sync.Map // digests of images that this run has pulled
}

// Image implements runner.Images.
func (r *roomyImages) Image(ctx context.Context, inst *datasets.Instance) (runner.Image, error) {
	if err := r.keeper.Enter(ctx, inst.ID); err != nil {
		return runner.Image{}, fmt.Errorf("%w: %w", runner.ErrEndRun, err)
	}
	img, err := r.next.Image(ctx, inst)
	if err != nil {
		r.keeper.Leave(inst.ID)
	}
	if img.Fetched {
		r.fetched.Store(img.Digest, true)
	}
	r.keeper.Has(inst.ID, img.Digest)
	return img, err
}

// There implements runner.Images. What is there goes like what was asked for, when it is
// done with.
func (r *roomyImages) There(ctx context.Context, inst *datasets.Instance) (runner.Image, bool, error) {
	img, ok, err := r.next.There(ctx, inst)
	if ok && err == nil {
		r.keeper.Has(inst.ID, img.Digest)
	}
	return img, ok, err
}

// roomyDisplay tells the keeper what is over.
type roomyDisplay struct {
	runner.Observer
	keeper *room.Keeper
	had    *sync.Map // reports.AttemptID of attempts that have room
}

func (d roomyDisplay) Done(a *reports.Attempt) {
	_, hadRoom := d.had.LoadAndDelete(a.ID())
	d.keeper.Done(a.InstanceID, hadRoom)
	d.Observer.Done(a)
}

// event notes which attempts have room: those that asked for an image, and those that
// may be made from another one's, as long as that one is at work.
func (d roomyDisplay) event(ev runner.Event) {
	switch ev.Kind {
	case runner.ImageReady:
		if ev.Err == nil {
			d.had.Store(ev.Job.ID(), true)
		}
	case runner.Follows:
		d.had.Store(ev.Job.ID(), true)
		d.keeper.Join(ev.Job.Instance.ID)
	}
}

// imageRemover is what a store does for images that make room.
type imageRemover interface {
	Image(ctx context.Context, ref string) (digest string, ok bool, err error)
	ImageLabels(ctx context.Context, ref string) (map[string]string, error)
	RemoveImage(ctx context.Context, id string) (bool, error)
}

// removeImage removes an image that is ours: what others have made or pulled stays. One
// that is not there any more has gone; while the engine is away, or slow, none can.
func removeImage(ctx context.Context, store imageRemover, id string, pulled bool) (bool, error) {
	var labels map[string]string
	removed, err := false, error(nil)
	if !pulled {
		labels, err = store.ImageLabels(ctx, id)
	}
	if err == nil && (pulled || labels["evalrun.kind"] == "instance") {
		removed, err = store.RemoveImage(ctx, id)
	}
	if removed {
		return true, err
	}
	if _, there, lookErr := store.Image(ctx, id); lookErr == nil && !there {
		return true, nil // somebody else was faster
	}
	if cause.Of(err).Passes() {
		return false, nil
	}
	return false, err
}

// room watches the disks of a run.
func (c *call) room() (*roomyImages, error) {
	roomy := &roomyImages{next: c.images, fetched: &sync.Map{}}
	o := room.Options{Results: c.Output, Say: c.note, Stat: c.e.disk}
	if c.e.disk != nil {
		o.Every = time.Millisecond
	}
	byID := map[string]*datasets.Instance{}
	for i := range c.plan.selected {
		byID[c.plan.selected[i].ID] = &c.plan.selected[i]
	}
	o.Find = func(ctx context.Context, id string) (string, bool) {
		img, ok, err := c.images.There(ctx, byID[id])
		return img.Digest, ok && err == nil // what is not found does not go
	}
	var err error
	if c.Room.Floor != "0" && c.Room.Floor != "" {
		if o.Floor, err = parseSize(c.Room.Floor); err != nil {
			return nil, fmt.Errorf("--disk-floor: %w", err)
		}
		o.Inodes = floorInodes
	}
	if c.Room.Budget != "" {
		if o.Budget, err = parseSize(c.Room.Budget); err != nil {
			return nil, fmt.Errorf("--disk-budget: %w", err)
		}
	}
	// Of an engine elsewhere nothing is known, and no image of it makes room here.
	if o.Engine = c.eng.Info.StateDir; o.Engine != "" {
		o.Remove = func(ctx context.Context, id string) (bool, error) {
			_, pulled := roomy.fetched.Load(id)
			removed, err := removeImage(ctx, c.eng.Images, id, pulled)
			if removed {
				c.images.Forget(id)
			}
			return removed, err
		}
	} else if o.Budget > 0 {
		return nil, fmt.Errorf("--disk-budget: the engine is on another machine")
	}
	roomy.keeper, err = room.New(o, c.plan.needs())
	return roomy, err
}
