package runner

import (
	"context"
	"errors"
	"time"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// An attempt that an earlier call has finished needs no image, unless its result would be
// another one now. That is told by the image that is there, or by the name of the one that
// would be got.

// glimpse is what is known of an image without pulling or building it.
type glimpse struct {
	image Image
	there bool
}

// glimpse looks for an instance's image. Of an engine that cannot say it is not there.
func (r *Runner) glimpse(ctx context.Context, inst *datasets.Instance) glimpse {
	img, ok, err := r.o.Images.There(ctx, inst)
	return glimpse{img, ok && err == nil}
}

// named reports whether it is known what the image is called.
func (g glimpse) named() bool { return g.image.Ref != "" }

// candidates are the images that a record can count as made from: the one that is there;
// where none is, the record's own, unless the one that would be got has another name. Which
// variables were added to it is not on record, but that they are the last of its
// environment.
func (g glimpse) candidates(a *reports.Attempt) []Image {
	if g.there {
		return []Image{g.image}
	}
	if g.named() && a.Image != g.image.Ref && a.Image != g.image.Pinned {
		return nil
	}
	var list []Image
	for n := len(a.Env); n >= 0; n-- {
		list = append(list, Image{Ref: a.Image, Digest: a.ImageDigest, Env: a.Env, AddEnv: a.Env[n:], Deviations: a.Deviations, History: a.History})
	}
	return list
}

// Current reports whether a record is of the job as it would be made now. image and there
// are what Images.There says.
func (r *Runner) Current(job Job, a *reports.Attempt, image Image, there bool) bool {
	if job.Prediction.Empty() {
		return a.Key == r.key(ready{job: job})
	}
	for _, img := range (glimpse{image, there}).candidates(a) {
		if a.Key == r.key(ready{job: job, image: img}) {
			return true
		}
	}
	return false
}

// sameRun is the image from which the job would be run as a record says.
func (r *Runner) sameRun(job Job, a *reports.Attempt, g glimpse) (Image, bool) {
	for _, img := range g.candidates(a) {
		if a.RunKey == r.runKey(ready{job: job, image: img}) {
			return img, true
		}
	}
	return Image{}, false
}

// stand has a job do without its image, where an earlier result is of the same run.
func (r *Runner) stand(ctx context.Context, rd *ready) error {
	a, err := r.o.Ledger.Earlier(rd.job.ID())
	if err != nil || a == nil || !a.Outcome.Evaluated() {
		return err
	}
	if g := rd.there(); g.there || g.named() {
		rd.image, rd.standIn = r.sameRun(rd.job, a, g)
	}
	return nil
}

// fetch gets the image of a job, and tells.
func (r *Runner) fetch(ctx context.Context, rd *ready) {
	rd.standIn = false
	slots := r.builds
	if r.pulled(rd.job.Instance) {
		slots = r.pulls
	}
	if rd.err = slots.Acquire(ctx, 1); rd.err != nil {
		return
	}
	defer slots.Release(1)
	began := time.Now()
	rd.image, rd.err = r.image(ctx, rd.job)
	rd.imageTook = time.Since(began)
	if ctx.Err() == nil { // an interrupt says nothing of the image
		r.emit(Event{Kind: ImageReady, Job: rd.job, Image: rd.image, Took: rd.imageTook, Err: rd.err})
	}
}

// known is the record that an attempt need not be made for, or may not; where there is
// none, the job has its image, or why not.
func (r *Runner) known(ctx context.Context, rd *ready) (*reports.Attempt, error) {
	if found, err := r.recall(ctx, *rd); err != nil || found != nil {
		return found, err
	}
	if rd.standIn { // the earlier result does not hold after all
		r.fetch(ctx, rd)
		if found, err := r.recall(ctx, *rd); err != nil || found != nil {
			return found, err
		}
	}
	if rd.err != nil && ctx.Err() == nil && r.o.Ledger.Holds(rd.job.ID()) {
		return r.withoutImage(ctx, *rd)
	}
	return nil, nil
}

// withoutImage ends an attempt whose image cannot be had, and of which the run has a
// result. That stays: as the attempt's own where it holds as far as can be told, and else
// untouched, with the attempt not run.
func (r *Runner) withoutImage(ctx context.Context, rd ready) (*reports.Attempt, error) {
	failed := r.record(rd.job)
	stop := r.noImage(ctx, rd.err, &failed)
	failed.Outcome = grading.NotRun
	failed.Reason = "its image cannot be had; a result of something else that an earlier call has left stays as it is: " + rd.err.Error()
	a, err := r.o.Ledger.Earlier(rd.job.ID())
	if err != nil {
		return nil, err
	}
	r.emit(Event{Kind: Stays, Job: rd.job, Err: rd.err})
	if a != nil && a.Outcome.Evaluated() {
		if img, ok := r.sameRun(rd.job, a, rd.there()); ok {
			rd.image, rd.err = img, nil
			if found, err := r.recall(ctx, rd); found != nil || err != nil {
				return found, errors.Join(err, stop)
			}
		}
	}
	return &failed, stop
}
