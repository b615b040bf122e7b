// Package upkeep shows what evalrun keeps on this machine to save time, and trims
// it: images in the stores of engines, and the folders of the cache. Of the images it
// keeps account itself, since not every store knows which are evalrun's and when they
// were used.
//
// It must not know how anything it keeps is made. Nothing of it is a result, so
// that all of it may go.
package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Kinds of what is kept in folders, and where below the cache folder.
var folders = map[string]struct {
	dir   string
	depth int // of its entries below it
}{
	"verdicts":     {"verdicts", 2},
	"rootfs":       {"rootfs", 1},
	"build-logs":   {"builds", 1},
	"repositories": {"repositories", 2},
	"datasets":     {"hub", 1},
	"toolchains":   {"toolchains", 1},
	"audits":       {"audits", 1},
	"digests":      {"digests", 1},
}

// InStores are the kinds of what is kept in engines, those that others may stand on
// first: images that were pulled, and the layers of those that were built.
var InStores = []string{pulledKind, "base", "env", "instance"}

const pulledKind = "pulled"

// Kinds are all there are, sorted.
func Kinds() []string {
	kinds := slices.Clone(InStores)
	for kind := range folders {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

// Entry is one thing that is kept, and goes as a whole.
type Entry struct {
	Kind  string    `json:"kind"`
	Where string    `json:"where"` // engine, or "cache"
	Name  string    `json:"name"`
	Bytes int64     `json:"bytes"` // of its own: what it stands on is an entry, too
	Used  time.Time `json:"used"`  // last; where no use is known, when it was made
	id    string    // of an image, or path
	from  Images    // nil for files
	noted *Uses     // of the images in that store
}

// Images is the store of an engine.
type Images interface {
	// EachImage gives the images that are evalrun's: those it has built, and, without a
	// kind, those it has pulled. What is not in the store itself it asks for, once for
	// each image there is, whoever's it is: when a run took it last, and whether evalrun
	// has pulled it.
	EachImage(ctx context.Context, known func(id string) (used time.Time, pulled bool), f func(id, name, kind string, bytes int64, used time.Time)) error
	RemoveImage(ctx context.Context, id string) (bool, error)
}

// InEngine lists the images in an engine's store that are evalrun's. What is noted of
// others that are not there any more is forgotten.
func InEngine(ctx context.Context, engine string, store Images, noted *Uses) ([]Entry, error) {
	known, err := noted.load()
	if err != nil {
		return nil, err
	}
	var list []Entry
	err = store.EachImage(ctx, known.of, func(id, name, kind string, bytes int64, used time.Time) {
		list = append(list, Entry{Kind: cmp.Or(kind, pulledKind), Where: engine, Name: name, Bytes: bytes, Used: used, id: id, from: store, noted: noted})
	})
	if err != nil {
		return list, err
	}
	return list, noted.tidyGone(known)
}

// InCache lists what is in the folders of a cache.
func InCache(dir string) ([]Entry, error) {
	var list []Entry
	for kind, folder := range folders {
		root := filepath.Join(dir, folder.dir)
		paths, err := entriesAt(root, folder.depth)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			bytes, used, err := measure(path)
			if err != nil {
				return nil, err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return nil, err
			}
			list = append(list, Entry{Kind: kind, Where: "cache", Name: filepath.ToSlash(name), Bytes: bytes, Used: used, id: path})
		}
	}
	return list, nil
}

// entriesAt are the paths so many folders below one; what is hidden is a lock or is
// being written.
func entriesAt(root string, depth int) ([]string, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		switch {
		case e.Name()[0] == '.' || filepath.Ext(e.Name()) == ".lock":
		case depth == 1 || !e.IsDir():
			paths = append(paths, path)
		default:
			below, err := entriesAt(path, depth-1)
			if err != nil {
				return nil, err
			}
			paths = append(paths, below...)
		}
	}
	return paths, nil
}

