package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/ledger"
	"github.com/evalrun/evalrun/internal/provision"
	"github.com/evalrun/evalrun/reports"
)

// defaultLimits are those of the run command.
func defaultLimits() limitFlags {
	return limitFlags{Timeout: duration(30 * time.Minute), Memory: "4GiB", Pids: 2048, Disk: "10GiB", Output: "256MiB"}
}

type buildCmd struct {
	datasetFlags
	imageFlags
	Plan bool `help:"Say what would be built, and build nothing."`
}

func (buildCmd) Help() string {
	return `Examples:
  evalrun build -d verified --repo sympy/sympy --slice :20 --repo-mirror ./mirrors
  evalrun build -d verified -i pallets__flask-5014 --repo-mirror ./mirrors --plan
`
}

// Run makes the images of the selected instances.
func (c *buildCmd) Run(e *env) error {
	_, selected, err := c.load(e, c.cacheDir())
	if err != nil {
		return err
	}
	eng, err := c.open(e)
	if err != nil {
		return err
	}
	defer eng.Close()
	fmt.Fprintln(e.stderr, "engine:", reports.SafeText(eng.String()))
	terminal, width := terminalOf(e.stderr)
	ui := &display{}
	provider, err := c.provider(e, eng, selected, ui)
	if err != nil {
		return err
	}
	defer provider.Close()
	if c.Plan {
		return showPlan(e, provider, selected)
	}
	ui.progress = newProgress(e.stderr, terminal, width, len(selected))
	err = c.makeImages(e.ctx, provider, selected, ui.progress)
	ui.progress.Close()
	if e.ctx.Err() != nil {
		return &exitError{exitInterrupted, errors.New("interrupted")}
	}
	if err != nil {
		return &exitError{exitNotEvaluated, err}
	}
	return nil
}

// makeImages builds and pulls, each some at a time.
func (c *buildCmd) makeImages(ctx context.Context, provider *provision.Provider, selected []datasets.Instance, progress *progress) error {
	pulls, builds := semaphore.NewWeighted(int64(max(1, c.Pulls))), semaphore.NewWeighted(int64(max(1, c.Builders)))
	var g sync.WaitGroup
	failed := make([]error, len(selected))
	for i := range selected {
		slots := builds
		if provider.Pulled(&selected[i]) {
			slots = pulls
		}
		g.Go(func() {
			if failed[i] = slots.Acquire(ctx, 1); failed[i] != nil {
				return
			}
			defer slots.Release(1)
			start := time.Now()
			_, failed[i] = provider.Image(ctx, &selected[i])
			what := "image ready"
			if failed[i] != nil {
				what = "build_failed"
			}
			progress.Done(selected[i].ID, what, time.Since(start).Seconds())
		})
	}
	g.Wait()
	return errors.Join(failed...)
}

type datasetCmd struct {
	Ls   datasetLsCmd   `cmd:"" help:"List instances."`
	Show datasetShowCmd `cmd:"" help:"Show one instance: its row, and how it would be built and tested."`
	Lint datasetLintCmd `cmd:"" help:"Find rows that cannot be graded as they mean to be."`
}

type datasetLsCmd struct {
	datasetFlags
	JSON bool `name:"json" help:"Print one JSON object a line."`
}

func (datasetLsCmd) Help() string {
	return `Examples:
  evalrun dataset ls -d verified --repo 'django/*'
  evalrun dataset ls -d data/verified.parquet --sample 20 --seed 7
  evalrun dataset ls -d rows.jsonl.gz --json
`
}

