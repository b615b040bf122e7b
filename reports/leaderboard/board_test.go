package leaderboard

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports/analysis"
	"github.com/evalrun/evalrun/reports/results"
)

var update = flag.Bool("update", false, "write the golden files")

// system makes a set from signs: + resolved, - unresolved, ! a failed build.
func system(name, signs string, info results.SubmissionInfo) *results.Set {
	s := &results.Set{Name: name, Model: name, Kind: results.KindSubmission, Info: info}
	for n, sign := range signs {
		outcome := map[rune]grading.Outcome{'+': grading.Resolved, '-': grading.Unresolved, '!': grading.BuildFailed}[sign]
		repo := "o/a"
		if n >= 2 {
			repo = "o/b"
		}
		s.Items = append(s.Items, results.Item{ID: string(rune('a' + n)), Repo: repo, Outcome: outcome, Submitted: true})
	}
	return s
}

func board(sets []*results.Set) Board {
	c, err := analysis.Compare(context.Background(), sets, analysis.CompareOptions{Alpha: .05, Resamples: 1, Splits: 10, Seed: 1})
	if err != nil {
		panic(err) // only the context's
	}
	return New(sets, &c, Options{Title: "Small", Version: "v1", Dataset: "abc"})
}

func small() []*results.Set {
	return []*results.Set{
		system("worse", "+---", results.SubmissionInfo{}),
		system("best", "++-+", results.SubmissionInfo{Title: "Best", Date: "2026-01-02", Cost: .5, Attempts: "1", Checked: true, Org: "Acme", Models: []string{"x"}}),
		system("second", "++-!", results.SubmissionInfo{Date: "2026-01-03"}),
		system("as good", "+--+", results.SubmissionInfo{}),
	}
}

func TestBoard(t *testing.T) {
	b := board(small())
	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetIndent("", " ")
	if err := enc.Encode(b); err != nil {
		t.Fatal(err)
	}
	golden(t, "board.json", got.Bytes())
	var text bytes.Buffer
	if err := b.Document(true).WriteText(&text, 120); err != nil {
		t.Fatal(err)
	}
	golden(t, "board.txt", text.Bytes())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", name, diff)
	}
}

// TestSite: the page and the data say the same, and a name is never markup.
func TestSite(t *testing.T) {
	sets := small()
	sets[0].Name = "</script><b>x"
	b := board(sets)
	dir := filepath.Join(t.TempDir(), "new", "site")
	if _, err := b.WriteSite(context.Background(), dir, sets, nil, false); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Small", "Solved by nobody", "1 of 4 instances.", "&lt;/script&gt;&lt;b&gt;x", "2026-01-02", "0.50"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(string(page), "</script><b>") || strings.Contains(string(page), "<b>x") {
		t.Error("a name is markup")
	}
	var back Board
	data, err := os.ReadFile(filepath.Join(dir, "board.json"))
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, back); diff != "" {
		t.Errorf("board.json is read back otherwise: %s", diff)
	}
}

// TestSmallBoardsAreJSON: one instance tells of no stability, and of no interval by
// repository.
func TestSmallBoardsAreJSON(t *testing.T) {
	for _, signs := range []string{"+", "-", "!", "+-"} {
		b := board([]*results.Set{system("a", signs, results.SubmissionInfo{}), system("b", signs, results.SubmissionInfo{}), system("c", signs, results.SubmissionInfo{})})
		if _, err := json.Marshal(b); err != nil {
			t.Errorf("three systems with %q: %v", signs, err)
		}
	}
}

// BenchmarkNew makes a board of 60 systems on 500 instances.
func BenchmarkNew(b *testing.B) {
	signs := strings.Repeat("+-+!-", 100)
	for b.Loop() {
		var sets []*results.Set
		for n := range 60 {
			sets = append(sets, system(strings.Repeat("x", n+1), signs[n:]+signs[:n], results.SubmissionInfo{}))
		}
		board(sets)
	}
}
