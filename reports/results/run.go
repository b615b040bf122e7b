package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// loadRun reads a run of ours, finished or not.
func loadRun(ctx context.Context, dir string, o Options) ([]*Set, error) {
	layout := reports.LayoutOf(dir)
	record, err := reports.LoadRun(layout, filepath.Base(dir)) // the name is only for messages
	if err != nil {
		return nil, err
	}
	layout = layout.WithNames(record.Models, nil)
	load := reports.LoadAttempts
	if o.Light {
		load = reports.LoadOutcomes
	}
	recordOf := func(n int) *reports.RunRecord {
		// They differ in what there was no prediction for.
		if own, err := reports.LoadRun(layout.Attempt(n), record.RunID); err == nil {
			return &own
		}
		return &record
	}
	return runSets(ctx, dir, layout, recordOf, func(n int, model string) ([]reports.Attempt, []string) {
		attempts, problems := load(layout.Attempt(n), record.RunID, model)
		var warnings []string
		for _, p := range problems {
			warnings = append(warnings, p.Error())
		}
		return attempts, warnings
	}, o)
}

// loadJournal reads a run from its journal and from nothing else.
func loadJournal(ctx context.Context, path string, o Options) ([]*Set, error) {
	j, err := reports.LoadJournal(path)
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	var damage []string
	for _, d := range j.Damage {
		damage = append(damage, fmt.Sprintf("%s is damaged %s", path, d))
	}
	layout := reports.LayoutOf(filepath.Dir(path)).WithNames(j.Run.Models, nil)
	return runSets(ctx, path, layout, j.Record, func(n int, model string) ([]reports.Attempt, []string) {
		var attempts []reports.Attempt
		for i := range j.Attempts {
			if id := j.Attempts[i].ID(); id.Model == model && id.Attempt == n {
				attempts = append(attempts, j.Attempts[i])
			}
		}
		return attempts, damage
	}, o)
}

// runSets are the results of a run: a set for each model, and for each of several
// attempts.
func runSets(ctx context.Context, source string, layout reports.Layout, recordOf func(n int) *reports.RunRecord, load func(n int, model string) ([]reports.Attempt, []string), o Options) ([]*Set, error) {
	var sets []*Set
	run := recordOf(layout.Number())
	records := map[int]*reports.RunRecord{layout.Number(): run}
	wanted := func(model string) bool { return model == o.model || !slices.Contains(run.Models, o.model) }
	for _, model := range run.Models {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !wanted(model) {
			continue
		}
		first, last := 1, max(1, run.Attempts)
		if n := layout.Number(); n > 1 {
			first, last = n, n // of one attempt's folder
		}
		for n := first; n <= last; n++ {
			if records[n] == nil {
				records[n] = recordOf(n)
			}
			record := records[n]
			s := &Set{Name: model, Model: model, Run: record.RunID, Kind: KindRun, Source: source,
				Dataset: record.Dataset.SHA256, Rules: record.Rules, Record: record, created: record.CreatedAt}
			if run.Attempts > 1 {
				s.Name = fmt.Sprintf("%s, attempt %d", model, n)
			}
			if n > 1 {
				s.Source = layout.Attempt(n).RunDir(record.RunID)
			}
			attempts, warnings := load(n, model)
			s.Warnings = warnings
			for i := range attempts {
				o.shared.record(&attempts[i])
			}
			s.Items = FromAttempts(layout.Attempt(n), record, model, attempts, o.Light)
			sets = append(sets, s)
		}
	}
	if len(sets) == 0 {
		return nil, &FileError{Path: source, Err: errors.New("names no models")}
	}
	return sets, nil
}

// FromAttempts are the items of one model of a run: one for each instance of it,
// whether it was reached or not. light leaves out the tests.
func FromAttempts(layout reports.Layout, record *reports.RunRecord, model string, attempts []reports.Attempt, light bool) []Item {
	byID := make(map[string]*reports.Attempt, len(attempts))
	for i := range attempts {
		byID[attempts[i].InstanceID] = &attempts[i]
	}
	nothing := map[string]bool{}
	for _, id := range record.NoPrediction[model] {
		nothing[id] = true
	}
	items := make([]Item, 0, len(record.InstanceIDs))
	seen := make(map[string]bool, len(record.InstanceIDs))
	for _, id := range record.InstanceIDs {
		if seen[id] {
			continue
		}
		seen[id] = true
		a := byID[id]
		if a == nil || nothing[id] { // of an earlier call, when there was a prediction
			it := Item{ID: id, Outcome: grading.NotRun, Submitted: !nothing[id], Reason: "no attempt was recorded"}
			if nothing[id] {
				it.Reason = "no prediction"
			}
			items = append(items, it)
			continue
		}
		it := Item{ID: id, Outcome: a.Outcome, Submitted: true, Reason: oneLine(a.Reason), Repo: a.Repo, Seconds: a.Seconds,
			Dir: layout.Instance(record.RunID, model, id).Dir}
		if !light && a.Verdict != nil && a.Verdict.Tests != nil {
			it.FailToPass, it.PassToPass = tests(a.Verdict.Tests.FailToPass), tests(a.Verdict.Tests.PassToPass)
		}
		if !light {
			it.Record = a
		}
		items = append(items, it)
	}
	slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(a.ID, b.ID) })
	return items
}

func tests(s grading.Split) *Tests { return &Tests{Passed: s.Success, Failed: s.Failure} }

// modelOf gives a folder of the official layout its model's name back, as far as
// that can be told: "/" has become "__".
func modelOf(folder string) string { return strings.Replace(folder, "__", "/", 1) }

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
