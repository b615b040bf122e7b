package results

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/evalrun/evalrun/cache"
)

// Running reports whether a process is working on a run of ours.
func Running(source, root string) (bool, error) {
	dir, err := runFolder(source, root)
	if err != nil {
		return false, err
	}
	lock := filepath.Join(dir, ".lock")
	if !isFile(lock) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	unlock, err := cache.Lock(ctx, lock)
	if err != nil {
		return true, nil
	}
	unlock()
	return false, nil
}

// Progress is a text that changes whenever an attempt of the run was finished.
func Progress(source, root string) (string, error) {
	dir, err := runFolder(source, root)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(filepath.Join(dir, "journal.jsonl")); err == nil {
		return fmt.Sprint(info.Size()), nil // it only grows
	}
	// Relative to the folder, whose own name may hold what a pattern gives a meaning.
	attempts, err := fs.Glob(os.DirFS(dir), "*/*/attempt.json")
	if err != nil {
		return "", err
	}
	var newest time.Time
	for _, path := range attempts {
		if info, err := os.Stat(filepath.Join(dir, path)); err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	return fmt.Sprint(len(attempts), newest.UnixNano()), nil
}

func runFolder(source, root string) (string, error) {
	dir, err := find(source, root)
	if err != nil {
		return "", err
	}
	if !isFile(dir, "run.json") {
		return "", fmt.Errorf("%s is no run of evalrun: it has no run.json", dir)
	}
	return dir, nil
}
