package cache

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// WriteFile writes data to path so that every reader, now and after a crash,
// finds either the old file or the whole new one. Missing folders are created.
// perm is subject to the umask, as with os.WriteFile; a symlink at path is
// replaced, not followed.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	return WriteFrom(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteFrom is WriteFile for what is written bit by bit. When write fails, path is what
// it was.
func WriteFrom(path string, perm fs.FileMode, write func(io.Writer) error) error {
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	if err == nil {
		err = writeTo(path, path, perm, write)
	}
	if err != nil {
		return fmt.Errorf("cache: write %s: %w", path, err)
	}
	return nil
}

// writeTo is WriteFrom with the temporary file beside another one, in a folder that is
// there.
func writeTo(path, beside string, perm fs.FileMode, write func(io.Writer) error) error {
	tmp, err := createTemp(beside, perm)
	if err != nil {
		return err
	}
	err = write(tmp)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = Replace(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}

// TempOf is the name of the file that a temporary file of WriteFile was to become,
// as far as it is in its name; false for any other file.
func TempOf(name string) (target string, ok bool) {
	m := tempName.FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	return m[1], true
}

var tempName = regexp.MustCompile(`^\.(.+)\.[0-9a-f]{16}\.tmp$`)

// RemoveTemp removes the temporary files that killed processes have left below a
// folder. Those that were written to after the given time are somebody's who is
// still at it; the zero time is for a folder in which nobody is.
func RemoveTemp(dir string, before time.Time) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreMissing(err)
		}
		if _, ok := TempOf(d.Name()); !ok {
			return nil
		}
		info, err := d.Info()
		if err == nil && (before.IsZero() || info.ModTime().Before(before)) {
			err = os.Remove(path)
		}
		return ignoreMissing(err)
	})
}

// RemoveTempOf removes what killed processes have left of writing one file. Nobody
// else may be writing it.
func RemoveTempOf(path string) error {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, e := range entries {
		if target, ok := TempOf(e.Name()); ok && target == tempBase(path) {
			if err := ignoreMissing(os.Remove(filepath.Join(dir, e.Name()))); err != nil {
				return err
			}
		}
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Replace moves the finished file tmp to path, in the same file system, and
// makes both its content and its name last: the file is synced before the
// rename and the folder after it.
func Replace(tmp, path string) error {
	if err := syncPath(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	// Some file systems cannot sync a folder; the rename is still atomic there.
	err := syncPath(filepath.Dir(path))
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// WriteJSON writes v as JSON to path like WriteFile: indented by indent spaces
// (0 means one line), without HTML escapes and without a final newline.
func WriteJSON(path string, v any, indent int) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", strings.Repeat(" ", max(indent, 0)))
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("cache: write %s: %w", path, err)
	}
	return WriteFile(path, bytes.TrimSuffix(buf.Bytes(), []byte("\n")), 0o666)
}

// createTemp makes a new file beside path. os.CreateTemp would force mode
// 0600, and a later chmod would go past the umask.
func createTemp(path string, perm fs.FileMode) (*os.File, error) {
	const tries = 100
	dir, base := filepath.Dir(path), tempBase(path)
	var err error
	for range tries {
		name := filepath.Join(dir, fmt.Sprintf(".%s.%016x.tmp", base, rand.Uint64()))
		var f *os.File
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, err
}

// tempBase leaves room below the limit on names.
func tempBase(path string) string {
	base := filepath.Base(path)
	return base[:min(len(base), 100)]
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
