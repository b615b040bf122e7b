package render

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/analysis"
	"github.com/evalrun/evalrun/reports/gate"
	"github.com/evalrun/evalrun/reports/results"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// hostile are names that mean something to a terminal, Markdown, HTML, a
// spreadsheet, XML or a CI system.
var hostile = []string{
	"=HYPERLINK(\"x\")", "+1", "-1+2", "@SUM(A1)", "\t=1", " =1", "＝1", "|cmd", "a|b", "<img src=x onerror=alert(1)>", "[x](javascript:alert(1))",
	"\x1b[31mred", "::error::x", "a\n::set-output name=x::y", "]]>", "&amp;", "\x00", "\xff", "\u202e", "@everyone", "`code`", "https://example.org/", "**b**",
}

// made is a set with every kind of outcome.
func made(name string, shift int) *results.Set {
	s := &results.Set{Name: name, Model: name, Run: "r", Kind: results.KindRun}
	outcomes := []grading.Outcome{grading.Resolved, grading.Unresolved, grading.Resolved, grading.EmptyPatch, grading.BuildFailed, grading.NotRun, results.Error, grading.Resolved}
	for i := range 16 {
		it := results.Item{ID: fmt.Sprintf("o__r-%02d", i), Repo: fmt.Sprint("o/r", i%5), Outcome: outcomes[(i+shift)%len(outcomes)], Submitted: true, Seconds: float64(i) * 1.5, Dir: fmt.Sprintf("logs/%s/%d", name, i)}
		if it.Outcome == grading.Unresolved || it.Outcome == grading.Resolved {
			it.FailToPass = &results.Tests{Passed: []string{"t::a"}}
			it.PassToPass = &results.Tests{Passed: []string{"t::b"}}
			if it.Outcome == grading.Unresolved {
				it.FailToPass = &results.Tests{Failed: []string{"t::a <x>", "t::c"}}
			}
		} else {
			it.Reason = "why not: 100% | <b>"
		}
		s.Items = append(s.Items, it)
	}
	return s
}

func both(t *testing.T, name string, doc Document) {
	t.Helper()
	for _, width := range []int{80, 140} {
		var text bytes.Buffer
		if err := doc.WriteText(&text, width); err != nil {
			t.Fatal(err)
		}
		golden(t, fmt.Sprintf("%s-%d.txt", name, width), text.String())
	}
	var md bytes.Buffer
	if err := doc.WriteMarkdown(&md); err != nil {
		t.Fatal(err)
	}
	golden(t, name+".md", md.String())
}

func TestReport(t *testing.T) {
	r := analysis.NewReport(made("org/model", 0), analysis.Options{Slices: true, Quarantine: map[string]bool{"o__r-01": true},
		Facts: map[string]results.Facts{"o__r-00": {Difficulty: "<15 min fix"}, "o__r-01": {Difficulty: "1-4 hours"}}})
	doc := Report(&r)
	a := analysis.NewAttempts([]*results.Set{made("m", 0), made("m", 1)}, analysis.Options{})
	both(t, "report", append(doc, Attempts(&a)...))
}

func TestProvenance(t *testing.T) {
	both(t, "provenance", Provenance(ranOn()))
}

// Systems of one run share a table, and what others wrote has none.
func TestProvenanceOf(t *testing.T) {
	one, two := ranOn(), ranOn()
	two.Rules = "swebench-5"
	doc := ProvenanceOf([]*results.Set{{Name: "a", Record: one}, {Name: "b", Record: one}, {Name: "foreign"}, {Name: "c", Record: two}})
	if len(doc) != 2 || doc[0].Table.Head[1] != "a, b" || doc[1].Table.Head[1] != "c" {
		t.Fatalf("%+v", doc)
	}
	for i, r := range []*reports.RunRecord{one, two} {
		if diff := cmp.Diff(Provenance(r)[0].Table.Rows, doc[i].Table.Rows); diff != "" {
			t.Error(diff)
		}
	}
}

func ranOn() *reports.RunRecord {
	return &reports.RunRecord{
		Dataset: reports.DatasetRecord{Name: "d|d.jsonl", Split: "test", SHA256: "ab"}, Predictions: []reports.PredictionRecord{{Path: "gold"}, {Path: "p.jsonl", SHA256: "cd"}},
		Rules: "strict", Evalrun: "v1", Engine: reports.EngineRecord{Name: "docker", Version: "20", Cgroup: "v1"}, Platform: "linux/amd64",
		Limits: reports.LimitsRecord{MemoryBytes: 4 << 30, TimeoutSeconds: 1800}, CreatedAt: time.Unix(0, 0), Models: []string{"m", "n"}, Reused: map[string]int{"n": 3},
		ImageDigests: map[string]string{"a": "sha256:1"}, Deviations: []string{"Python 3.11 for 3.9"}, Host: reports.HostRecord{CPUs: 2},
		RowHashes: map[string]string{"a": "1", "b": "2"}, Policy: map[string]string{"verify": "all", "audit": "yes"},
	}
}

func TestComparison(t *testing.T) {
	c, err := analysis.Compare(t.Context(), []*results.Set{made("first", 0), made("second", 1), made("third", 3)},
		analysis.CompareOptions{Alpha: 0.05, Resamples: 200, Seed: 1, Splits: 20, Flips: true})
	if err != nil {
		t.Fatal(err)
	}
	c.Notes = append(c.Notes, "a note")
	both(t, "comparison", Comparison(&c, ComparisonOptions{Flips: 3}))
}

