// Package layer reads the writable layer of an overlay file system: what a sandbox
// has written, as the kernel keeps it beside the image, and how much. Nothing in the
// sandbox can hide there that it has written to a file, not even by writing back what
// was there.
//
// It must not know which engine's sandbox it is.
package layer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/sandbox"
)

const (
	// maxSeen bounds how many files and folders are looked at.
	maxSeen = 200_000
	// maxNames bounds the bytes of the names that are kept.
	maxNames = 32 << 20
	// maxDepth bounds how deep folders are followed.
	maxDepth = 200
	// batch is how many names of a folder are in memory at a time.
	batch = 1000
)

// Changed are the files that differ from the image below. Where the layer cannot be
// read at all the error is ErrUnsupported; with any other, what was found so far is
// returned, too.
func Changed(ctx context.Context, upper string, lower []string) ([]sandbox.Change, error) {
	top, err := os.Open(upper)
	if err != nil {
		return nil, errors.Join(errors.ErrUnsupported, err)
	}
	defer top.Close()
	var w walk
	defer func() {
		for _, below := range w.lower {
			below.root.Close()
		}
	}()
	for _, dir := range lower {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, errors.Join(errors.ErrUnsupported, err)
		}
		w.lower = append(w.lower, image{root, map[string]folder{".": {there: true}}})
	}
	err = w.folder(ctx, top, "", 0)
	return w.found, err
}

// walk goes through what was written, from descriptor to descriptor: what runs inside
// may put links in the place of folders, stack folders into each other, and name
// things in any bytes.
type walk struct {
	lower       []image // the first is the uppermost
	found       []sandbox.Change
	seen, names int
}

func (w *walk) folder(ctx context.Context, dir *os.File, name string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("folders stand more than %d deep", maxDepth)
	}
	for {
		entries, err := dir.ReadDir(batch)
		for _, d := range entries {
			if err := w.entry(ctx, dir, d.Name(), path.Join(name, d.Name()), depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// entry takes in one entry of the layer, and what is below it.
func (w *walk) entry(ctx context.Context, dir *os.File, base, name string, depth int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if w.seen++; w.seen > maxSeen {
		return fmt.Errorf("more than %d files and folders were written", maxSeen)
	}
	var st unix.Stat_t
	if unix.Fstatat(int(dir.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil // it has gone meanwhile
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return w.change(name, &st)
	}
	fd, err := unix.Openat(int(dir.Fd()), base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %q: %w", name, err)
	}
	below := os.NewFile(uintptr(fd), base)
	defer below.Close()
	if opaque(below) && w.before(name) != nil {
		if err := w.change(name, &st); err != nil {
			return err
		}
	}
	return w.folder(ctx, below, name, depth+1)
}

func (w *walk) change(name string, st *unix.Stat_t) error {
	if w.names += len(name); w.names > maxNames {
		return fmt.Errorf("the names of what was written have more than %d bytes", maxNames)
	}
	c := sandbox.Change{Kind: sandbox.Added, Path: "/" + name, Stamp: fmt.Sprint(st.Ino, st.Mode, st.Size, st.Ctim)}
	was := w.before(name)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR, unix.S_IFCHR: // made again, and removed: nothing inside can make devices
		c.Kind = sandbox.Deleted
	default:
		if was != nil {
			c.Kind = sandbox.Changed
		}
	}
	if was != nil && was.IsDir() {
		c.Path += "/"
	}
	w.found = append(w.found, c)
	return nil
}

// before is what the image has of this name.
func (w *walk) before(name string) fs.FileInfo {
	for _, below := range w.lower {
		above := below.folder(path.Dir(name))
		if above.there {
			if info, err := below.root.Lstat(name); err == nil {
				if whiteout(info) {
					return nil
				}
				return info
			}
		}
		if above.hides {
			return nil
		}
	}
	return nil
}

// image is one layer of the image.
type image struct {
	root    *os.Root
	folders map[string]folder
}

// folder is a folder as one layer has it: whether it has it, and whether it keeps what
// lower ones have there from being seen.
type folder struct{ there, hides bool }

func (i image) folder(name string) folder {
	if f, known := i.folders[name]; known {
		return f
	}
	f := i.folder(path.Dir(name))
	if f.there {
		info, err := i.root.Lstat(name)
		f.there = err == nil && info.IsDir()
		f.hides = f.hides || err == nil && (!info.IsDir() || i.opaque(name))
	}
	i.folders[name] = f
	return f
}

func (i image) opaque(name string) bool {
	dir, err := i.root.Open(name)
	if err != nil {
		return false
	}
	defer dir.Close()
	return opaque(dir)
}

// whiteout is how overlays note a removed file.
func whiteout(info fs.FileInfo) bool { return info.Mode()&fs.ModeCharDevice != 0 }

// opaque reports whether a folder was removed and made again: nothing that is below
// shows through.
func opaque(dir *os.File) bool {
	var value [1]byte
	for _, attr := range []string{"trusted.overlay.opaque", "user.overlay.opaque"} {
		if n, err := unix.Fgetxattr(int(dir.Fd()), attr, value[:]); err == nil && n == 1 && value[0] == 'y' {
			return true
		}
	}
	return false
}

// Size is what a folder takes on disk, in bytes.
func Size(ctx context.Context, dir string) (int64, error) {
	// du walks folders of any depth; files that vanish meanwhile are no error of
	// ours, and it tells the sum all the same.
	cmd := exec.CommandContext(ctx, "du", "-sxk", "--", dir)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var kib int64
	if _, bad := fmt.Sscan(string(out), &kib); bad != nil {
		return 0, errors.Join(err, fmt.Errorf("du %s printed %q", dir, out))
	}
	return kib << 10, nil
}
