package demo

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tips returns what every repository's refs point at.
func tips(t *testing.T, dir string) map[string]string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, Owner, "*.git"))
	if err != nil || len(found) != 4 {
		t.Fatalf("repositories %q, %v, want 4", found, err)
	}
	refs := map[string]string{}
	for _, repo := range found {
		refs[filepath.Base(repo)] = gitOutput(t, "", "--git-dir="+repo, "show-ref", "--head", "--dereference")
	}
	return refs
}

func TestBaseCommitsAreInTheRepositories(t *testing.T) {
	dir := materialized(t)
	for _, r := range rows(t) {
		repo := "--git-dir=" + filepath.Join(dir, r.Repo+".git")
		if kind := gitOutput(t, "", repo, "cat-file", "-t", r.BaseCommit); kind != "commit\n" {
			t.Errorf("%s: base_commit %s is a %q", r.ID, r.BaseCommit, kind)
		}
		// The fix and a release after it: what no candidate may get to see.
		later := strings.Fields(gitOutput(t, "", repo, "rev-list", r.BaseCommit+"..main"))
		if len(later) < 2 {
			t.Errorf("%s: %d commits after base_commit, want the fix and more", r.ID, len(later))
		}
		if tags := gitOutput(t, "", repo, "tag", "--no-merged", r.BaseCommit); tags == "" {
			t.Errorf("%s: no tag after base_commit", r.ID)
		}
		gitOutput(t, "", repo, "fsck", "--strict", "--full")
	}
}

func TestMaterializeIgnoresTheUsersConfiguration(t *testing.T) {
	want := tips(t, materialized(t))

	home := t.TempDir()
	config := "[user]\n\tname = Someone\n\temail = a@example.org\n[commit]\n\tgpgsign = true\n[tag]\n\tgpgsign = true\n" +
		"[init]\n\tdefaultBranch = trunk\n\ttemplateDir = /nonexistent\n[core]\n\tautocrlf = true\n\thooksPath = /nonexistent\n"
	for _, name := range []string{".gitconfig", "system"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{
		"HOME":              home,
		"GIT_CONFIG_SYSTEM": filepath.Join(home, "system"),
		"GIT_DIR":           "/nonexistent",
		"GIT_WORK_TREE":     "/nonexistent",
		"GIT_INDEX_FILE":    "/nonexistent",
		"GIT_AUTHOR_DATE":   "2001-01-01T00:00:00Z",
		"GIT_AUTHOR_NAME":   "Someone",
		"GIT_DEFAULT_HASH":  "sha256",
		"TZ":                "Asia/Tokyo",
	} {
		t.Setenv(name, value)
	}
	if diff := cmp.Diff(want, tips(t, materialized(t))); diff != "" {
		t.Errorf("refs depend on the configuration (-without +with):\n%s", diff)
	}
}

func TestMaterializeAgainChangesNothing(t *testing.T) {
	dir := materialized(t)
	mark := filepath.Join(dir, Owner, "textkit.git", "mark")
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Materialize(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("the repository was made anew: %v", err)
	}
	leavesNothingElse(t, dir)
}

func TestMaterializeReplacesWhatIsOutdatedOrBroken(t *testing.T) {
	dir := materialized(t)
	want := tips(t, dir)
	outdated := filepath.Join(dir, Owner, "textkit.git")
	if err := os.WriteFile(filepath.Join(outdated, stampFile), []byte("older\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	gitOutput(t, "", "--git-dir="+outdated, "update-ref", "refs/heads/main", "v1.0^{commit}")
	broken := filepath.Join(dir, Owner, "csvline.git")
	if err := os.RemoveAll(broken); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(broken, 0o755); err != nil {
		t.Fatal(err)
	}

	if err := Materialize(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, tips(t, dir)); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
	leavesNothingElse(t, dir)
}

func TestMaterializeCallsMayOverlap(t *testing.T) {
	needGit(t)
	dir := t.TempDir()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := Materialize(context.Background(), dir); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	tips(t, dir)
	leavesNothingElse(t, dir)
}

func TestMaterializeStopsWhenCancelled(t *testing.T) {
	needGit(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if err := Materialize(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, Owner, "*.git")); len(found) != 0 {
		t.Errorf("%q are there", found)
	}
	leavesNothingElse(t, dir)
}

// leavesNothingElse fails if there is anything but repositories.
func leavesNothingElse(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, Owner))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".git") {
			t.Errorf("%s was left behind", entry.Name())
		}
	}
}

func TestWriteTo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 { // the second time over the first
		if err := WriteTo(dir); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"demo.jsonl": string(JSONL())}
	for name, data := range Predictions() {
		want["predictions/"+name+".jsonl"] = string(data)
	}
	for name, data := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != data {
			t.Errorf("%s: %d bytes, %v, want %d", name, len(got), err, len(data))
		}
	}
	var outcomes map[string]map[string]string
	data, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &outcomes); err != nil {
		t.Fatal(err)
	}
	expected, err := Expected()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expected, outcomes); diff != "" {
		t.Errorf("expected.json (-Expected() +written):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "README.md")); err != nil {
		t.Error(err)
	}
}

func TestWriteToWhereAFileIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteTo(file); err == nil {
		t.Error("no error")
	}
}
