package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Store is a folder of entries by key, which processes may share: each is there
// whole or not at all, and the ones not used for longest go when all of them
// together pass the limit.
type Store struct {
	dir   string
	limit int64

	mu   sync.Mutex
	size int64 // as last counted, and what was put since; -1 before
}

// NewStore returns the store of a folder, which need not be there yet. A limit of
// 0 is none.
func NewStore(dir string, limit int64) *Store { return &Store{dir: dir, limit: limit, size: -1} }

// path shards the entries, since some file systems are slow with large folders.
func (s *Store) path(key string) (string, error) {
	if len(key) < 4 || filepath.Base(key) != key {
		return "", fmt.Errorf("cache: %q is no key", key)
	}
	return filepath.Join(s.dir, key[:2], key), nil
}

// temp is where entries are written before they are there.
func (s *Store) temp() string { return filepath.Join(s.dir, "tmp") }

// Put adds an entry, or replaces it.
func (s *Store) Put(key string, write func(io.Writer) error) error {
	path, err := s.path(key)
	if err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(path), s.temp()} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return fmt.Errorf("cache: %w", err)
		}
	}
	if err := writeTo(path, filepath.Join(s.temp(), key), 0o666, write); err != nil {
		return fmt.Errorf("cache: write %s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return ignoreMissing(err) // somebody else has trimmed
	}
	return s.grown(info.Size())
}

// grown trims when what was put since the last count may be too much.
func (s *Store) grown(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size >= 0 {
		s.size += n
	}
	if s.limit <= 0 || s.size >= 0 && s.size <= s.limit {
		return nil
	}
	// A little below, so that not every entry from now on counts all of them.
	_, left, err := s.Trim(s.limit-s.limit/10, 0)
	s.size = left
	return err
}

// Open opens an entry for reading; it counts as used now. One that is not there is
// fs.ErrNotExist.
func (s *Store) Open(key string) (*os.File, error) {
	path, err := s.path(key)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // a store that cannot be written to can still be read
	return f, nil
}

// Has reports whether an entry is there.
func (s *Store) Has(key string) bool {
	path, err := s.path(key)
	if err == nil {
		_, err = os.Stat(path)
	}
	return err == nil
}

// Remove removes an entry; one that is not there is removed already.
func (s *Store) Remove(key string) error {
	path, err := s.path(key)
	if err != nil {
		return err
	}
	return ignoreMissing(os.Remove(path))
}

type storeEntry struct {
	path string
	size int64
	used time.Time
}

// Trim removes the entries that were not used for longest until the others have at
// most so many bytes, and all that were not used for an age (0: whatever it is). It
// returns how many bytes went and how many are left.
func (s *Store) Trim(most int64, age time.Duration) (freed, left int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	unlock, err := Lock(ctx, filepath.Join(s.dir, ".lock"))
	if err != nil {
		return 0, 0, err
	}
	defer unlock()
	entries, err := s.entries()
	if err != nil {
		return 0, 0, err
	}
	slices.SortFunc(entries, func(a, b storeEntry) int { return a.used.Compare(b.used) })
	for _, e := range entries {
		left += e.size
	}
	for _, e := range entries {
		if left <= most && (age <= 0 || time.Since(e.used) <= age) {
			break
		}
		if err := ignoreMissing(os.Remove(e.path)); err != nil {
			return freed, left, err
		}
		freed, left = freed+e.size, left-e.size
	}
	return freed, left, s.Sweep()
}

// Sweep removes what killed processes have left of entries they were writing; an
// hour is more than any takes.
func (s *Store) Sweep() error { return RemoveTemp(s.temp(), time.Now().Add(-time.Hour)) }

func (s *Store) entries() ([]storeEntry, error) {
	var list []storeEntry
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name()[0] == '.' {
			return ignoreMissing(err)
		}
		info, err := d.Info()
		if err == nil {
			list = append(list, storeEntry{path, info.Size(), info.ModTime()})
		}
		return ignoreMissing(err)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

// Usage counts the entries and their bytes.
func (s *Store) Usage() (entries int, bytes int64, err error) {
	list, err := s.entries()
	for _, e := range list {
		bytes += e.size
	}
	return len(list), bytes, err
}
