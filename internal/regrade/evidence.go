package regrade

import (
	"cmp"
	"fmt"
	"io"
	"os"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
	"github.com/evalrun/evalrun/reports"
)

// evidence is what a stored log can be graded by.
type evidence struct {
	open grading.Source
	own  *reports.Attempt

	// Of a run of ours that ran phase by phase it is on record how much the tests
	// printed and how they exited; markers in their output mean nothing then.
	region grading.Source
	exit   int
}

func newEvidence(log Log) evidence {
	e := evidence{own: log.own, open: func() (io.ReadCloser, error) { return os.Open(log.Path) }}
	if log.own != nil {
		e.region, e.exit = recorded(log.Path, log.own.Phases)
	}
	return e
}

// verdict is a report and the outcome it means.
type verdict struct {
	report  grading.Report
	outcome grading.Outcome
	reason  string
}

// doubts are what in a stored log contradicts a verdict of resolved. They are for
// people to look at: the verdict stays that of the rules.
func (e evidence) doubts(r grading.Report, inst *datasets.Instance) ([]grading.Doubt, error) {
	open := e.open
	if e.region != nil {
		open = e.region
	}
	return grading.CrossCheck(open, Parser(inst), expectation(r.Rules, inst), r)
}

func (e evidence) verdict(rules grading.Rules, inst *datasets.Instance) (verdict, error) {
	parser, want := Parser(inst), expectation(rules, inst)
	in := logparse.Context{Repo: inst.Repo, Version: inst.Version, InstanceID: inst.ID}
	var v verdict
	var err error
	switch {
	case e.region != nil:
		v.report, err = grading.FromRegionSource(rules, e.region, e.exit, parser, in, want)
	case e.own != nil:
		v.report, err = grading.FromLogSource(rules, e.open, parser, in, want)
	default:
		v.report, err = grading.FromStoredLogSource(rules, e.open, parser, in, want)
	}
	if err != nil {
		return v, err
	}
	offline := ""
	if !v.report.Found && v.report.Statuses.Len() == 0 {
		if offline, err = grading.FindOfflineSign(e.open); err != nil {
			return v, err
		}
	}
	if e.own != nil {
		v.outcome, v.reason = e.ownOutcome(&v.report, parser, offline)
	} else {
		v.outcome, v.reason = v.report.LogOutcome(offline)
	}
	return v, nil
}

// ownOutcome decides as the run itself did. What was decided by more than the log
// stays.
func (e evidence) ownOutcome(r *grading.Report, parser, offline string) (grading.Outcome, string) {
	was := e.own.Outcome
	if was == grading.DiskLimit || r.Resolved && (was == grading.Tampering || was == grading.Inconsistent) {
		return was, e.own.Reason
	}
	known := grading.Circumstances{Parser: parser, Missing: offline}
	if was == grading.OutOfMemory {
		known.OutOfMemory = cmp.Or(e.own.Reason, "its record says so")
	}
	if e.region != nil {
		known.Exit = &e.exit
	}
	outcome, reason := r.Outcome(known)
	if outcome == grading.Ungradeable && offline != "" && was == grading.Unresolved {
		return was, e.own.Reason // a run without the patch lacked nothing
	}
	return outcome, reason
}

// recorded finds the output of the test phase at the end of a log of ours: before
// the closing lines, as long as the record says. It is nil where the two do not
// fit together.
func recorded(path string, phases []reports.PhaseRecord) (grading.Source, int) {
	if len(phases) == 0 {
		return nil, 0
	}
	last := phases[len(phases)-1]
	if last.Name != "test" || last.Truncated || last.TimedOut {
		return nil, 0
	}
	head := "+ : '" + logparse.StartTestOutput + "'\n"
	tail := fmt.Sprintf("+ : '%s'\n%s: %d\n", logparse.EndTestOutput, logparse.TestExitCode, last.ExitCode)
	f, err := os.Open(path)
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0
	}
	end := info.Size() - int64(len(tail))
	if !standsAt(f, tail, end) {
		return nil, 0
	}
	from := end - last.OutputBytes
	if !standsAt(f, head, from-int64(len(head))) {
		from-- // the output did not end with a newline, so one was added
		if !standsAt(f, head, from-int64(len(head))) {
			return nil, 0
		}
	}
	open := func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		return section{io.NewSectionReader(f, from, last.OutputBytes), f}, nil
	}
	return open, last.ExitCode
}

// section is a part of a file.
type section struct {
	*io.SectionReader
	io.Closer
}

func standsAt(f *os.File, text string, at int64) bool {
	buf := make([]byte, len(text))
	if at < 0 {
		return false
	}
	n, err := f.ReadAt(buf, at)
	return n == len(buf) && (err == nil || err == io.EOF) && string(buf) == text
}
