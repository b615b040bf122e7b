package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/ledger"
	"github.com/evalrun/evalrun/internal/observe"
	"github.com/evalrun/evalrun/internal/provision"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/schedule"
	"github.com/evalrun/evalrun/reports"
)

// keptOfAttempt is about what stays in memory of an attempt to the end of its run.
const keptOfAttempt = 128

// call is one call of a run, from the time its engine is there.
type call struct {
	*runCmd
	e      *env
	job    job
	layout reports.Layout
	known  *ledger.Ledger
	eng    *engine.Engine
	ui     *display

	plan          *plan
	record        reports.RunRecord
	images        *provision.Provider
	proof         *networkProof
	history, made *schedule.History // of attempts, and of images
	notRun        sync.Map          // job -> why, where its image could not be had and an earlier result stays
}

// grade makes the attempts of a run, and writes what came of them.
func (c *runCmd) grade(e *env, j job) (err error) {
	layout := c.layout(j)
	known, err := c.ledger(e, layout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, known.Close()) }()
	eng, err := c.open(e)
	if err != nil {
		return err
	}
	defer func() {
		if err := eng.Close(); err != nil { // the results are written
			fmt.Fprintln(e.stderr, "warning: the engine:", reports.SafeText(err.Error()))
		}
	}()
	fmt.Fprintln(e.stderr, "engine:", reports.SafeText(eng.String()))
	if err := c.sweep(e, eng); err != nil {
		return err
	}
	run := &call{runCmd: c, e: e, job: j, layout: layout, known: known, eng: eng, ui: &display{}}
	if err := run.prepare(); err != nil {
		return err
	}
	defer run.images.Close()
	return run.attempts()
}

// prepare finds out what there is to do, and writes it down.
func (c *call) prepare() error {
	provider, err := c.provider(c.e, c.eng, c.job.selected, c.ui)
	if err != nil {
		return err
	}
	c.images, c.proof = provider, &networkProof{engine: c.eng}
	c.whole(provider.Recipes)
	if c.plan, err = newPlan(c.job.selected, c.job.sets, provider.Recipes, c.Attempts); err != nil {
		return err
	}
	c.shareOut(&c.job.limits.Sandbox, c.eng.Info.CPUs)
	c.record = c.runCmd.record(c.job, c.eng)
	if err := c.begin(c.e, c.layout, c.plan, c.record, c.known); err != nil {
		return err
	}
	if c.history, err = schedule.OpenHistory(historyFile(c.cacheDir())); err != nil {
		return err
	}
	c.made, err = schedule.OpenHistory(imageHistoryFile(c.cacheDir()))
	return err
}

// attempts makes the attempts.
func (c *call) attempts() error {
	roomy, err := c.room()
	if err != nil {
		return err
	}
	r := c.runner(roomy)
	order, err := r.Order(c.plan)
	if err != nil {
		return err
	}
	roomy.keeper.Order(order)
	watch, stop, err := c.watch(c.e, c.layout, observe.Options{RunID: c.RunID, Jobs: c.plan.Len(), Left: r.Left}, c.note)
	if err != nil {
		return err
	}
	watch.Begin("evalrun", version, "engine", c.eng.String(), "workers", c.Workers.most(), "instances", len(c.job.selected))
	terminal, width := terminalOf(c.e.stderr)
	c.ui.progress, c.ui.watch = newProgress(c.e.stderr, terminal, width, c.plan.Len()), watch
	c.ui.progress.predict(r.Left)
	keepRoom(c.plan.Len())
	results := newEndings(c.plan.Len())
	ctx, done := c.Deadline.byClock(c.e.ctx, time.Now)
	defer done()
	runErr := r.Make(ctx, c.plan, func(job int, a *reports.Attempt) {
		if a.Outcome == grading.NotRun {
			c.notRun.Store(job, a.Reason)
			return
		}
		results.set(job, endedOf(a))
		c.proof.heard(a.Network)
	})
	c.ui.progress.Close()
	stop(runErr) // its log is one of the run's files, which are hashed below
	if err := errors.Join(c.history.Close(), c.made.Close()); err != nil {
		fmt.Fprintf(c.e.stderr, "warning: %v\n", err)
	}
	return c.conclude(r, results, runErr, width)
}