// measure adds up a file, or a folder with all below it.
func measure(path string) (bytes int64, used time.Time, err error) {
	err = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				if info.Mode().IsRegular() {
					bytes += info.Size()
				}
				if info.ModTime().After(used) {
					used = info.ModTime()
				}
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // somebody else has removed it
		}
		return err
	})
	return bytes, used, err
}

// Total is what there is of one kind in one place.
type Total struct {
	Kind    string    `json:"kind"`
	Where   string    `json:"where"`
	Entries int       `json:"entries"`
	Bytes   int64     `json:"bytes"`
	Oldest  time.Time `json:"oldest_use,omitzero"`
	Newest  time.Time `json:"newest_use,omitzero"`
}

// Totals adds entries up by place and kind.
func Totals(list []Entry) []Total {
	var out []Total
	for _, e := range list {
		i := slices.IndexFunc(out, func(t Total) bool { return t.Kind == e.Kind && t.Where == e.Where })
		if i < 0 {
			i = len(out)
			out = append(out, Total{Kind: e.Kind, Where: e.Where, Oldest: e.Used, Newest: e.Used})
		}
		t := &out[i]
		t.Entries++
		t.Bytes += e.Bytes
		if e.Used.Before(t.Oldest) {
			t.Oldest = e.Used
		}
		if e.Used.After(t.Newest) {
			t.Newest = e.Used
		}
	}
	slices.SortFunc(out, func(a, b Total) int {
		if inCache := a.Where == "cache"; inCache != (b.Where == "cache") || a.Where == b.Where {
			return order(a.Where, a.Kind) - order(b.Where, b.Kind)
		}
		return cmp.Compare(a.Where, b.Where)
	})
	return out
}

// order puts engines before the cache, and layers that stand on others last.
func order(where, kind string) int {
	n := slices.Index(Kinds(), kind)
	if i := slices.Index(InStores, kind); i >= 0 {
		n = i - len(InStores)
	}
	if where == "cache" {
		n += 1000
	}
	return n
}

// Rule says what may go. An entry goes when it is of one of the kinds and was not
// used for Age, or when those of the kinds together have more than Most bytes and
// it is among the ones not used for longest.
type Rule struct {
	Kinds []string      // none is all
	Age   time.Duration // 0 is no reason
	Most  int64         // below 0 is no reason
}

// Trim removes what goes by a rule, and returns it. What is in use stays, and so does
// what something stands on that stays.
func (r Rule) Trim(ctx context.Context, list []Entry, now time.Time) (removed []Entry, err error) {
	var of []Entry
	left := int64(0)
	for _, e := range list {
		if len(r.Kinds) == 0 || slices.Contains(r.Kinds, e.Kind) {
			of = append(of, e)
			left += e.Bytes
		}
	}
	slices.SortStableFunc(of, func(a, b Entry) int {
		return cmp.Or(a.Used.Compare(b.Used), order(b.Where, b.Kind)-order(a.Where, a.Kind))
	})
	// Again as long as it helps: what stood on something may be gone now.
	for before := -1; before != len(removed); {
		before = len(removed)
		var stay []Entry
		for _, e := range of {
			if !(r.Age > 0 && now.Sub(e.Used) > r.Age || r.Most >= 0 && left > r.Most) {
				stay = append(stay, e)
				continue
			}
			ok, err := e.remove(ctx)
			if err != nil {
				return removed, fmt.Errorf("%s %s: %w", e.Kind, e.Name, err)
			}
			if !ok {
				stay = append(stay, e)
				continue
			}
			removed = append(removed, e)
			left -= e.Bytes
		}
		of = stay
	}
	return removed, nil
}

// remove removes an entry; false is one that is in use.
func (e Entry) remove(ctx context.Context) (bool, error) {
	if e.from == nil {
		return true, os.RemoveAll(e.id)
	}
	if e.noted.held(e.id) {
		return false, nil
	}
	removed, err := e.from.RemoveImage(ctx, e.id)
	if removed {
		err = errors.Join(err, e.noted.Gone(e.id))
	}
	return removed, err
}
