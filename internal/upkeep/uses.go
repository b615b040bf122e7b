package upkeep

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/evalrun/evalrun/cache"
)

// Uses knows of the images in one store when a run took each last, which of them
// evalrun has pulled, and which a run that goes on has taken. A daemon knows none of
// it: of the first it has the day an image was made.
//
// It is a folder that processes share. The time of a file is when its image was used,
// a second one says that it was pulled, and what a run has taken are the lines of a
// file that is locked as long as the run's process is there. A file that is lost costs
// little: an image is not listed, or looks as if it was not used since it was made.
type Uses struct {
	dir string

	mu    sync.Mutex
	taken map[string]bool
	run   *flock.Flock // nil until something is taken
	path  string       // of its file
}

const (
	usedSuffix   = ".used"
	pulledSuffix = ".pulled"
	runSuffix    = ".run"

	// mostUses bounds the folder, where nobody ever lists what there is.
	mostUses = 20_000
)

// Pull is what is written down of an image that evalrun has pulled.
type Pull struct {
	Image     string `json:"image"` // its id in the store
	Reference string `json:"reference"`
	Engine    string `json:"engine"`
}

// NewUses are those of the images in one store, in the folder of a cache. The store is
// named by what tells it from all others; "" is the one in the cache folder itself.
func NewUses(cacheDir, store string) *Uses {
	if store == "" {
		store = "own"
	}
	return &Uses{dir: filepath.Join(cacheDir, "image-uses", url.PathEscape(store)), taken: map[string]bool{}}
}

// file is one of an image's.
func (u *Uses) file(image, suffix string) string {
	return filepath.Join(u.dir, url.PathEscape(image)+suffix)
}

// Take notes that a run uses an image, and keeps it from being trimmed until Close, or
// as long as this process lives. It writes the first time only.
func (u *Uses) Take(image string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken[image] {
		return nil
	}
	if u.run == nil {
		if err := u.begin(); err != nil {
			return err
		}
	}
	list, err := os.OpenFile(u.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = list.WriteString(image + "\n")
	if err = errors.Join(err, list.Close(), touch(u.file(image, usedSuffix))); err != nil {
		return err
	}
	u.taken[image] = true
	return nil
}

// begin takes a file for what this process takes.
func (u *Uses) begin() error {
	if err := os.MkdirAll(u.dir, 0o755); err != nil {
		return err
	}
	if err := u.tidy(); err != nil {
		return err
	}
	// It is locked before it has its name: one that is not is of a process that is gone.
	temp := filepath.Join(u.dir, fmt.Sprintf(".run.%016x.tmp", rand.Uint64()))
	run := flock.New(temp, flock.SetPermissions(0o644))
	if _, err := run.TryLock(); err != nil {
		return errors.Join(err, run.Close())
	}
	path := filepath.Join(u.dir, fmt.Sprintf("%016x%s", rand.Uint64(), runSuffix))
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, run.Close(), os.Remove(temp))
	}
	u.run, u.path = run, path
	return nil
}

// touch sets a file's time to now, and makes it if need be.
func touch(path string) error {
	now := time.Now()
	err := os.Chtimes(path, now, now)
	if errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(path, nil, 0o644)
	}
	return err
}

// Pulled notes that evalrun has pulled an image that was not there before.
func (u *Uses) Pulled(p Pull) error {
	return cache.WriteJSON(u.file(p.Image, pulledSuffix), p, 0)
}

// Gone forgets an image that was removed: it is somebody else's where it comes back by
// itself.
func (u *Uses) Gone(image string) error {
	u.mu.Lock()
	delete(u.taken, image)
	u.mu.Unlock()
	return u.forget(url.PathEscape(image))
}

func (u *Uses) forget(name string) error {
	var errs []error
	for _, suffix := range []string{pulledSuffix, usedSuffix} {
		if err := os.Remove(filepath.Join(u.dir, name+suffix)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Close gives back what was taken. What is taken after it is taken anew.
func (u *Uses) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.run != nil {
		os.Remove(u.path)
		u.run.Close()
		u.run = nil
		clear(u.taken)
	}
}

// held reports whether a run that goes on has taken an image. A file that cannot be
// read may name it.
func (u *Uses) held(image string) bool {
	entries, _ := os.ReadDir(u.dir) // one that is not there names none
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), runSuffix) {
			continue
		}
		path := filepath.Join(u.dir, e.Name())
		if !locked(path) {
			os.Remove(path) // its process was killed
			continue
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just ended
		}
		if err != nil || slices.Contains(strings.Split(string(text), "\n"), image) {
			return true
		}
	}
	return false
}

// locked reports whether a process has the lock of a file.
func locked(path string) bool {
	l := flock.New(path, flock.SetFlag(os.O_RDONLY))
	defer l.Close()
	got, err := l.TryRLock()
	return err != nil || !got
}

// use is what is known of one image.
type use struct {
	last    time.Time
	pulled  bool
	written map[string]time.Time // its files
	there   bool                 // in the store
}

// uses are all that are known, by the name of their files.
type uses map[string]*use

func (u *Uses) load() (uses, error) {
	known := uses{}
	entries, err := os.ReadDir(u.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	for _, e := range entries {
		suffix := filepath.Ext(e.Name())
		if e.Name()[0] == '.' || suffix != usedSuffix && suffix != pulledSuffix {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it was just forgotten
		}
		name := strings.TrimSuffix(e.Name(), suffix)
		if known[name] == nil {
			known[name] = &use{written: map[string]time.Time{}}
		}
		of := known[name]
		of.pulled = of.pulled || suffix == pulledSuffix
		of.written[e.Name()] = info.ModTime()
		if info.ModTime().After(of.last) {
			of.last = info.ModTime()
		}
	}
	return known, err
}

// of is what is known of an image that is in the store: the zero time is that no use is.
func (k uses) of(image string) (last time.Time, pulled bool) {
	u := k[url.PathEscape(image)]
	if u == nil {
		return time.Time{}, false
	}
	u.there = true
	return u.last, u.pulled
}

// tidyGone forgets the images that the store was not found to have, unless they were
// used or pulled since.
func (u *Uses) tidyGone(known uses) error {
	var errs []error
	for name, of := range known {
		fresh := false
		for file, at := range of.written {
			info, err := os.Stat(filepath.Join(u.dir, file))
			fresh = fresh || err == nil && !info.ModTime().Equal(at)
		}
		if !of.there && !fresh {
			errs = append(errs, u.forget(name))
		}
	}
	return errors.Join(errs...)
}

// tidy removes what killed processes have left of writing, and of too many files those
// of the images that were not used for longest.
func (u *Uses) tidy() error {
	if err := cache.RemoveTemp(u.dir, time.Now().Add(-time.Hour)); err != nil {
		return err
	}
	known, err := u.load()
	if err != nil || len(known) <= mostUses {
		return err
	}
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return known[a].last.Compare(known[b].last) })
	var errs []error
	for _, name := range names[:len(names)-mostUses*9/10] {
		errs = append(errs, u.forget(name))
	}
	return errors.Join(errs...)
}