func TestGate(t *testing.T) {
	now, old := made("now", 1), made("old", 0)
	r, err := gate.Run(now, gate.Rules{NoNew: true, Baseline: old, MustPass: []string{"o__r-00"}})
	if err != nil {
		t.Fatal(err)
	}
	gained, lost := gate.Changes(now, old)
	both(t, "gate", Gate(&r, gained, lost))
	var notes bytes.Buffer
	if err := GitHubAnnotations(&notes, &r); err != nil {
		t.Fatal(err)
	}
	golden(t, "annotations.txt", notes.String())
}

func TestAnnotationsCannotBeBrokenOutOf(t *testing.T) {
	for _, name := range hostile {
		r := gate.Result{Status: gate.Failed, Reason: name, Checks: []gate.Check{{Rule: "must-pass," + name, Status: gate.Failed, Instances: []string{name}}}}
		var out bytes.Buffer
		if err := GitHubAnnotations(&out, &r); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 2 {
			t.Errorf("%q makes %d lines: %q", name, len(lines), lines)
		}
		for _, line := range lines {
			property, _, ok := strings.Cut(strings.TrimPrefix(line, "::error title="), "::")
			if !ok || strings.ContainsAny(property, ":,") {
				t.Errorf("%q: %q", name, line)
			}
		}
	}
}

func TestMarkdownIsPlain(t *testing.T) {
	for _, name := range hostile {
		got := Markdown(name)
		if strings.ContainsAny(got, "\n\r<>|@") {
			t.Errorf("%q becomes %q", name, got)
		}
		for i, c := range got {
			if strings.ContainsRune("*_`[]", c) && (i == 0 || got[i-1] != '\\') {
				t.Errorf("%q becomes %q: %q means something", name, got, c)
			}
		}
		link := markdownLink(name)
		if strings.ContainsAny(link, " ()<>:\\\"'\n") || strings.HasPrefix(link, "//") {
			t.Errorf("%q leads to %q", name, link)
		}
	}
	if got := markdownLink("//evil.example/x"); got != ".//evil.example/x" {
		t.Errorf("got %q", got)
	}
}

func hostileSet() *results.Set {
	s := &results.Set{Name: hostile[0], Model: hostile[1], Run: hostile[2]}
	for _, name := range hostile {
		s.Items = append(s.Items, results.Item{ID: name, Outcome: grading.Outcome(name), Reason: name, Repo: name,
			FailToPass: &results.Tests{Failed: []string{name}}, PassToPass: &results.Tests{}})
	}
	return s
}

func TestCSVHasNoFormulas(t *testing.T) {
	var out bytes.Buffer
	if err := CSV(&out, []*results.Set{hostileSet(), made("m", 0)}, nil); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(out.Bytes())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+len(hostile)+16 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows[1:] {
		for _, cell := range row {
			if text := strings.TrimLeft(cell, " \t\r\n"); text != "" && strings.ContainsAny(text[:1], "=+-@") || strings.HasPrefix(text, "＝") {
				t.Errorf("cell %q is a formula", cell)
			}
		}
	}
	last := rows[len(rows)-15]
	if diff := cmp.Diff([]string{"m", "m", "r", "o__r-01", "o/r1", "unresolved", "false", "true", "true", "0", "2", "1", "1", "1.500", ""}, last); diff != "" {
		t.Error(diff)
	}
}

func junit(t *testing.T, sets ...*results.Set) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := JUnit(&out, sets, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestJUnit(t *testing.T) {
	s := made("org/model", 0)
	s.Record = ranOn()
	golden(t, "junit.xml", string(junit(t, s)))
}

// TestJUnitIsWellFormed holds also for names that no XML document can hold.
func TestJUnitIsWellFormed(t *testing.T) {
	dec := xml.NewDecoder(bytes.NewReader(junit(t, hostileSet())))
	cases := 0
	for {
		token, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "testcase" {
			cases++
		}
	}
	if cases != len(hostile) {
		t.Errorf("%d test cases, want %d", cases, len(hostile))
	}
}

func TestJUnitAgainstSchema(t *testing.T) {
	lint, err := exec.LookPath("xmllint")
	if err != nil {
		t.Skip("xmllint is not here (Debian: libxml2-utils)")
	}
	known := made("a", 0)
	known.Record = ranOn()
	for name, sets := range map[string][]*results.Set{"all outcomes": {known, made("b", 1)}, "hostile": {hostileSet()}, "nothing": {}, "empty": {{Name: "e"}}} {
		path := filepath.Join(t.TempDir(), "junit.xml")
		if err := os.WriteFile(path, junit(t, sets...), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(lint, "--noout", "--nonet", "--schema", "testdata/junit.xsd", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestTextFitsAndIsSafe(t *testing.T) {
	table := &Table{Head: []string{"name", "n"}, Right: []bool{false, true}}
	for _, name := range hostile {
		table.Rows = append(table.Rows, cells(name+strings.Repeat("x", 200), "12345"))
	}
	var out bytes.Buffer
	if err := (Document{{Heading: hostile[13], Lines: hostile, Table: table}}).WriteText(&out, 60); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if len([]rune(line)) > 60 {
			t.Errorf("%d columns: %q", len([]rune(line)), line)
		}
		if strings.ContainsAny(line, "\x1b\x00\r") {
			t.Errorf("line %q", line)
		}
	}
	if n := strings.Count(out.String(), "12345"); n != len(hostile) {
		t.Errorf("%d of %d numbers are whole", n, len(hostile))
	}
}
