package html

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/grading"
)

// everything below dir, with the content of files.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func manyPieces(t *testing.T, logs string) Page {
	var attempts []attempt
	for n := range 100 {
		attempts = append(attempts, attempt{id: fmt.Sprintf("o__a-%03d", n), outcome: grading.Resolved, log: fmt.Sprint(logs, n)})
	}
	p := pageOf(newSet(t, t.TempDir(), "m", attempts...))
	p.Budget = 1
	return p
}

// TestWhatFailsLeavesNothing: an interrupted page, or one that cannot be written,
// leaves neither files nor folders, and an earlier page as it was.
func TestWhatFailsLeavesNothing(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late := manyPieces(t, "b")
	late.Sets[0].Items[99].Dir = "/dev/null/nowhere" // found out when pieces are written already
	for what, c := range map[string]struct {
		ctx  context.Context
		page Page
	}{"interrupted": {ended, manyPieces(t, "b")}, "unreadable": {t.Context(), late}} {
		for _, earlier := range []bool{false, true} {
			root := t.TempDir()
			path := filepath.Join(root, "new", "r.html")
			if earlier {
				write(t, path, manyPieces(t, "a"))
			}
			before := everything(t, root)
			if _, err := Write(c.ctx, path, c.page); err == nil || !strings.Contains(err.Error(), path) {
				t.Fatalf("%s: %v", what, err)
			}
			after := everything(t, root)
			for name := range after {
				if after[name] != before[name] {
					t.Errorf("%s, earlier %v: %s is there or has changed", what, earlier, name)
				}
			}
			if len(after) != len(before) {
				t.Errorf("%s: %d files became %d", what, len(before), len(after))
			}
			if _, err := os.Stat(filepath.Join(root, "new")); !earlier && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: its folder is left: %v", what, err)
			}
		}
	}
}

// TestFolderOfOthers: a page is not put over what is not ours, nor are its details
// put among it.
func TestFolderOfOthers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.html")
	p := manyPieces(t, "a")
	write(t, path, p)
	if err := MayReplace(path, false); err != nil {
		t.Errorf("our own page: %v", err)
	}
	foreign := filepath.Join(dir, "r_files", "00077.js")
	if err := os.WriteFile(foreign, []byte("alert(1)"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := MayReplace(path, false); err == nil || !strings.Contains(err.Error(), foreign) {
		t.Errorf("a script of others beside it: %v", err)
	}
	if err := MayReplace(path, true); err != nil {
		t.Errorf("with force: %v", err)
	}
	p.Budget = 0 // all in the page: the pieces go, the foreign file stays
	write(t, path, p)
	if left := everything(t, dir); len(left) != 2 || left["/r_files/00077.js"] != "alert(1)" {
		t.Errorf("left: %d files", len(left))
	}
	if err := os.WriteFile(path, []byte("<html>mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := MayReplace(path, false); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("a page of others: %v", err)
	}
}
