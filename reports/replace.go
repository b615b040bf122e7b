package reports

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// MayReplace says whether a file may be written at path: there is nothing, or an
// empty file, or one of this program's own, which has mark near its beginning. With
// force any regular file or link may go. What is no file never does.
func MayReplace(path, mark string, force bool) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder: give the name of a file", path)
	case info.Mode()&fs.ModeSymlink != 0:
		if force {
			return nil
		}
		return fmt.Errorf("%s is a link, which would become a file: give another name, or --force", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file, but a device or a pipe: give the name of a file", path)
	case force || info.Size() == 0:
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !bytes.Contains(head, []byte(mark)) {
		return fmt.Errorf("%s is there, and evalrun has not written it: give another name, or --force to replace it", path)
	}
	return nil
}
