package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/internal/lint"
	"github.com/evalrun/evalrun/reports"
)

type datasetLintCmd struct {
	datasetFlags
	Ignore []string `placeholder:"KIND" help:"Kinds of faults not to report, comma separated; may be repeated."`
	JSON   bool     `name:"json" help:"Print one JSON object a line."`
}

func (datasetLintCmd) Help() string {
	var kinds []string
	for _, k := range lint.Kinds() {
		kinds = append(kinds, string(k))
	}
	return `Kinds: ` + strings.Join(kinds, ", ") + `.
Exit code 0: nothing found. 1: something was found.

Examples:
  evalrun dataset lint -d verified
  evalrun dataset lint -d rows.jsonl --json
  evalrun dataset lint -d rows.jsonl --ignore cut-id,refused-reset
`
}

// Run looks for faults in the selected rows.
func (c *datasetLintCmd) Run(e *env) error {
	ignored, err := c.ignored()
	if err != nil {
		return err
	}
	ds, err := c.read(e, cache.Dir())
	var problems datasets.Problems
	if err != nil && !errors.As(err, &problems) {
		return err
	}
	selected, err := c.choose(ds)
	if err != nil {
		return err
	}
	found := slices.Concat(lint.Problems(problems), lint.Rows(selected))
	found = slices.DeleteFunc(found, func(f lint.Finding) bool { return ignored[f.Kind] })
	slices.SortStableFunc(found, func(a, b lint.Finding) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	enc := json.NewEncoder(e.stdout)
	enc.SetEscapeHTML(false)
	rows := map[string]bool{}
	for _, f := range found {
		rows[f.InstanceID] = true
		if c.JSON {
			err = enc.Encode(f)
		} else {
			_, err = fmt.Fprintf(e.stdout, "%s: %s: %s: %s\n", reports.SafeText(datasets.Position{File: f.File, Line: f.Line}.String()), reports.SafeText(f.InstanceID), f.Kind, reports.SafeText(f.Detail))
		}
		if err != nil {
			return err
		}
	}
	if len(found) > 0 {
		return &exitError{exitFailed, fmt.Errorf("%d faults in %d rows", len(found), len(rows))}
	}
	return nil
}

func (c *datasetLintCmd) ignored() (map[lint.Kind]bool, error) {
	ignored := map[lint.Kind]bool{}
	for _, item := range c.Ignore {
		kind := lint.Kind(strings.TrimSpace(item))
		if !slices.Contains(lint.Kinds(), kind) {
			return nil, fmt.Errorf("--ignore %s: no such kind; there are %v", item, lint.Kinds())
		}
		ignored[kind] = true
	}
	return ignored, nil
}
