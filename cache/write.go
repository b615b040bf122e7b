package cache

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// WriteFile writes data to path so that every reader, now and after a crash,
// finds either the old file or the whole new one. Missing folders are created.
// perm is subject to the umask, as with os.WriteFile; a symlink at path is
// replaced, not followed.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("cache: write %s: %w", path, err)
	}
	tmp, err := createTemp(path, perm)
	if err != nil {
		return fmt.Errorf("cache: write %s: %w", path, err)
	}
	_, err = tmp.Write(data)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = Replace(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("cache: write %s: %w", path, err)
	}
	return nil
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
	dir, base := filepath.Split(path)
	if len(base) > 100 { // leave room below the limit on names
		base = base[:100]
	}
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
