package mirror

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repo is a repository made by a test.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T, dir string) *repo {
	t.Helper()
	r := &repo{t, dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q", "--initial-branch=main", "--template=")
	return r
}

// git runs git in the repository and returns what it prints.
func (r *repo) git(args ...string) string {
	r.t.Helper()
	out, err := r.try(args...)
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (r *repo) try(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", r.dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=c", "GIT_COMMITTER_EMAIL=c@example.org",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always",
		"GIT_CONFIG_KEY_1=uploadpack.allowFilter", "GIT_CONFIG_VALUE_1=true")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// commit writes files and commits everything; it returns the commit's id.
func (r *repo) commit(message string, files map[string]string) string {
	r.t.Helper()
	for name, text := range files {
		path := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", message)
	return r.git("rev-parse", "HEAD")
}

// bare makes a bare copy, as mirrors are.
func (r *repo) bare(dir string, args ...string) *repo {
	r.t.Helper()
	r.git(append(append([]string{"clone", "-q", "--mirror", "--template="}, args...), "file://"+r.dir, dir)...)
	return &repo{r.t, dir}
}

// commits lists every commit object a repository holds, reachable or not.
func (r *repo) commits() []string {
	var ids []string
	for _, line := range strings.Split(r.git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)"), "\n") {
		if id, ok := strings.CutPrefix(line, "commit "); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func (r *repo) has(object string) bool {
	_, err := r.try("cat-file", "-e", object)
	return err == nil
}
