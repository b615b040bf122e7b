// Package verify computes again what a run of evalrun has written down: hashes of
// every file, verdicts, official files, the statement. It says what differs.
//
// It reads a run's folder and the rows it was about. It must not run anything,
// change a file, or decide what a difference means.
package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/provenance"
)

// Input is a run, and what it was made from as far as that is at hand.
type Input struct {
	Layout      reports.Layout
	Record      reports.RunRecord
	Attempts    []reports.Attempt
	Unreadable  []reports.LoadError
	Dataset     *datasets.Dataset // nil: rows are not checked, verdicts are not computed
	Predictions map[string]string // path as in the record -> SHA-256 now; those not at hand are missing
}

// Status of one check.
type Status string

const (
	Same      Status = "same"
	Differs   Status = "differs"
	Unchecked Status = "unchecked"
)

// Check is one thing computed again.
type Check struct {
	What   string `json:"what"`
	Status Status `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// Report is all checks. Digest is that of the statement as computed now.
type Report struct {
	Digest string  `json:"digest"`
	Checks []Check `json:"checks"` // those that differ or could not be made, and totals
	Counts Counts  `json:"counts"`
}

// Add takes in the checks of a part of the run, each named after it.
func (r *Report) Add(part string, more Report) {
	for _, c := range more.Checks {
		c.What = part + c.What
		r.Checks = append(r.Checks, c)
	}
	r.Counts.Same += more.Counts.Same
	r.Counts.Differs += more.Counts.Differs
	r.Counts.Unchecked += more.Counts.Unchecked
}

// Counts says how many checks came out how.
type Counts struct {
	Same      int `json:"same"`
	Differs   int `json:"differs"`
	Unchecked int `json:"unchecked"`
}

func (r *Report) add(what string, status Status, format string, args ...any) {
	switch status {
	case Same:
		r.Counts.Same++
		return
	case Differs:
		r.Counts.Differs++
	case Unchecked:
		r.Counts.Unchecked++
	}
	r.Checks = append(r.Checks, Check{what, status, fmt.Sprintf(format, args...)})
}

// compare adds a check of two texts.
func (r *Report) compare(what, recorded, now string) {
	if recorded == now {
		r.add(what, Same, "")
		return
	}
	r.add(what, Differs, "recorded %q, now %q", recorded, now)
}

// Run checks everything that can be.
func Run(ctx context.Context, in Input) (Report, error) {
	r := Report{Checks: []Check{}}
	for _, bad := range in.Unreadable {
		r.add(bad.Path, Differs, "cannot be used: %v", bad.Err)
	}
	rows := in.inputs(&r)
	selected := setOf(in.Record.InstanceIDs)
	parts := make([]Report, len(in.Attempts))
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for i := range in.Attempts {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			a := &in.Attempts[i]
			in.attempt(ctx, &parts[i], a, rows[a.InstanceID], selected[a.InstanceID])
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return r, err
	}
	for _, p := range parts {
		r.Checks = append(r.Checks, p.Checks...)
		r.Counts.Same += p.Counts.Same
		r.Counts.Differs += p.Counts.Differs
		r.Counts.Unchecked += p.Counts.Unchecked
	}
	if err := in.files(ctx, &r); err != nil {
		return r, err
	}
	return r, in.statement(ctx, &r)
}

// inputs checks the dataset, its rows, and the predictions.
func (in *Input) inputs(r *Report) map[string]*datasets.Instance {
	rows := map[string]*datasets.Instance{}
	if in.Dataset == nil {
		r.add("dataset", Unchecked, "give it with -d; without it no verdict is computed")
	} else {
		r.compare("dataset", in.Record.Dataset.SHA256, in.Dataset.SHA256)
		for i := range in.Dataset.Instances {
			rows[in.Dataset.Instances[i].ID] = &in.Dataset.Instances[i]
		}
		for _, id := range in.Record.InstanceIDs {
			recorded := in.Record.RowHashes[id]
			switch row := rows[id]; {
			case row == nil:
				r.add("row "+id, Differs, "is not in the dataset")
			case recorded == "":
				r.add("row "+id, Unchecked, "the run recorded no hash of it")
			default:
				r.compare("row "+id, recorded, row.Hash())
			}
		}
	}
	for _, p := range in.Record.Predictions {
		now, ok := in.Predictions[p.Path]
		switch {
		case p.SHA256 == "": // gold, empty, a folder
		case !ok:
			r.add("predictions "+p.Path, Unchecked, "the file is not here")
		default:
			r.compare("predictions "+p.Path, p.SHA256, now)
		}
	}
	return rows
}

// attempt checks one attempt against its files and its row.
func (in *Input) attempt(ctx context.Context, r *Report, a *reports.Attempt, row *datasets.Instance, selected bool) {
	what := func(part string) string { return a.Model + " " + a.InstanceID + ": " + part }
	files := in.Layout.Instance(a.RunID, a.Model, a.InstanceID)
	switch {
	case !selected:
		r.add(what("instance"), Unchecked, "run.json is of a later call, which did not select it")
	case a.ImageDigest != "" && in.Record.FinishedAt.IsZero() && in.Record.ImageDigests[a.InstanceID] == "":
		r.add(what("image digest"), Unchecked, "the run is not over, and run.json does not have it yet")
	case a.ImageDigest != "":
		r.compare(what("image digest"), in.Record.ImageDigests[a.InstanceID], a.ImageDigest)
	}
	switch sum, err := provenance.HashFile(files.Patch); {
	case err != nil:
		r.add(what("patch.diff"), Unchecked, "%v", err)
	case a.Patch.Null || a.Patch.SHA256 == "": // nothing is no file, or an empty one
	default:
		r.compare(what("patch.diff"), a.Patch.SHA256, sum)
	}
	in.report(r, what("report.json"), a, files.Report)
	if row != nil {
		checkVerdict(ctx, r, what("verdict"), a, row, files.Dir)
	}
}

// report holds report.json against what it would be made of the record.
func (in *Input) report(r *Report, what string, a *reports.Attempt, path string) {
	data, err := reports.ReadRegular(path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !missing:
		r.add(what, Unchecked, "%v", err)
		return
	case missing != !reports.GradingReached(a):
		r.add(what, Differs, "there is %v, and the outcome is %s", !missing, a.Outcome)
		return
	case missing:
		return
	}
	want, err := reports.OfficialReport(a)
	switch {
	case err != nil:
		r.add(what, Unchecked, "%v", err)
	case !bytes.Equal(data, want):
		r.add(what, Differs, "is not what attempt.json says")
	default:
		r.add(what, Same, "")
	}
}

// statement computes the statement and holds it against the one of the run.
func (in *Input) statement(ctx context.Context, r *Report) error {
	now, err := provenance.New(ctx, in.Layout, &in.Record, in.Attempts)
	if err != nil {
		return err
	}
	data, err := now.Encode()
	if err != nil {
		return err
	}
	if r.Digest, err = now.Digest(); err != nil {
		return err
	}
	was, err := reports.ReadRegular(filepath.Join(in.Layout.RunDir(in.Record.RunID), provenance.File))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !in.Record.FinishedAt.IsZero():
		r.add(provenance.File, Differs, "is gone: run.json says that the run is over")
	case errors.Is(err, fs.ErrNotExist):
		r.add(provenance.File, Unchecked, "the run is not over and has none")
	case err != nil:
		return err
	case !bytes.Equal(was, data):
		r.add(provenance.File, Differs, "is not what the run's files say now")
	default:
		r.add(provenance.File, Same, "")
	}
	return nil
}
