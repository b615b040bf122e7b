package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/submission"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/results"
)

type bundleCmd struct {
	Source string   `arg:"" help:"A run of one model, or RUN::MODEL."`
	Output string   `name:"out" default:"." placeholder:"DIR" help:"Folder that holds logs/."`
	To     string   `required:"" placeholder:"DIR" help:"Folder to make, as a leaderboard names them: 20250807_agent-2."`
	Name   string   `placeholder:"TEXT" help:"The system, as the board shows it; else the model's name."`
	Org    string   `placeholder:"TEXT" help:"Who made it."`
	Site   string   `placeholder:"URL" help:"Where to read about it."`
	Models []string `name:"model-tag" placeholder:"NAME" help:"Language models it used; else the model's name."`
	Open   bool     `name:"open-source" help:"The system's source is open."`
	Trajs  string   `type:"existingdir" placeholder:"DIR" help:"Folder with trajectories, named after their instances."`
	universeFlags
}

func (bundleCmd) Help() string {
	return `Makes all_preds.jsonl, metadata.yaml, results/, logs/ and trajs/ from a run of evalrun or of
the official harness. Patches and logs are copied as they are. Check it before you send it.

Examples:
  evalrun leaderboard bundle agent-2 --to evaluation/verified/20250807_agent-2 --name 'Agent 2' --org Acme -d verified
  evalrun leaderboard bundle nightly::acme/agent-2 --to 20250807_agent-2 --trajs trajs --model-tag acme-large
  evalrun leaderboard check 20250807_agent-2 -d verified
`
}

// Run makes a submission's folder.
func (c *bundleCmd) Run(e *env) error {
	u, err := c.load(e)
	if err != nil {
		return err
	}
	sets, err := results.Load(e.ctx, c.Source, results.Options{Root: c.Output})
	if err != nil {
		return err
	}
	showNotes(e, sets)
	if len(sets) != 1 {
		return fmt.Errorf("%s has %d models (%s): a submission is of one, give %s::MODEL", c.Source, len(sets), titleOf(sets), c.Source)
	}
	set := sets[0]
	if set.Kind != results.KindRun && set.Kind != results.KindLogs {
		return fmt.Errorf("%s is a %s, and has no patches and logs of its own: give a run", c.Source, set.Kind)
	}
	if u != nil {
		if err := u.Check(set); err != nil {
			return err
		}
		set.Complete(u.IDs)
	}
	meta := submission.Meta{Name: c.Name, Org: c.Org, Site: c.Site, Models: c.Models, Open: c.Open}
	if meta.Name == "" {
		meta.Name = set.Model
	}
	if len(meta.Models) == 0 {
		meta.Models = []string{set.Model}
	}
	made, err := submission.Write(e.ctx, c.To, submission.Bundle{Set: set, Facts: facts(u), Meta: meta, Trajs: c.Trajs})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "%s: %d instances, %d predictions, %d folders of logs, %d resolved, %d trajectories\n",
		reports.SafeText(c.To), made.Instances, made.Predictions, made.Logs, made.Resolved, made.Trajs)
	return nil
}

type checkCmd struct {
	Folders []string `arg:"" name:"folder" help:"Folders of submissions."`
	datasetFlags
	Rules string `default:"swebench-5" help:"Grading rules: swebench-5, swebench-4.1 or strict."`
	JSON  bool   `name:"json" help:"Print a JSON object for each submission."`
}

func (checkCmd) Help() string {
	return `Finds instances of another split, missing files, more than one attempt, and verdicts that
do not follow from the logs, which are graded again; what a submission says of itself is
not believed. Exit code 0: nothing but warnings. 1: something is wrong.

Examples:
  evalrun leaderboard check -d verified evaluation/verified/20250807_agent-2
  evalrun leaderboard check -d lite evaluation/lite/* --rules swebench-4.1 --json
`
}

// Run checks submissions.
func (c *checkCmd) Run(e *env) error {
	rules, err := grading.ParseRules(c.Rules)
	if err != nil {
		return err
	}
	ds, selected, err := c.load(e, cache.Dir())
	if err != nil {
		return err
	}
	if len(selected) < len(ds.Instances) {
		return errors.New("a submission is of a whole split: leave --instance, --repo, --ids-file, --slice and --sample away")
	}
	wrong := 0
	for _, dir := range c.Folders {
		r, err := submission.Look(e.ctx, dir, ds, rules)
		if err != nil {
			return err
		}
		wrong += r.Errors()
		if err := c.show(e, dir, &r); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return &exitError{exitFailed, fmt.Errorf("%d faults", wrong)}
	}
	return nil
}

func (c *checkCmd) show(e *env, dir string, r *submission.Result) error {
	if c.JSON {
		return json.NewEncoder(e.stdout).Encode(struct {
			Folder string `json:"folder"`
			*submission.Result
		}{dir, r})
	}
	for _, f := range r.Findings {
		level := "error"
		if f.Warning {
			level = "warning"
		}
		where := string(f.Check)
		if f.InstanceID != "" {
			where += " " + f.InstanceID
		}
		fmt.Fprintf(e.stdout, "%s: %s: %s: %s\n", reports.SafeText(dir), level, reports.SafeText(where), reports.SafeText(f.Detail))
	}
	_, err := fmt.Fprintf(e.stdout, "%s: %d predictions of %d instances, %d logs graded; resolved: %d claimed, %d by the logs; %d errors, %d warnings\n",
		reports.SafeText(dir), r.Predictions, r.Instances, r.Graded, r.Claimed, r.Resolved, r.Errors(), len(r.Findings)-r.Errors())
	return err
}
