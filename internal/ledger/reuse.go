package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/regrade"
	"github.com/evalrun/evalrun/internal/screen"
	"github.com/evalrun/evalrun/reports"
)

// Result finds what an attempt need not be made for, with its log in place, or nil.
// want is the attempt's record as far as it is known, with its keys.
func (l *Ledger) Result(ctx context.Context, want *reports.Attempt, inst *datasets.Instance) (*reports.Attempt, error) {
	a, open, err := l.own(ctx, want, inst)
	if a != nil || open || err != nil || l.o.Fresh {
		return a, err
	}
	for _, find := range []func(context.Context, *reports.Attempt, *datasets.Instance) (*reports.Attempt, error){l.sibling, l.cached} {
		if a, err := find(ctx, want, inst); a != nil || err != nil {
			return a, err
		}
	}
	return nil, nil
}

// own is the attempt's own result of an earlier call. open says that there is one of the
// same run, whose log leaves the verdict open: another log of that would not tell more.
func (l *Ledger) own(ctx context.Context, want *reports.Attempt, inst *datasets.Instance) (a *reports.Attempt, open bool, err error) {
	found, err := l.standing(want.ID())
	switch {
	case found == nil || err != nil:
		return nil, false, err
	case found.Key == want.Key && found.Outcome.Evaluated():
		found.Resumed = true
		return found, false, l.restore(found)
	case l.o.Fresh || found.RunKey == "" || found.RunKey != want.RunKey || !shareable(found) && !found.Outcome.Evaluated():
		return nil, false, nil
	}
	a, err = l.fit(ctx, found, l.files(found).TestOutput, want, inst)
	return a, a == nil && found.Outcome.Evaluated(), err
}

// logFits reports whether the log that lies there is the one of a record, as far as its
// length tells.
func (l *Ledger) logFits(a *reports.Attempt) (bool, error) {
	info, err := os.Stat(l.files(a).TestOutput)
	if errors.Is(err, fs.ErrNotExist) {
		return a.LogBytes == 0 && !reports.GradingReached(a), nil
	}
	if err != nil {
		return false, err
	}
	return a.LogBytes == 0 || a.LogBytes == info.Size(), nil
}

func (l *Ledger) record(e entry) (*reports.Attempt, error) {
	ev, err := l.journal.ReadAt(e.place())
	if err != nil {
		return nil, err
	}
	return reports.AttemptOf(ev)
}

// restore makes sure that the attempt's files say what the journal does.
func (l *Ledger) restore(a *reports.Attempt) error {
	have, err := reports.ReadAttempt(l.files(a).Attempt)
	if err == nil && have != nil && have.Key == a.Key && have.Outcome == a.Outcome {
		return nil
	}
	return reports.WriteAttempt(l.o.Layout.Attempt(a.Attempt), a)
}

// sibling is the result of another attempt of this run at the same.
func (l *Ledger) sibling(ctx context.Context, want *reports.Attempt, inst *datasets.Instance) (*reports.Attempt, error) {
	l.mu.Lock()
	e, ok := l.at(want.RunKey)
	l.mu.Unlock()
	if !ok {
		return nil, nil
	}
	found, err := l.record(e)
	if err != nil {
		return nil, err
	}
	if found.RunKey != want.RunKey || found.ID() == want.ID() {
		return nil, nil
	}
	if fits, err := l.logFits(found); !fits || err != nil {
		return nil, err
	}
	if _, err := l.makeWay(want); err != nil {
		return nil, err
	}
	from, to := l.files(found).TestOutput, l.files(want).TestOutput
	log, err := os.Open(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		defer log.Close()
		err = place(to, log)
	} else {
		err = place(to, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("instance %s: copy the log of the same patch: %w", want.InstanceID, err)
	}
	return l.fit(ctx, found, to, want, inst)
}

// place puts the log of an attempt in place, whole or not at all; nil is none. A log that
// cannot be written is an errPlace, one that cannot be read is not.
func place(path string, log io.Reader) error {
	if log == nil {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %w", errPlace, err)
		}
		return nil
	}
	from := &source{r: log}
	err := cache.WriteFrom(path, 0o666, func(w io.Writer) error {
		_, err := io.Copy(w, from)
		return err
	})
	if err != nil && from.err == nil {
		err = fmt.Errorf("%w: %w", errPlace, err)
	}
	return err
}

var errPlace = errors.New("its log cannot be put in place")

// source keeps what reading failed of.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// fit makes of a result the one of the attempt that is wanted, or nothing where it
// is none: its log has to be graded again and leaves the verdict open.
func (l *Ledger) fit(ctx context.Context, found *reports.Attempt, log string, want *reports.Attempt, inst *datasets.Instance) (*reports.Attempt, error) {
	a := *found
	if a.Key != want.Key {
		again, err := l.regrade(ctx, found, log, want, inst)
		if again == nil || err != nil {
			return nil, err
		}
		a = *again
	}
	if !a.Outcome.Evaluated() {
		return nil, nil // what was not graded for the dataset's sake is tried again
	}
	from := found.Origin()
	if found.ReusedFrom != nil {
		from = *found.ReusedFrom
	}
	a.InstanceID, a.Repo, a.Model, a.RunID, a.Attempt = want.InstanceID, want.Repo, want.Model, want.RunID, want.Attempt
	a.Key, a.RunKey, a.Rules, a.LogParser = want.Key, want.RunKey, want.Rules, want.LogParser
	a.Reused, a.ReusedFrom = false, nil
	if from != a.Origin() {
		a.Reused, a.ReusedFrom = true, &from
	}
	return &a, nil
}

// regrade grades a stored log under the rules wanted. What ended before its tests did
// ends so under all rules, and whatever the parser. What the first attempt would have gone
// into had it been resolved, and did not, cannot be told from a log: such an attempt is
// made again.
func (l *Ledger) regrade(ctx context.Context, found *reports.Attempt, log string, want *reports.Attempt, inst *datasets.Instance) (*reports.Attempt, error) {
	if !reports.GradingReached(found) {
		a := *found
		a.Regraded = true
		return &a, nil
	}
	if want.LogParser != regrade.Parser(inst) {
		return nil, nil
	}
	results, err := regrade.Grade(ctx, regrade.Options{Rules: grading.Rules(want.Rules), Workers: 1},
		[]regrade.Job{{Log: regrade.OwnLog(log, found), Instance: inst}})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, nil // there is no log any more, or it cannot be read
	}
	a := results[0].Attempt
	if a.Outcome == grading.Resolved && found.Outcome != grading.Resolved {
		suspicious := a.Trust.Screen != nil && a.Trust.Screen.Level != screen.Clean
		if len(a.Trust.Doubts) > 0 || suspicious || l.o.Opinions {
			return nil, nil
		}
	}
	a.Regraded = true
	return &a, nil
}

// shareable reports whether a result says something of the patch and of nothing
// else: not of how busy the machine was, nor of an engine in trouble.
func shareable(a *reports.Attempt) bool {
	if a.RunKey == "" {
		return false
	}
	switch a.Outcome {
	case grading.Resolved, grading.Unresolved, grading.Ungradeable, grading.Inconsistent, grading.OutOfMemory, grading.DiskLimit:
		return a.Verdict != nil // without one the sandbox has decided
	case grading.ApplyFailed:
		return len(a.Patch.Tries) > 0 // it was tried, and did not just take too long
	case grading.Tampering:
		return true
	}
	return false
}