func (c *call) runner(images *roomyImages) *runner.Runner {
	seen := roomyDisplay{c.ui, images.keeper, &sync.Map{}}
	imageTook := imageTimes(c.e.ctx, c.made, c.eng)
	return runner.New(runner.Options{
		RunID: c.RunID, Layout: c.layout, Driver: c.eng.Sandbox, Images: images, Observer: seen, Workers: c.Workers.most(), Builders: c.Builders, Pulls: c.Pulls,
		Limits: c.job.limits, Rules: c.job.rules, Unenforced: c.eng.Unenforced(), Network: c.proof.of, Ledger: c.known, Apart: c.NoCache,
		Events:  func(ev runner.Event) { c.ui.event(ev); imageTook(ev); seen.event(ev) },
		History: c.history, Layer: layerOf, Pulled: c.images.Pulled, Capacity: capacity(c.eng.Info, c.Workers), Deadline: endOfRun{after: c.Deadline.after}.from(time.Now()),
		RowCapabilities: c.Capabilities, Policy: c.job.policy, Verify: runner.Verify(c.Verify),
	})
}

// note tells people something.
func (c *call) note(text string) { c.ui.note(c.e.stderr, text) }

// recallPatience is how long an engine may take to say which images are there, when a run
// has ended early.
const recallPatience = 10 * time.Second

// recall takes for the attempts that this call did not come to what earlier calls have
// made of them, as they would have been taken had it come to them.
func (c *call) recall(r *runner.Runner, results *endings) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.e.ctx), recallPatience)
	defer cancel()
	var of *datasets.Instance
	var image runner.Image
	there := false
	for i := range c.plan.Len() {
		if results.at(i).outcome != "" {
			continue
		}
		a, err := c.known.Earlier(c.plan.id(i))
		if err != nil {
			return err
		}
		if a == nil {
			continue
		}
		if inst := c.plan.Instance(i); inst != of && !c.plan.Empty(i) {
			of = inst
			// Of an engine that does not answer no image is there.
			var err error
			image, there, err = c.images.There(ctx, of)
			there = there && err == nil
			if cause.Of(err).Passes() {
				cancel()
			}
		}
		j, err := c.plan.Job(i)
		if err != nil {
			return err
		}
		if r.Current(j, a, image, there) {
			results.set(i, endedOf(a))
			c.record.Network = cmp.Or(c.record.Network, a.Network)
		}
	}
	return nil
}

// conclude writes what came of the attempts.
func (c *call) conclude(r *runner.Runner, results *endings, runErr error, width int) error {
	c.record.Network = c.proof.found()
	leftovers := &reports.Leftovers{}
	for _, left := range r.Leftovers() {
		leftovers.Containers = append(leftovers.Containers, left.InstanceID)
		fmt.Fprintf(c.e.stderr, "warning: %s (`evalrun clean` tries again)\n", reports.SafeText(left.Err.Error()))
	}
	if err := c.recall(r, results); err != nil {
		return &exitError{exitNotEvaluated, advised(errors.Join(runErr, err))}
	}
	out := outcome{c: c.runCmd, layout: c.layout, plan: c.plan, record: c.record, made: results, left: leftovers, width: width}
	out.attempt = func(job int) (*reports.Attempt, error) {
		if results.at(job).outcome != "" {
			return c.known.Attempt(c.plan.id(job))
		}
		j, err := c.plan.Job(job)
		if err != nil {
			return nil, err
		}
		a := r.NotRun(j, runErr)
		if why, ok := c.notRun.Load(job); ok {
			a.Reason = why.(string)
		}
		return &a, nil
	}
	if err := out.write(c.e, c.known); err != nil {
		return &exitError{exitNotEvaluated, advised(errors.Join(runErr, err))}
	}
	return c.verdict(c.e, results, runErr)
}
