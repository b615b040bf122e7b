package grading_test

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
)

// answer41 is what release 4.1.0 said of one log; testdata/swebench-4.1.py wrote it.
type answer41 struct {
	dataset, id      string
	found, resolved  bool
	statuses         int
	statusSum, lists string
}

func answers41(t *testing.T) map[string]map[int]answer41 {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "swebench-4.1.tsv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[int]answer41{}
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		c := strings.Split(lines.Text(), "\t")
		number, err1 := strconv.Atoi(c[1])
		statuses, err2 := strconv.Atoi(c[6])
		if len(c) != 9 || err1 != nil || err2 != nil {
			t.Fatalf("bad line %q", lines.Text())
		}
		if out[c[0]] == nil {
			out[c[0]] = map[int]answer41{}
		}
		out[c[0]][number] = answer41{c[2], c[3], c[4] == "True", c[5] == "True", statuses, c[7], c[8]}
	}
	return out
}

func digest(lines []string) string {
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:])[:16]
}

// TestParity41 holds the rules swebench-4.1 to what that release says of the same
// logs: status maps and the four lists of tests by digest, resolved by value.
func TestParity41(t *testing.T) {
	t.Parallel()
	all := sharedRows(t)
	for source, answers := range answers41(t) {
		t.Run(source, func(t *testing.T) {
			c := newTally(t, source+".jsonl.gz, 4.1.0")
			number := 0
			sharedLines(t, "parity/"+source+".jsonl.gz", func(line []byte) {
				number++
				want, ok := answers[number]
				if !ok {
					return
				}
				var l officialLog
				if err := json.Unmarshal(line, &l); err != nil {
					t.Fatal(err)
				}
				if l.InstanceID != want.id {
					t.Fatalf("line %d is %s, the answer is for %s", number, l.InstanceID, want.id)
				}
				compare41(t, c, source, decodeLog(t, l.Log, l.Encoding), want, rowOrRepo(all, want.dataset, l.InstanceID))
			})
			c.report()
		})
	}
}

func rowOrRepo(all map[string]map[string]row, dataset, id string) row {
	if r, ok := all[dataset][id]; ok {
		return r
	}
	return row{InstanceID: id, Repo: repoOf(id)}
}

func compare41(t *testing.T, c *tally, source, log string, want answer41, r row) {
	t.Helper()
	parser, ok := logparse.ForRepo(r.Repo)
	if !ok {
		t.Fatalf("%s: no parser for %s", r.InstanceID, r.Repo)
	}
	expect := expectationOf(r)
	expect.FailOnly = grading.FailOnlyRepo(grading.SWEBench41, r.Repo)
	var got grading.Report
	if source == "real-logs-2024" { // no markers: the parser alone
		in := contextOf(r)
		in.Edition = logparse.V41
		got = grading.Grade(grading.SWEBench41, expect, logparse.Parse(parser, log, in).Statuses)
	} else {
		got = grading.FromLog(grading.SWEBench41, log, parser, contextOf(r), expect)
	}
	c.instances++
	c.statuses += want.statuses
	var statuses []string
	for name, status := range got.Statuses.All() {
		statuses = append(statuses, name+"\x00"+string(status))
	}
	slices.Sort(statuses)
	if got.Found != want.found {
		c.differ(r.InstanceID, "found", got.Reason)
		return
	}
	if !got.Found {
		return
	}
	if len(statuses) != want.statuses || digest(statuses) != want.statusSum {
		c.differ(r.InstanceID, "status map", strconv.Itoa(want.statuses)+" statuses officially, "+strconv.Itoa(len(statuses))+" of ours")
	}
	c.verdicts++
	if got.Resolved != want.resolved {
		c.differ(r.InstanceID, "resolved", got.Reason)
	}
	var lists []string
	for _, list := range [][]string{got.Tests.FailToPass.Success, got.Tests.FailToPass.Failure, got.Tests.PassToPass.Success, got.Tests.PassToPass.Failure} {
		lists = append(append(lists, "#"), list...)
	}
	if digest(lists) != want.lists {
		c.differ(r.InstanceID, "lists of tests", got.Reason)
	}
}
