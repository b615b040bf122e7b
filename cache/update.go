package cache

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
)

// Update replaces a file by what change makes of its content (nil when there is
// no file yet). A lock beside the file keeps other processes out meanwhile.
func Update(path string, change func(old []byte) ([]byte, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	unlock, err := Lock(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if err := RemoveTempOf(path); err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := change(old)
	if err != nil {
		return err
	}
	return WriteFile(path, data, 0o644)
}
