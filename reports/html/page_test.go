package html

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports/render"
	"github.com/evalrun/evalrun/reports/results"
)

// TestPolicy: the page allows its own style and script and nothing else, and has
// no other script and no address.
func TestPolicy(t *testing.T) {
	dir := t.TempDir()
	page, _ := write(t, filepath.Join(dir, "r.html"), pageOf(newSet(t, dir, "m", attempt{id: "o__a-1", outcome: grading.Resolved, patch: smallPatch})))
	scripts := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllStringSubmatch(page, -1)
	styles := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllStringSubmatch(page, -1)
	if len(scripts) != 1 || len(styles) != 1 {
		t.Fatalf("%d scripts and %d styles, want one of each", len(scripts), len(styles))
	}
	want := "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; script-src '" + hashOf(scripts[0][1]) + "'; style-src '" + hashOf(styles[0][1]) + "'"
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if got := strings.NewReplacer("&#39;", "'", "&#43;", "+").Replace(policy[1]); got != want {
		t.Errorf("policy %s\nwant %s", got, want)
	}
	for _, never := range []string{"http:", "https:", "style=", "onclick", "eval("} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
}

// TestHostileMarkup: no text is markup where there is no script to help, either.
func TestHostileMarkup(t *testing.T) {
	dir := t.TempDir()
	var attempts []attempt
	for _, text := range hostile {
		attempts = append(attempts, attempt{id: text, outcome: grading.Outcome(text), reason: text})
	}
	set := newSet(t, dir, hostile[0], attempts...)
	p := pageOf(set)
	p.Title, p.Lead, p.Version = hostile[1], hostile, hostile[2]
	for _, text := range hostile {
		p.Body = append(p.Body, render.Block{Heading: text, Lines: hostile, Table: &render.Table{Head: []string{"instance", text}, Rows: [][]render.Cell{{{Text: text}, {Text: text, Link: text}}}}})
	}
	p.After = p.Body
	page, _ := write(t, filepath.Join(dir, "r.html"), p)
	if got := strings.Count(page, "</script>"); got != 3 {
		t.Errorf("%d ends of scripts, want 3: data, details, script", got)
	}
	page = regexp.MustCompile(`id="data">[^<]*<`).ReplaceAllString(page, "") // keeps ids as they are; nobody sees it
	for _, never := range []string{"<img", "<svg onload", `href="javascript`, "\u202e", "\x1b", "\x00"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
}

// TestBudget: details are in the page as long as they fit, else in files beside it,
// and what an earlier page has left there goes away.
func TestBudget(t *testing.T) {
	dir := t.TempDir()
	var attempts []attempt
	for n := range 100 {
		attempts = append(attempts, attempt{id: fmt.Sprintf("o__a-%03d", n), outcome: grading.Resolved, patch: smallPatch, log: fmt.Sprint("log ", n)})
	}
	p := pageOf(newSet(t, dir, "m", attempts...))
	path := filepath.Join(dir, "r.html")
	inside, out := write(t, path, p)
	if out.Folder != "" || strings.Count(inside, `id="details-`) != 4 || !strings.Contains(inside, `"files":""`) {
		t.Fatalf("folder %q, want 4 pieces in the page", out.Folder)
	}
	piece := regexp.MustCompile(`id="details-3">([^<]*)<`).FindStringSubmatch(inside)[1]
	p.Budget = int(out.Details) - 1
	beside, out := write(t, path, p)
	if out.Folder != filepath.Join(dir, "r_files") || strings.Contains(beside, `id="details-`) || !strings.Contains(beside, `"files":"r_files"`) {
		t.Fatalf("folder %q, want all pieces beside the page", out.Folder)
	}
	files := filesIn(t, out.Folder)
	if strings.Join(files, " ") != "00000.js 00001.js 00002.js 00003.js" {
		t.Errorf("files %v", files)
	}
	data, err := os.ReadFile(filepath.Join(out.Folder, "00003.js"))
	if want := fmt.Sprintf("evalrunDetails(3,%q)\n", piece); err != nil || string(data) != want {
		t.Errorf("piece %.60s, %v", data, err)
	}
	if err := os.WriteFile(filepath.Join(out.Folder, "mine.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p.Budget = 0
	write(t, path, p)
	if files := filesIn(t, filepath.Join(dir, "r_files")); strings.Join(files, " ") != "mine.txt" {
		t.Errorf("left over: %v; want only what is not ours", files)
	}
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// unpacked are the details in a page.
func unpacked(t *testing.T, page string) []details {
	t.Helper()
	var out []details
	for _, m := range regexp.MustCompile(`id="details-\d+">([^<]*)<`).FindAllStringSubmatch(page, -1) {
		raw, err := base64.StdEncoding.DecodeString(m[1])
		if err != nil {
			t.Fatal(err)
		}
		zip, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(zip)
		if err != nil {
			t.Fatal(err)
		}
		var piece []details
		if err := json.Unmarshal(text, &piece); err != nil {
			t.Fatal(err)
		}
		out = append(out, piece...)
	}
	return out
}

// TestDetails: tests are named once for all systems; a set that lacks an instance
// has none; links lead from the page to the files.
func TestDetails(t *testing.T) {
	dir := t.TempDir()
	one := newSet(t, dir, "one", attempt{id: "a", outcome: grading.Resolved, passed: []string{"x", "y"}, patch: smallPatch, log: "x\n"}, attempt{id: "b", outcome: grading.Resolved})
	two := newSet(t, dir, "two", attempt{id: "a", outcome: grading.Unresolved, passed: []string{"z"}, failed: []string{"y"}})
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	page, _ := write(t, filepath.Join(dir, "out", "r.html"), pageOf(one, two))
	got := unpacked(t, page)
	if len(got) != 2 || strings.Join(got[0].F2P, " ") != "x y z" || *got[0].Systems[0].F2P != "pp-" || *got[0].Systems[1].F2P != "-fp" || got[1].Systems[1] != nil {
		t.Fatalf("details %+v", got)
	}
	if got := got[0].Systems[0].Links; len(got) != 2 || got[0] != [2]string{"patch.diff", "./../logs/one-0/patch.diff"} {
		t.Errorf("links %v", got)
	}
	facts := fmt.Sprint(got[0].Systems[0].Facts)
	for _, want := range []string{"[image evalrun/a]", "[rules swebench-5]", "[start 1970-01-01T00:00:00Z]", "[limits", "[key 0123]"} {
		if !strings.Contains(facts, want) {
			t.Errorf("the facts lack %s: %s", want, facts)
		}
	}
}

// TestPatchOfSubmission: a submission without logs still has its patches.
func TestPatchOfSubmission(t *testing.T) {
	s := &results.Set{Name: "s", Items: []results.Item{{ID: "a", Outcome: grading.Unresolved, Patch: smallPatch}, {ID: "b", Outcome: grading.EmptyPatch}}}
	page, _ := write(t, filepath.Join(t.TempDir(), "r.html"), pageOf(s))
	got := unpacked(t, page)
	if got[1].Systems[0] != nil || got[0].Systems[0].Patch == nil || got[0].Systems[0].Patch.Text != strings.TrimSuffix(smallPatch, "\n") || got[0].Systems[0].Patch.Bytes != int64(len(smallPatch)) {
		t.Errorf("details %+v", got)
	}
}

// TestLinksToElsewhere: a folder that somebody sent can have links to other files,
// pipes and folders where files should be. None of it gets into a page.
func TestLinksToElsewhere(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("secret words"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSet(t, dir, "m", attempt{id: "a", outcome: grading.Resolved})
	if err := os.Symlink(secret, filepath.Join(s.Items[0].Dir, "patch.diff")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.Items[0].Dir, "test_output.txt"), 0o755); err != nil {
		t.Fatal(err)
	}
	page, _ := write(t, filepath.Join(dir, "r.html"), pageOf(s))
	if got := unpacked(t, page)[0].Systems[0]; got.Patch != nil || got.Log != nil || got.Links != nil {
		t.Errorf("shows %+v", got)
	}
}

func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	p := pageOf(newSet(t, dir, "m", attempt{id: "a", outcome: grading.Resolved, log: "x"}))
	if _, err := Write(context.Background(), filepath.Join(p.Sets[0].Items[0].Dir, "test_output.txt", "r.html"), p); err == nil || !strings.Contains(err.Error(), "r.html") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Write(ctx, filepath.Join(dir, "r.html"), p); err == nil {
		t.Error("an interrupted page is written")
	}
}

// TestEmpty: a page of nothing is a page.
func TestEmpty(t *testing.T) {
	page, _ := write(t, filepath.Join(t.TempDir(), "r.html"), pageOf(&results.Set{Name: "m"}))
	if !strings.Contains(page, `"rows":[]`) {
		t.Error("no data")
	}
}
