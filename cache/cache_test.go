package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary play the other process of the lock tests.
func TestMain(m *testing.M) {
	if path := os.Getenv("EVALRUN_TEST_HOLD_LOCK"); path != "" {
		unlock, err := Lock(context.Background(), path)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		time.Sleep(time.Minute) // killed long before: a holder that does not unlock
		unlock()
	}
	os.Exit(m.Run())
}

func TestDir(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, evalrun, xdg, home, want string
	}{
		{"own variable wins", "/a/b", "/x", "/h", "/a/b"},
		{"own variable made absolute", "c", "/x", "/h", filepath.Join(wd, "c")},
		{"XDG", "", "/x", "/h", "/x/evalrun"},
		{"relative XDG is ignored", "", "x", "/h", "/h/.cache/evalrun"},
		{"home", "", "", "/h", "/h/.cache/evalrun"},
		{"no home", "", "", "", filepath.Join(os.TempDir(), fmt.Sprintf("evalrun-cache-%d", os.Getuid()))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("EVALRUN_CACHE", tt.evalrun)
			t.Setenv("XDG_CACHE_HOME", tt.xdg)
			t.Setenv("HOME", tt.home)
			if got := Dir(); got != tt.want {
				t.Errorf("Dir() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWriteFileReplacesAndLeavesNothingElse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folders")
	path := filepath.Join(dir, "f")
	for _, want := range []string{"one", "", strings.Repeat("x", 1<<20)} {
		if err := WriteFile(path, []byte(want), 0o640); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Fatalf("read back %d bytes, %v; want %d", len(got), err, len(want))
		}
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("folder holds %q, want only f", got)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	if want := fs.FileMode(0o640 &^ mask); info.Mode().Perm() != want {
		t.Errorf("mode %v, want %v", info.Mode().Perm(), want)
	}
}

func TestWriteFileKeepsOldFileWhenItFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(path, "child"), 0o777); err != nil {
		t.Fatal(err)
	}
	err := WriteFile(path, []byte("x"), 0o666) // a folder cannot be replaced by a file
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v does not name %s", err, path)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("folder holds %q, want no temporary file left", got)
	}
}

func TestWriteFromKeepsOldFileWhenItFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", "f")
	broken := errors.New("broken")
	for _, c := range []struct {
		text string
		err  error
		want string
	}{{"whole", nil, "whole"}, {"half", broken, "whole"}, {"other", nil, "other"}} {
		err := WriteFrom(path, 0o644, func(w io.Writer) error {
			_, err := io.WriteString(w, c.text)
			return errors.Join(err, c.err)
		})
		if got, readErr := os.ReadFile(path); !errors.Is(err, c.err) || readErr != nil || string(got) != c.want {
			t.Errorf("%q, %v, %v", got, readErr, err)
		}
		if n := names(t, filepath.Dir(path)); len(n) != 1 {
			t.Errorf("left are %v", n)
		}
	}
}

func TestWriteFileLongName(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 250))
	if err := WriteFile(path, []byte("x"), 0o666); err != nil {
		t.Error(err)
	}
}

func TestWriteFileReadersNeverSeeHalf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	texts := [][]byte{bytes.Repeat([]byte("a"), 64<<10), bytes.Repeat([]byte("b"), 64<<10)}
	if err := WriteFile(path, texts[0], 0o666); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 10 {
				if err := WriteFile(path, texts[i%2], 0o666); err != nil {
					t.Error(err)
				}
				got, err := os.ReadFile(path)
				if err != nil || !bytes.Equal(got, texts[0]) && !bytes.Equal(got, texts[1]) {
					t.Errorf("a reader saw %d bytes, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
}

func TestWriteJSON(t *testing.T) {
	v := map[string]any{"b": []string{"<a> & b", "é"}, "a": []int{}, "c": map[string]int{}}
	tests := []struct {
		indent int
		want   string
	}{
		{4, "{\n    \"a\": [],\n    \"b\": [\n        \"<a> & b\",\n        \"é\"\n    ],\n    \"c\": {}\n}"},
		{0, `{"a":[],"b":["<a> & b","é"],"c":{}}`},
	}
	for _, tt := range tests {
		path := filepath.Join(t.TempDir(), "r.json")
		if err := WriteJSON(path, v, tt.indent); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != tt.want {
			t.Errorf("indent %d: got\n%s\nwant\n%s", tt.indent, got, tt.want)
		}
	}
	if err := WriteJSON(filepath.Join(t.TempDir(), "r.json"), func() {}, 0); err == nil {
		t.Error("a value that is no JSON was written")
	}
}

func TestLockExcludesGoroutines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "lock")
	var inside, most atomic.Int32
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			unlock, err := Lock(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Millisecond)
			inside.Add(-1)
			unlock()
			unlock() // a second call does nothing
		})
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("%d goroutines held the lock at once", most.Load())
	}
}

func TestLockBetweenProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EVALRUN_TEST_HOLD_LOCK="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	line := make([]byte, len("locked\n"))
	if n, err := out.Read(line); err != nil || string(line) != "locked\n" {
		t.Fatalf("other process says %q, %v", line[:n], err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 3*lockPoll)
	defer cancel()
	_, err = Lock(ctx, path)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Lock = %v, want the context's error", err)
	}
	if want := fmt.Sprintf("process %d on ", cmd.Process.Pid); !strings.Contains(err.Error(), want) {
		t.Errorf("error %q does not say who holds the lock (%s)", err, want)
	}

	// A holder that dies without unlocking gives the lock up.
	cmd.Process.Kill()
	cmd.Wait()
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if data, _ := os.ReadFile(path); len(data) != 0 {
		t.Errorf("a free lock still names a holder: %q", data)
	}
}

func TestLockThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(t.Context(), filepath.Join(file, "lock")); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("Lock below a file = %v, want an error that names it", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the run was stopped"))
	if _, err := Lock(ctx, file); err == nil || !strings.Contains(err.Error(), "the run was stopped") {
		t.Errorf("Lock with an ended context = %v", err)
	}
}

func TestUpdateLosesNoChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			err := Update(path, func(old []byte) ([]byte, error) { return append(old, 'x'), nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	stop := errors.New("no change")
	if err := Update(path, func([]byte) ([]byte, error) { return nil, stop }); !errors.Is(err, stop) {
		t.Errorf("Update = %v, want the error of change", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "xxxxxxxx" {
		t.Errorf("file holds %q, %v; want 8 x", got, err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
