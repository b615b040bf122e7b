package main

import (
	"encoding/json"
	"fmt"

	"github.com/evalrun/evalrun/internal/regrade"
	"github.com/evalrun/evalrun/reports"
)

// show prints the results of one model's logs.
func (c *gradeCmd) show(e *env, r *storedRun, ids []string, attempts []reports.Attempt) error {
	if c.JSON {
		return reports.NewDocument(nil, r.id, r.model, ids, attempts).Write(e.stdout)
	}
	warned := 0
	for _, a := range attempts {
		for _, w := range a.Warnings {
			if warned++; warned <= maxWarnings {
				fmt.Fprintf(e.stderr, "warning: %s: %s\n", reports.SafeText(a.InstanceID), reports.SafeText(w))
			}
		}
	}
	if warned > maxWarnings {
		fmt.Fprintf(e.stderr, "warning: … and %d more\n", warned-maxWarnings)
	}
	_, width := terminalOf(e.stdout)
	return showModel(e, false, c.Show, &reports.RunRecord{RunID: r.id}, r.model, r.model, ids, attempts, width)
}

// write puts down the official files of one model's logs.
func (c *gradeCmd) write(e *env, r *storedRun, ids []string, attempts []reports.Attempt) error {
	if c.Output == "" {
		return nil
	}
	layout := reports.Layout{Root: c.Output}.WithNames([]string{r.model}, ids)
	predicted := r.predicted
	for i := range attempts {
		if err := reports.WriteReport(layout, &attempts[i]); err != nil {
			return err
		}
		if r.predicted == nil {
			predicted = append(predicted, attempts[i].InstanceID)
		}
	}
	run := reports.NewOfficialRun(reports.OfficialInput{DatasetIDs: ids, PredictionIDs: predicted, Attempts: attempts})
	path, err := reports.WriteOfficialRun(layout, r.id, r.model, run)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "wrote %s and the report.json files\n", reports.SafeText(path))
	return nil
}

// showDifferences lists what two rule sets disagree on.
func (c *gradeCmd) showDifferences(e *env, o regrade.Options, list []*regrade.Difference, total int) error {
	if c.JSON {
		if list == nil {
			list = []*regrade.Difference{}
		}
		enc := json.NewEncoder(e.stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(list)
	}
	fmt.Fprintf(e.stdout, "%d of %d verdicts differ between %s and %s\n", len(list), total, o.Rules, o.Against)
	for _, d := range list {
		a, b := d.Verdicts[0], d.Verdicts[1]
		fmt.Fprintf(e.stdout, "%s (%s): %s %s, %s %s\n", reports.SafeText(d.InstanceID), reports.SafeText(d.Model), a.Rules, a.Outcome, b.Rules, b.Outcome)
		if d.Test != "" {
			fmt.Fprintf(e.stdout, "    %s %s: %s / %s\n", d.List, reports.SafeText(d.Test), a.Status, b.Status)
			continue
		}
		for _, side := range d.Verdicts {
			if side.Reason != "" {
				fmt.Fprintf(e.stdout, "    %s: %s\n", side.Rules, reports.SafeText(side.Reason))
			}
		}
	}
	return nil
}
