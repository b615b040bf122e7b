package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/journal"
	"github.com/evalrun/evalrun/reports"
)

// Options say which run, and what may be taken from elsewhere.
type Options struct {
	Layout reports.Layout
	RunID  string
	// Fresh takes no result of another attempt, nor one of an earlier call of this run:
	// unless that was fresh, too, and has left something to do, so that this call goes
	// on from it.
	Fresh bool
	// Verdicts are those of all runs; nil keeps to this one.
	Verdicts *cache.Store
	// Opinions says that every resolved attempt gets a second opinion.
	Opinions bool
	// Warn tells people what went wrong and changes no result; may be nil.
	Warn func(text string)
}

// Ledger is the state of one run, while this process works on it. Its methods are
// safe for concurrent use.
type Ledger struct {
	o       Options
	unlock  func()
	journal *journal.Journal
	place   string

	mu sync.Mutex
	index
	warned bool
	goesOn bool // the last call that was read was fresh, and is not through
	begun  bool // the journal has the beginning of an attempt
}

// lockWait is how long another process may take to let go of the run: `report
// --watch` holds it for moments.
const lockWait = 2 * time.Second

// Open takes the run for this process, and reads what is done of it.
func Open(ctx context.Context, o Options) (*Ledger, error) {
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	l := &Ledger{o: o, index: newIndex()}
	if err := l.lock(ctx); err != nil {
		return nil, err
	}
	if err := l.read(); err != nil {
		l.unlock()
		return nil, err
	}
	return l, nil
}

