package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/ledger"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/analysis"
	"github.com/evalrun/evalrun/reports/render"
	"github.com/evalrun/evalrun/reports/results"
)

// ended is what stays in memory of an attempt; the rest is in the journal.
type ended struct {
	outcome    grading.Outcome // "" if it did not come to an end
	image      string
	deviations []string
	shared     bool // its result is another one's
}

func endedOf(a *reports.Attempt) ended {
	return ended{a.Outcome, a.ImageDigest, a.Deviations, a.ReusedFrom != nil}
}

// endings say of each job how it ended. Many end alike, so that each is a number.
type endings struct {
	mu    sync.Mutex
	kinds []ended
	kind  map[string]uint32
	of    []uint32 // by job
}

func newEndings(jobs int) *endings {
	return &endings{kinds: []ended{{}}, kind: map[string]uint32{}, of: make([]uint32, jobs)}
}

// set may be called from any goroutine.
func (e *endings) set(job int, m ended) {
	name := fmt.Sprintf("%q %q %q %v", m.outcome, m.image, m.deviations, m.shared)
	e.mu.Lock()
	defer e.mu.Unlock()
	kind, ok := e.kind[name]
	if !ok {
		kind = uint32(len(e.kinds))
		e.kinds, e.kind[name] = append(e.kinds, m), kind
	}
	e.of[job] = kind
}

// at is how a job ended; it is for when no more end.
func (e *endings) at(job int) *ended { return &e.kinds[e.of[job]] }

// outcome is what a run has come to.
type outcome struct {
	c       *runCmd
	layout  reports.Layout
	plan    *plan
	record  reports.RunRecord
	made    *endings
	attempt func(job int) (*reports.Attempt, error)
	left    *reports.Leftovers
	width   int

	jobs map[column][]int
}

// keptOfRecord is about what a record takes while summaries are made of it.
const keptOfRecord = 3 << 10

// column is the n-th attempt of a model at each instance.
type column struct {
	n     int
	model string
}

// write puts down run.json, the summaries and statements, and shows the results.
func (o *outcome) write(e *env, known *ledger.Ledger) error {
	o.record.FinishedAt = time.Now()
	o.jobs = map[column][]int{}
	for i := range o.plan.Len() {
		id := o.plan.id(i)
		c := column{id.Attempt, id.Model}
		o.jobs[c] = append(o.jobs[c], i)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		most := 0
		for _, jobs := range o.jobs {
			most = max(most, len(jobs))
		}
		debug.SetMemoryLimit(memoryLimit + int64(o.plan.Len())*keptOfAttempt + int64(most)*keptOfRecord)
	}
	numbers := slices.Collect(o.plan.numbers())
	for _, n := range numbers {
		record := o.of(n)
		layout := o.layout.Attempt(n)
		if err := reports.WriteRun(layout, record); err != nil {
			return err
		}
		if err := writeStatement(layout, &record); err != nil {
			return err
		}
		for _, model := range record.Models {
			attempts, err := o.attempts(n, model)
			if err != nil {
				return err
			}
			official := reports.NewOfficialRun(reports.OfficialInput{
				DatasetIDs: o.plan.ids, PredictionIDs: o.plan.predicted(n, model), Attempts: attempts, Leftovers: o.left,
			})
			if _, err := reports.WriteOfficialRun(layout, record.RunID, model, official); err != nil {
				return err
			}
		}
		if n == 1 {
			if err := known.End(record, o.unfinished()); err != nil {
				return err
			}
		}
		if err := writeSums(layout, &record); err != nil {
			return err
		}
	}
	slices.Reverse(numbers)
	return o.show(e, numbers)
}

// unfinished counts the attempts that did not come to an end. One that ended without a
// result of the patch is not among them: a row that cannot be graded never has one, and
// a run with such a row is through all the same.
func (o *outcome) unfinished() int {
	n := 0
	for i := range o.plan.Len() {
		if o.made.at(i).outcome == "" {
			n++
		}
	}
	return n
}