// Run lists the selected instances.
func (c *datasetLsCmd) Run(e *env) error {
	_, selected, err := c.load(e, cache.Dir())
	if err != nil {
		return err
	}
	enc := json.NewEncoder(e.stdout)
	for i := range selected {
		inst := &selected[i]
		if c.JSON {
			row := map[string]any{
				"instance_id": inst.ID, "repo": inst.Repo, "version": inst.Version, "base_commit": inst.BaseCommit,
				"fail_to_pass": len(inst.FailToPass), "pass_to_pass": len(inst.PassToPass), "row_hash": inst.Hash(),
			}
			if err := enc.Encode(row); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(e.stdout, "%-40s %-24s %-8s F2P %-3d P2P %d\n", reports.SafeText(inst.ID), reports.SafeText(inst.Repo),
			reports.SafeText(inst.Version), len(inst.FailToPass), len(inst.PassToPass))
	}
	return nil
}

type datasetShowCmd struct {
	datasetFlags
}

func (datasetShowCmd) Help() string {
	return `Prints JSON: the row, its hash, and the recipe derived from it (environment, install
steps, the phases of the evaluation).

Examples:
  evalrun dataset show -d verified -i psf__requests-2317
  evalrun dataset show -d rows.jsonl -i 'my__project-1' | less
`
}

// Run shows each selected instance whole, as JSON.
func (c *datasetShowCmd) Run(e *env) error {
	_, selected, err := c.load(e, cache.Dir())
	if err != nil {
		return err
	}
	recipes, err := recipesOf(selected)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(e.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	for i := range selected {
		inst := &selected[i]
		if err := enc.Encode(map[string]any{"row": inst, "row_hash": inst.Hash(), "recipe": recipes[inst.ID]}); err != nil {
			return err
		}
	}
	return nil
}

type cleanCmd struct {
	Images bool `help:"Remove the images evalrun has built, too."`
	engineFlags
}

func (cleanCmd) Help() string {
	return `A run removes its own sandboxes, also when it is interrupted. What a killed one left
is removed here, and by the next run. Those of runs that are going on stay.

Examples:
  evalrun clean
  evalrun clean --images --engine embedded
`
}

// Run removes what runs that are over have left, on every engine there is unless
// one is named.
func (c *cleanCmd) Run(e *env) error {
	found := 0
	if err := c.eachEngine(e, func(eng *engine.Engine) error { found++; return c.clean(e, eng) }); err != nil {
		return err
	}
	if found == 0 {
		fmt.Fprintln(e.stdout, "there is no engine here, and nothing to clean")
	}
	if err := ledger.Verdicts(c.cacheDir()).Sweep(); err != nil {
		return &exitError{exitNotEvaluated, err}
	}
	return nil
}

func (c *cleanCmd) clean(e *env, eng *engine.Engine) (err error) {
	defer func() { err = errors.Join(err, eng.Close()) }()
	n, err := eng.Sandbox.Sweep(e.ctx)
	if err != nil {
		return &exitError{exitNotEvaluated, err}
	}
	fmt.Fprintf(e.stdout, "%s: removed %d sandboxes of runs that are over\n", eng.Name, n)
	if c.Images {
		n, err := eng.Images.RemoveImages(e.ctx)
		if err != nil {
			return &exitError{exitNotEvaluated, err}
		}
		fmt.Fprintf(e.stdout, "%s: removed %d images\n", eng.Name, n)
	}
	if eng.Disk != nil {
		left, err := eng.Disk()
		if err != nil {
			return err
		}
		fmt.Fprintf(e.stdout, "%s: there are %s\n", eng.Name, left)
	}
	return nil
}

// showPlan prints what would be pulled, and the layers that would be built, each
// once.
func showPlan(e *env, p planner, selected []datasets.Instance) error {
	var specs []images.InstanceSpec
	var errs []error
	for i := range selected {
		if ref := p.Prebuilt(&selected[i]); ref != "" {
			fmt.Fprintf(e.stdout, "%-8s %s\n", "pull", reports.SafeText(ref))
			continue
		}
		spec, err := p.Spec(e.ctx, &selected[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		specs = append(specs, spec)
	}
	plan := images.NewPlan(specs)
	say := func(kind images.Kind, key, what string) {
		fmt.Fprintf(e.stdout, "%-8s %s  %s\n", kind, key[:12], reports.SafeText(what))
	}
	for _, key := range plan.Keys(images.Base) {
		say(images.Base, key, plan.Bases[key].Source.Kind+" "+plan.Bases[key].Source.Ref)
	}
	for _, key := range plan.Keys(images.Env) {
		env := plan.Envs[key]
		say(images.Env, key, strings.Join(strings.Fields(env.Language+" "+env.Version+" "+env.Python.From+" "+env.Python.Have), " "))
		for _, d := range env.Deviations {
			fmt.Fprintf(e.stdout, "%-8s %s\n", "", reports.SafeText(d))
		}
	}
	for _, key := range plan.Keys(images.Instance) {
		say(images.Instance, key, plan.Instances[key].InstanceID)
	}
	return errors.Join(errs...)
}
