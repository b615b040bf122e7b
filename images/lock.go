package images

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/evalrun/evalrun/cache"
)

// Lock records which image every key became, so that a later run can be held
// to exactly the same images.
type Lock struct {
	path   string
	frozen bool

	mu      sync.Mutex
	entries map[string]LockEntry
}

// LockEntry is one line of images.lock.
type LockEntry struct {
	Kind   Kind   `json:"kind"`
	Digest string `json:"digest"`
	// Name is for people: the instance id, the environment, the reference pulled.
	Name string `json:"name,omitempty"`
}

type lockFile struct {
	SchemaVersion int                  `json:"schema_version"`
	Images        map[string]LockEntry `json:"images"`
}

// OpenLock reads a lock file; one that does not exist is empty. With frozen, an
// image whose key is missing or whose digest differs is refused.
func OpenLock(path string, frozen bool) (*Lock, error) {
	l := &Lock{path: path, frozen: frozen, entries: map[string]LockEntry{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if frozen {
			return nil, fmt.Errorf("--frozen: no lock file %s; run once without --frozen to make it", path)
		}
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read lock file: %w", err)
	}
	f, err := parseLock(path, data)
	if err != nil {
		return nil, err
	}
	l.entries = f.Images
	return l, nil
}

// lockSchema is the schema_version of the files this version reads and writes.
const lockSchema = 1

func parseLock(path string, data []byte) (lockFile, error) {
	var f lockFile
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("lock file %s: %w (delete it to start afresh)", path, err)
	}
	if f.SchemaVersion != lockSchema {
		return f, fmt.Errorf("lock file %s: schema_version %d, want %d: another version of evalrun made it", path, f.SchemaVersion, lockSchema)
	}
	if f.Images == nil {
		f.Images = map[string]LockEntry{}
	}
	return f, nil
}

// Frozen reports whether only recorded images may be used.
func (l *Lock) Frozen() bool { return l.frozen }

// Lookup returns what a key was locked to.
func (l *Lock) Lookup(key string) (LockEntry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	return e, ok
}

// Check refuses, under --frozen, an image other than the locked one.
func (l *Lock) Check(key string, e LockEntry) error {
	if !l.frozen {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	have, ok := l.entries[key]
	switch {
	case !ok:
		return fmt.Errorf("--frozen: %s image %s (%s) is not in %s", e.Kind, short(key), e.Name, l.path)
	case e.Digest != "" && have.Digest != e.Digest:
		return fmt.Errorf("--frozen: %s image %s (%s) is %s, %s wants %s", e.Kind, short(key), e.Name, e.Digest, l.path, have.Digest)
	}
	return nil
}

// Record notes an image and saves the file. A frozen lock never changes. The
// file is read again under a lock of its own first, and only this one line of
// it changed, so that two runs on one machine do not undo each other's work.
func (l *Lock) Record(key string, e LockEntry) error {
	if err := l.Check(key, e); err != nil || l.frozen {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries[key] == e {
		return nil
	}
	if l.path != "" {
		if err := cache.Update(l.path, func(old []byte) ([]byte, error) { return addEntry(l.path, old, key, e) }); err != nil {
			return err
		}
	}
	l.entries[key] = e
	return nil
}

func addEntry(path string, old []byte, key string, e LockEntry) ([]byte, error) {
	f := lockFile{SchemaVersion: lockSchema, Images: map[string]LockEntry{}}
	if len(old) > 0 {
		var err error
		if f, err = parseLock(path, old); err != nil {
			return nil, err
		}
	}
	f.Images[key] = e
	out, err := json.MarshalIndent(f, "", "  ")
	return append(out, '\n'), err
}

func short(key string) string {
	if len(key) > 12 {
		return key[:12]
	}
	return key
}
