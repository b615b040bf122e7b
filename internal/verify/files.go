package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/provenance"
)

// files holds every file of the run against the list that was made at its end, and
// says what is there and belongs to nobody.
func (in *Input) files(ctx context.Context, r *Report) error {
	now, err := provenance.Sum(ctx, in.Layout, &in.Record)
	if err != nil {
		return err
	}
	was, err := provenance.ReadSums(in.Layout, in.Record.RunID)
	listed := err == nil
	switch {
	case errors.Is(err, fs.ErrNotExist) && !in.Record.FinishedAt.IsZero():
		r.add(provenance.SumsFile, Differs, "is gone: run.json says that the run is over")
	case errors.Is(err, fs.ErrNotExist):
		r.add(provenance.SumsFile, Unchecked, "the run is not over and has none: edits that nothing contradicts are not found")
	case err != nil:
		r.add(provenance.SumsFile, Differs, "%v", err)
	}
	for _, name := range now.Odd {
		r.add(name, Differs, "is neither a file nor a folder")
	}
	if listed {
		compareSums(r, "", was.Files, now.Files)
		compareSums(r, "summary ", was.Summaries, now.Summaries)
	}
	in.foreign(r, now)
	for _, model := range in.Record.Models {
		in.summary(r, model)
	}
	return nil
}

func compareSums(r *Report, what string, was, now map[string]string) {
	for _, name := range sortedNames(was, now) {
		recorded, known := was[name]
		sum, there := now[name]
		switch {
		case !known:
			r.add(what+name, Differs, "was not there when the run ended")
		case !there:
			r.add(what+name, Differs, "is gone")
		case recorded != sum:
			r.add(what+name, Differs, "is not what it was when the run ended")
		default:
			r.add(what+name, Same, "")
		}
	}
}

func sortedNames(maps ...map[string]string) []string {
	var names []string
	for _, m := range maps {
		for name := range m {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// foreign names folders of models that run.json does not: results there count
// nowhere, and are of an earlier call or of somebody else.
func (in *Input) foreign(r *Report, now provenance.Sums) {
	known := map[string]bool{}
	for _, model := range in.Record.Models {
		known[filepath.Base(in.Layout.ModelDir(in.Record.RunID, model))] = true
	}
	for n := 2; in.Layout.Number() == 1 && n <= in.Record.Attempts; n++ {
		known[filepath.Base(in.Layout.Attempt(n).RunDir(in.Record.RunID))] = true // verified by itself
	}
	entries, err := os.ReadDir(in.Layout.RunDir(in.Record.RunID))
	if err != nil {
		r.add("folder of the run", Unchecked, "%v", err)
		return
	}
	for _, e := range entries {
		if !e.IsDir() || known[e.Name()] {
			continue
		}
		files := 0
		for name := range now.Files {
			if strings.HasPrefix(name, e.Name()+"/") {
				files++
			}
		}
		r.add(e.Name(), Unchecked, "is a folder of %d files of no model that run.json names: of an earlier call of this run, or not of it", files)
	}
}

// summary holds the official summary against what it would be made of the attempts.
// It also has what is known to nobody else, which is taken as it is: predictions for
// instances that were not selected, and what was left in the engine.
func (in *Input) summary(r *Report, model string) {
	path := in.Layout.SummaryFile(in.Record.RunID, model)
	what := filepath.Base(path) + ": what it says"
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		r.add(what, Differs, "is no regular file")
		return
	}
	data, err := reports.ReadRegular(path)
	if err != nil {
		r.add(what, Unchecked, "%v; --report-dir says where the summaries are", err)
		return
	}
	var said reports.OfficialRun
	if err := json.Unmarshal(data, &said); err != nil {
		r.add(what, Differs, "cannot be read: %v", err)
		return
	}
	selected, nothing := setOf(in.Record.InstanceIDs), setOf(in.Record.NoPrediction[model])
	predicted := slices.DeleteFunc(slices.Clone(said.SubmittedIDs), func(id string) bool { return selected[id] })
	for _, id := range in.Record.InstanceIDs {
		if !nothing[id] {
			predicted = append(predicted, id)
		}
	}
	input := reports.OfficialInput{DatasetIDs: in.Record.InstanceIDs, PredictionIDs: predicted}
	for i := range in.Attempts {
		if in.Attempts[i].Model == model {
			input.Attempts = append(input.Attempts, in.Attempts[i])
		}
	}
	if said.UnstoppedInstances != nil {
		input.Leftovers = &reports.Leftovers{Containers: said.UnstoppedContainers, Images: said.UnremovedImages}
	}
	want, err := reports.NewOfficialRun(input).Encode()
	switch {
	case err != nil:
		r.add(what, Unchecked, "%v", err)
	case !bytes.Equal(data, want):
		r.add(what, Differs, "is not what the attempts say")
	default:
		r.add(what, Same, "")
	}
}

func setOf(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}
