package cache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func read(t *testing.T, s *Store, key string) string {
	t.Helper()
	f, err := s.Open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(filepath.Join(dir, "store"), 0)
	if got := read(t, s, "abcd"); got != "-" {
		t.Errorf("an empty store has %q", got)
	}
	for _, content := range []string{"one", "another"} {
		if err := s.Put("abcd", text(content)); err != nil {
			t.Fatal(err)
		}
		if got := read(t, NewStore(filepath.Join(dir, "store"), 0), "abcd"); got != content {
			t.Errorf("read %q, want %q", got, content)
		}
	}
	broken := errors.New("broken")
	if err := s.Put("abcd", func(w io.Writer) error { io.WriteString(w, "half"); return broken }); !errors.Is(err, broken) {
		t.Errorf("put: %v", err)
	}
	if got := read(t, s, "abcd"); got != "another" {
		t.Errorf("after a failed put: %q", got)
	}
	if n, size, err := s.Usage(); n != 1 || size != 7 || err != nil {
		t.Errorf("usage: %d entries, %d bytes, %v", n, size, err)
	}
	for _, key := range []string{"", "ab", "../../abcd", "a/bcd"} {
		if err := s.Put(key, text("x")); err == nil {
			t.Errorf("%q was taken for a key", key)
		}
	}
	if err := errors.Join(s.Remove("abcd"), s.Remove("abcd")); err != nil || read(t, s, "abcd") != "-" {
		t.Errorf("remove: %v", err)
	}
}

// Past its limit a store lets go of what was not used for longest.
func TestStoreTrims(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir, 1000)
	for i := range 10 {
		key := fmt.Sprintf("key-%d", i)
		if err := s.Put(key, text(strings.Repeat("x", 100))); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(time.Duration(i-100) * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, key[:2], key), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, s, "key-0"); len(got) != 100 {
		t.Fatalf("within the limit an entry is %q", got)
	}
	if err := s.Put("last", text(strings.Repeat("x", 100))); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"key-0": true, "key-1": false, "key-2": false, "key-3": true, "last": true} {
		if _, err := os.Stat(filepath.Join(dir, key[:2], key)); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", key, err, want)
		}
	}
	temp := filepath.Join(dir, "tmp", ".key-9.0123456789abcdef.tmp")
	recent := filepath.Join(dir, "tmp", ".key-8.0123456789abcdef.tmp")
	for _, path := range []string{temp, recent} {
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(temp, old, old); err != nil {
		t.Fatal(err)
	}
	freed, left, err := s.Trim(1<<40, 50*time.Hour)
	if err != nil || freed != 700 || left != 200 {
		t.Errorf("by age: %d freed, %d left, %v", freed, left, err)
	}
	if _, err := os.Stat(temp); err == nil {
		t.Error("what a killed process left is still there")
	}
	if _, err := os.Stat(recent); err != nil {
		t.Errorf("what somebody writes is gone: %v", err)
	}
}

// Stores of one folder put, read and trim at once; whoever finds an entry finds
// all of it.
func TestStoreShared(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			s := NewStore(dir, 2000)
			for i := range 100 {
				key := fmt.Sprintf("key-%d", (i*7+w)%30)
				if err := s.Put(key, text(strings.Repeat(key, 20))); err != nil {
					t.Error(err)
				}
				f, err := s.Open(key)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				data, err := io.ReadAll(f)
				f.Close()
				if string(data) != strings.Repeat(key, 20) {
					t.Errorf("%s is %q, %v", key, data, err)
				}
			}
		})
	}
	wg.Wait()
	if _, size, err := NewStore(dir, 0).Usage(); size > 2200 || err != nil {
		t.Errorf("%d bytes, %v", size, err)
	}
}

func TestTempOf(t *testing.T) {
	for name, want := range map[string]string{
		".attempt.json.0123456789abcdef.tmp": "attempt.json", ".a.0123456789abcdeg.tmp": "", "a.0123456789abcdef.tmp": "", "..0123456789abcdef.tmp": "", ".x.tmp": "",
	} {
		if got, ok := TempOf(name); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, ok, want)
		}
	}
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, "x"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := createTemp(filepath.Join(dir, "file.json"), 0o666)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got, ok := TempOf(filepath.Base(f.Name())); !ok || got != "file.json" {
		t.Errorf("%s is not taken for a temporary file", f.Name())
	}
}
