package grading_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
)

// answer is what the official harness said of a log.
type answer struct {
	Found     bool                       `json:"found"`
	BadCodes  []string                   `json:"bad_codes"`
	StatusMap map[string]grading.Status  `json:"status_map"`
	Report    map[string]json.RawMessage `json:"report"`
	Current   *grading.TestsStatus       `json:"report_current_labels"`
	Resolved  *bool                      `json:"resolved_current_labels"`
}

type officialLog struct {
	Source     string `json:"source"`
	Dataset    string `json:"dataset"`
	InstanceID string `json:"instance_id"`
	Encoding   string `json:"encoding"`
	Log        string `json:"log"`
	Expected   answer `json:"expected"`
}

func (c *tally) compareStatuses(id string, want map[string]grading.Status, got logparse.Statuses) {
	c.t.Helper()
	c.statuses += len(want)
	if m := got.Map(); !maps.Equal(want, m) {
		c.differ(id, "status map", cmp.Diff(want, m))
	}
}

// compareVerdict compares resolved and both lists, order included.
func (c *tally) compareVerdict(id string, resolved bool, tests *grading.TestsStatus, got grading.Report) {
	c.t.Helper()
	c.verdicts++
	if got.Resolved != resolved {
		c.differ(id, "resolved", cmp.Diff(resolved, got.Resolved))
	}
	if diff := cmp.Diff(tests, got.Tests); diff != "" {
		c.differ(id, "tests_status", diff)
	}
}

func contextOf(r row) logparse.Context {
	return logparse.Context{Repo: r.Repo, Version: r.Version, InstanceID: r.InstanceID}
}

func expectationOf(r row) grading.Expectation {
	return grading.Expectation{FailToPass: r.F2P, PassToPass: r.P2P, FailOnly: r.EvalType == "fail_only"}
}

func TestParitySynthetic(t *testing.T) {
	t.Parallel()
	all := sharedRows(t)
	c := newTally(t, "synthetic.jsonl.gz")
	sharedLines(t, "parity/synthetic.jsonl.gz", func(line []byte) {
		var l officialLog
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		r, ok := all[l.Dataset][l.InstanceID]
		if !ok {
			t.Fatalf("%s is not in %s", l.InstanceID, l.Dataset)
		}
		var want struct {
			Resolved bool                 `json:"resolved"`
			Applied  bool                 `json:"patch_successfully_applied"`
			Infra    bool                 `json:"infra_failure"`
			Tests    *grading.TestsStatus `json:"tests_status"`
		}
		if err := json.Unmarshal(l.Expected.Report[l.InstanceID], &want); err != nil {
			t.Fatal(err)
		}
		c.instances++
		got := grading.FromLog(grading.SWEBench5, decodeLog(t, l.Log, l.Encoding), r.LogParser, contextOf(r), expectationOf(r))
		c.compareStatuses(l.InstanceID, l.Expected.StatusMap, got.Statuses)
		c.compareVerdict(l.InstanceID, want.Resolved, want.Tests, got)
		if got.Found != want.Applied || got.InfraFailure() != want.Infra {
			c.differ(l.InstanceID, "found and infra_failure", cmp.Diff(want, got))
		}
	})
	c.report()
}

// rowFor finds the dataset row whose tests an official report speaks of: a few
// instances have other tests in Verified than in Lite.
func rowFor(all map[string]map[string]row, id string, report *grading.TestsStatus) (found row, ok bool) {
	for _, name := range []string{"SWE-bench_Verified_test", "SWE-bench_Lite_test", "SWE-bench_dev", "SWE-bench_Multilingual_test", "SWE-bench_Multimodal_dev"} {
		r, in := all[name][id]
		if !in {
			continue
		}
		if report == nil || sameTests(r.F2P, report.FailToPass) && sameTests(r.P2P, report.PassToPass) {
			return r, true
		}
	}
	return row{}, false
}

func sameTests(list []string, split grading.Split) bool {
	got := slices.Sorted(slices.Values(slices.Concat(split.Success, split.Failure)))
	return slices.Equal(slices.Sorted(slices.Values(list)), got)
}

func TestParityRealLogs(t *testing.T) {
	t.Parallel()
	all := sharedRows(t)
	c := newTally(t, "real-logs.jsonl.gz")
	sharedLines(t, "parity/real-logs.jsonl.gz", func(line []byte) {
		var l officialLog
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		c.instances++
		parser, in, want := forInstance(t, all, l)
		got := grading.FromLog(grading.SWEBench5, decodeLog(t, l.Log, l.Encoding), parser, in, want)
		if got.Found != l.Expected.Found {
			c.differ(l.InstanceID, "found: "+got.Reason, cmp.Diff(l.Expected.Found, got.Found))
			return
		}
		if got.Found {
			c.compareStatuses(l.InstanceID, l.Expected.StatusMap, got.Statuses)
		}
		switch {
		case l.Expected.Current != nil:
			c.compareVerdict(l.InstanceID, *l.Expected.Resolved, l.Expected.Current, got)
		case l.Expected.Resolved != nil:
			c.compareVerdict(l.InstanceID, *l.Expected.Resolved, nil, got)
		}
	})
	c.report()
}

// forInstance says how to read and grade a log. Where the row is not in the data,
// only the parser is known, by repository.
func forInstance(t *testing.T, all map[string]map[string]row, l officialLog) (string, logparse.Context, grading.Expectation) {
	t.Helper()
	if r, ok := rowFor(all, l.InstanceID, l.Expected.Current); ok {
		return r.LogParser, contextOf(r), expectationOf(r)
	}
	if l.Expected.Current != nil {
		t.Fatalf("%s: no row has the tests of the official report", l.InstanceID)
	}
	repo := repoOf(l.InstanceID)
	parser, ok := logparse.ForRepo(repo)
	if !ok {
		t.Fatalf("%s: no parser for %s", l.InstanceID, repo)
	}
	return parser, logparse.Context{Repo: repo, InstanceID: l.InstanceID}, grading.Expectation{}
}

func TestParityRealLogs2024(t *testing.T) {
	t.Parallel()
	all := sharedRows(t)
	c := newTally(t, "real-logs-2024.jsonl.gz")
	sharedLines(t, "parity/real-logs-2024.jsonl.gz", func(line []byte) {
		var l officialLog
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		c.instances++
		cut := logparse.Cut(decodeLog(t, l.Log, l.Encoding))
		if diff := cmp.Diff(append([]string{}, l.Expected.BadCodes...), append([]string{}, cut.BadCodes...)); diff != "" {
			c.differ(l.InstanceID, "bad codes", diff)
		}
		if !l.Expected.Found {
			return
		}
		// These logs have no markers: the official answer is the parser's on the whole.
		parser, in, want := forInstance(t, all, l)
		read := logparse.Parse(parser, cut.Text, in)
		c.compareStatuses(l.InstanceID, l.Expected.StatusMap, read.Statuses)
		if l.Expected.Current != nil {
			c.compareVerdict(l.InstanceID, *l.Expected.Resolved, l.Expected.Current, grading.Grade(grading.SWEBench5, want, read.Statuses))
		}
	})
	c.report()
}