// of is the record of the n-th attempt at each instance.
func (o *outcome) of(n int) reports.RunRecord {
	record := o.plan.record(o.record, n)
	record.ImageDigests, record.Reused = map[string]string{}, map[string]int{}
	for _, model := range record.Models {
		for _, i := range o.jobs[column{n, model}] {
			m := o.made.at(i)
			if m.image != "" {
				record.ImageDigests[o.plan.Instance(i).ID] = m.image
			}
			if m.shared {
				record.Reused[model]++
			}
			for _, d := range m.deviations {
				if !slices.Contains(record.Deviations, d) {
					record.Deviations = append(slices.Clip(record.Deviations), d)
				}
			}
		}
	}
	return record
}

// attempts reads the records of a model's n-th attempts.
func (o *outcome) attempts(n int, model string) ([]reports.Attempt, error) {
	var list []reports.Attempt
	for _, i := range o.jobs[column{n, model}] {
		a, err := o.attempt(i)
		if err != nil {
			return nil, err
		}
		list = append(list, short(*a))
	}
	return list, nil
}

// short leaves out of a record what no summary needs: those of a model are in memory at
// the same time.
func short(a reports.Attempt) reports.Attempt {
	a.Phases, a.Env, a.ChangedByTests = nil, nil, nil
	a.Patch.Files, a.Patch.Repairs, a.Patch.Tries = nil, nil, nil
	a.Trust.Screen, a.Trust.Doubts, a.Trust.SecondOpinion = nil, nil, nil
	return a
}

func (o *outcome) show(e *env, numbers []int) error {
	for _, model := range o.record.Models {
		var sets []*results.Set
		for _, n := range numbers {
			record := o.of(n)
			attempts, err := o.attempts(n, model)
			if err != nil {
				return err
			}
			layout, name := o.layout.Attempt(n), model
			if len(numbers) > 1 {
				name = fmt.Sprintf("%s, attempt %d", model, n)
			}
			if err := showModel(e, o.c.JSON, o.c.Show, &record, name, model, o.plan.ids, attempts, o.width); err != nil {
				return err
			}
			if o.c.JSON {
				continue
			}
			fmt.Fprintf(e.stdout, "  %s\n  %s\n\n", layout.SummaryFile(record.RunID, model), layout.ModelDir(record.RunID, model))
			items := results.FromAttempts(layout, &record, model, attempts, true)
			for i := range items {
				items[i].Dir, items[i].Reason = "", "" // which the rates of all attempts do not tell
			}
			sets = append(sets, &results.Set{Name: name, Model: model, Run: record.RunID, Kind: results.KindRun, Record: &record, Items: items})
		}
		if len(sets) > 1 {
			together := analysis.NewAttempts(sets, analysis.Options{})
			if err := render.Attempts(&together).WriteText(e.stdout, o.width); err != nil {
				return err
			}
		}
	}
	return nil
}

// showModel prints one model's results.
func showModel(e *env, asJSON bool, show string, record *reports.RunRecord, name, model string, ids []string, attempts []reports.Attempt, width int) error {
	if asJSON {
		return reports.NewDocument(record, record.RunID, model, ids, attempts).Write(e.stdout)
	}
	terminal, _ := terminalOf(e.stdout)
	opts := reports.TableOptions{Width: width, Color: terminal && os.Getenv("NO_COLOR") == ""}
	opts.Show = shown(show)
	fmt.Fprintf(e.stdout, "\n%s\n", reports.SafeText(name))
	if err := reports.WriteTable(e.stdout, attempts, opts); err != nil {
		return err
	}
	if err := reports.NewSummary(record.RunID, model, ids, attempts).WriteText(e.stdout, width); err != nil {
		return err
	}
	if n := record.Reused[model]; n > 0 {
		fmt.Fprintf(e.stdout, "reused %d of %d: results of other attempts at the same patch (reused_from in attempt.json; --no-cache makes each)\n", n, len(attempts))
	}
	return nil
}
