package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/evalrun/evalrun/datasets/demo"
	"github.com/evalrun/evalrun/reports"
)

type demoCmd struct {
	Output  string `name:"out" default:"demo-run" placeholder:"DIR" help:"Folder for the dataset, the predictions and the results."`
	Workers int    `short:"j" default:"0" help:"Attempts at a time; 0 is one per processor."`
	Fresh   bool   `help:"Grade again what an earlier call has graded."`
	Check   bool   `help:"Compare every outcome with the expected one; exit code 1 when they differ."`
	JSON    bool   `name:"json" help:"Print the results as JSON on standard output."`
	engineFlags
}

func (demoCmd) Help() string {
	return `The demo dataset has small repositories in several languages, each with a bug, hidden
tests, and predictions that show every outcome.

Examples:
  evalrun demo
  evalrun demo --out /tmp/demo --fresh --check
`
}

// Run writes the demo dataset out and grades it like any other.
func (c *demoCmd) Run(e *env) error {
	if err := demo.WriteTo(c.Output); err != nil {
		return err
	}
	repositories := filepath.Join(c.Output, "repositories")
	if err := demo.Materialize(e.ctx, repositories); err != nil {
		return err
	}
	run := runCmd{
		datasetFlags: datasetFlags{Dataset: filepath.Join(c.Output, "demo.jsonl"), Split: "test"},
		Predictions:  []string{"gold"},
		RunID:        "demo", Workers: workerCount(c.Workers), Output: c.Output, Rules: "swebench-5", NoCache: c.Fresh, JSON: c.JSON, Show: "all",
		Limits: defaultLimits(),
		imageFlags: imageFlags{
			engineFlags: c.engineFlags, Images: "build", RepoMirror: []string{repositories}, Python: "pinned", Builders: 2, Pulls: 1, Tag: "latest",
			LockFile: filepath.Join(c.Output, "images.lock"),
		},
	}
	for _, name := range slices.Sorted(maps.Keys(demo.Predictions())) {
		run.Predictions = append(run.Predictions, filepath.Join(c.Output, "predictions", name+".jsonl"))
	}
	run.Predictions = append(run.Predictions, "empty")
	if !c.Check {
		return run.Run(e)
	}
	return c.check(e, &run)
}

// check runs the demo and holds its outcomes against the expected ones.
func (c *demoCmd) check(e *env, run *runCmd) error {
	run.JSON = true
	var out bytes.Buffer
	quiet := *e
	quiet.stdout = &out
	if err := run.Run(&quiet); err != nil {
		return err
	}
	expected, err := demo.Expected()
	if err != nil {
		return err
	}
	wrong, checked := 0, 0
	missing := map[string]bool{}
	for model, outcomes := range expected {
		for id := range outcomes {
			missing[model+" "+id] = true
		}
	}
	for dec := json.NewDecoder(&out); ; {
		var doc reports.Document
		if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		for _, r := range doc.Instances {
			checked++
			delete(missing, doc.Summary.Model+" "+r.InstanceID)
			want := expected[doc.Summary.Model][r.InstanceID]
			if string(r.Outcome) != want {
				wrong++
				fmt.Fprintf(e.stdout, "%s %s: %s, expected %s (%s)\n", doc.Summary.Model, r.InstanceID, r.Outcome, want, reports.SafeText(r.Reason))
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(missing)) {
		wrong++
		fmt.Fprintf(e.stdout, "%s: no outcome\n", what)
	}
	fmt.Fprintf(e.stdout, "%d outcomes, %d not as expected\n", checked, wrong)
	if wrong > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}