func (l *Ledger) lock(ctx context.Context) error {
	dir := l.o.Layout.RunDir(l.o.RunID)
	for _, d := range []string{dir, filepath.Dir(l.o.Layout.SummaryFile(l.o.RunID, "model"))} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("--out: make the folder of the run: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	// The lock is the system's, and ends with the process; the file says to people
	// who it is, and means nothing in a copy of the folder.
	unlock, err := cache.Lock(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return fmt.Errorf("run %q is in use by another process; wait for it, or give --run-id another name (%w)", l.o.RunID, err)
	}
	l.unlock, l.place = unlock, placeOf(dir)
	return nil
}

func (l *Ledger) read() error {
	j, scan, err := journal.Open(l.o.Layout.JournalFile(l.o.RunID), l.take)
	if err != nil {
		return fmt.Errorf("run %q: %w", l.o.RunID, err)
	}
	l.journal = j
	for _, d := range scan.Damage {
		l.o.Warn(fmt.Sprintf("the journal of run %q is damaged %s; attempts that stood there are made again", l.o.RunID, d))
	}
	if l.o.Verdicts != nil {
		if err := l.o.Verdicts.Sweep(); err != nil {
			l.o.Warn(fmt.Sprintf("results of other runs: %v", err))
		}
	}
	// The last call may have been killed, also after it wrote its end: the hashes of
	// all files come last. Nobody but us writes there.
	if err := cache.RemoveTemp(l.o.Layout.RunDir(l.o.RunID), time.Time{}); err != nil {
		return errors.Join(fmt.Errorf("run %q: remove what a killed call has left: %w", l.o.RunID, err), j.Close())
	}
	return nil
}

// take keeps in mind what an event says.
func (l *Ledger) take(ev journal.Event) error {
	switch ev.Kind {
	case reports.EventRunStarted:
		var started reports.RunEvent
		if err := json.Unmarshal(ev.Data, &started); err != nil {
			return fmt.Errorf("event %d: %w", ev.Seq, err)
		}
		if id := started.Run.RunID; id != "" && id != l.o.RunID {
			return fmt.Errorf("its folder holds the journal of run %q: a run keeps its name, also in a copy; give --run-id %s, or another name for a new run", id, id)
		}
		l.startOver(started.NoCache)
	case reports.EventRunEnded:
		var ended reports.RunEvent
		if err := json.Unmarshal(ev.Data, &ended); err != nil {
			return fmt.Errorf("event %d: %w", ev.Seq, err)
		}
		l.goesOn = l.goesOn && ended.Left > 0
	case reports.EventAttemptStarted:
		var started reports.AttemptEvent
		if err := json.Unmarshal(ev.Data, &started); err != nil {
			return fmt.Errorf("event %d: %w", ev.Seq, err)
		}
		l.forget(started.ID())
		l.begun = true
	case reports.EventAttemptFinished:
		var a reports.Attempt
		if err := json.Unmarshal(ev.Data, &a); err != nil {
			return fmt.Errorf("event %d: %w", ev.Seq, err)
		}
		l.remember(&a, ev.Place)
	}
	return nil
}

// startOver has a fresh ledger forget what was done before a call, unless the call goes
// on from it.
func (l *Ledger) startOver(fresh bool) {
	if l.o.Fresh && !(fresh && l.goesOn) {
		l.index.startOver()
	}
	l.goesOn = fresh
}

// Begin writes down what this call of the run is about. The attempts of a run that
// was made before there were journals are taken over.
func (l *Ledger) Begin(about reports.RunEvent) error {
	run := about.Run
	about.NoCache = l.o.Fresh
	l.startOver(l.o.Fresh)
	if len(l.done) == 0 && !l.begun && !l.o.Fresh {
		if err := l.adoptFiles(run); err != nil {
			return err
		}
	}
	for _, model := range run.Models {
		for n := 1; n <= max(1, run.Attempts); n++ {
			if err := cache.RemoveTempOf(l.o.Layout.Attempt(n).SummaryFile(l.o.RunID, model)); err != nil {
				return err
			}
		}
	}
	_, err := l.journal.Append(reports.EventRunStarted, about)
	return err
}

func (l *Ledger) adoptFiles(run reports.RunRecord) error {
	for n := 1; n <= max(1, run.Attempts); n++ {
		for _, model := range run.Models {
			attempts, problems := reports.LoadAttempts(l.o.Layout.Attempt(n), l.o.RunID, model)
			for _, p := range problems {
				l.o.Warn(fmt.Sprintf("%v; the instance is run again", p))
			}
			for i := range attempts {
				place, err := l.journal.Append(reports.EventAttemptFinished, &attempts[i])
				if err != nil {
					return err
				}
				l.remember(&attempts[i], place)
			}
		}
	}
	return nil
}

// Started writes down that an attempt is being made. Where an earlier record of it would
// count for a call after this one, it is on disk when Started returns, so that none counts
// whose files are gone.
func (l *Ledger) Started(a *reports.Attempt) error {
	again, err := l.makeWay(a)
	if again || err != nil {
		return err
	}
	return l.journal.Note(reports.EventAttemptStarted, begun(a))
}

// makeWay has the earlier record of an attempt count no more, on disk too, before anything
// of its files is touched; false is that there is none.
func (l *Ledger) makeWay(a *reports.Attempt) (bool, error) {
	l.mu.Lock()
	was := l.forget(a.ID())
	l.mu.Unlock()
	if !was {
		return false, nil
	}
	if _, err := l.journal.Append(reports.EventAttemptStarted, begun(a)); err != nil {
		return true, fmt.Errorf("instance %s: %w", a.InstanceID, err)
	}
	return true, nil
}

func begun(a *reports.Attempt) reports.AttemptEvent {
	return reports.AttemptEvent{Model: a.Model, InstanceID: a.InstanceID, Attempt: a.Attempt, Key: a.Key}
}

// Finished writes down what became of an attempt, whose files are in place. When it
// returns the result outlives whatever happens.
func (l *Ledger) Finished(a *reports.Attempt) error {
	log := l.files(a).TestOutput
	if err := syncFile(log); err != nil {
		return fmt.Errorf("instance %s: %w", a.InstanceID, err)
	}
	place, err := l.journal.Append(reports.EventAttemptFinished, a)
	if err != nil {
		return fmt.Errorf("instance %s: %w", a.InstanceID, err)
	}
	l.mu.Lock()
	l.remember(a, place)
	l.mu.Unlock()
	if l.o.Verdicts != nil && a.ReusedFrom == nil && shareable(a) {
		if err := putVerdict(l.o.Verdicts, l.place, a, log); err != nil {
			l.warnOnce(fmt.Sprintf("results are not kept for other runs: %v", err))
		}
	}
	return nil
}

func (l *Ledger) warnOnce(text string) {
	l.mu.Lock()
	told := l.warned
	l.warned = true
	l.mu.Unlock()
	if !told {
		l.o.Warn(text)
	}
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was run
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// End writes down that the run's summaries are written, and how many attempts are left
// to be made.
func (l *Ledger) End(run reports.RunRecord, left int) error {
	_, err := l.journal.Append(reports.EventRunEnded, reports.RunEvent{Run: run, Left: left})
	return err
}

// Finished reads which attempts a call of the run would find finished, and gives what came
// of each, "" for the others, without taking the run.
func Finished(o Options) (func(reports.AttemptID) grading.Outcome, error) {
	f, err := journal.OpenFile(o.Layout.JournalFile(o.RunID))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := &Ledger{o: o, index: newIndex()}
	if _, err := journal.Read(f, l.take); err != nil {
		return nil, err
	}
	l.startOver(o.Fresh)
	return func(id reports.AttemptID) grading.Outcome {
		e, ok := l.find(id)
		if !ok {
			return ""
		}
		return l.outcome(e)
	}, nil
}

// Done counts the attempts that earlier calls have finished with a result of the
// patch.
func (l *Ledger) Done() int {
	n := 0
	for _, e := range l.done {
		if l.outcome(e).Evaluated() {
			n++
		}
	}
	return n
}

// Attempt reads the record of an attempt that is finished.
func (l *Ledger) Attempt(id reports.AttemptID) (*reports.Attempt, error) {
	l.mu.Lock()
	e, ok := l.find(id)
	l.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("instance %s, model %s: the journal of run %q does not have its end", id.InstanceID, id.Model, l.o.RunID)
	}
	return l.record(e)
}

// Earlier reads the record that an earlier call has left of an attempt, or nil, and makes
// sure that its files say the same. It says nothing of whether the attempt would be made
// alike now.
func (l *Ledger) Earlier(id reports.AttemptID) (*reports.Attempt, error) {
	a, err := l.standing(id)
	if a == nil || err != nil {
		return nil, err
	}
	return a, l.restore(a)
}

// standing reads the record of an attempt, or nil where there is none, or none whose log
// is still there.
func (l *Ledger) standing(id reports.AttemptID) (*reports.Attempt, error) {
	l.mu.Lock()
	e, ok := l.find(id)
	l.mu.Unlock()
	if !ok {
		return nil, nil
	}
	a, err := l.record(e)
	if err != nil {
		return nil, err
	}
	fits, err := l.logFits(a)
	if err != nil {
		return nil, fmt.Errorf("instance %s: the log of an earlier call: %w", a.InstanceID, err)
	}
	if !fits {
		l.mu.Lock()
		l.setAside(id)
		l.mu.Unlock()
		if a.Outcome.Evaluated() {
			l.o.Warn(fmt.Sprintf("instance %s, model %s: the log of the result of an earlier call is gone, or is another one: the attempt is made again", a.InstanceID, a.Model))
		}
		return nil, nil
	}
	return a, nil
}

// Holds reports whether the run has a result of the patch for an attempt that making it
// would take away, also where this call takes none of earlier ones.
func (l *Ledger) Holds(id reports.AttemptID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.last(id)
	return ok && l.outcome(e).Evaluated()
}

// Close lets go of the run.
func (l *Ledger) Close() error {
	err := l.journal.Close()
	l.unlock()
	return err
}

func (l *Ledger) files(a *reports.Attempt) reports.InstanceFiles {
	return l.o.Layout.Attempt(a.Attempt).Instance(a.RunID, a.Model, a.InstanceID)
}
