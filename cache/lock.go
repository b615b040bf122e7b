package cache

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is how often a waiter tries again: no portable call waits for a
// file lock and a context at once.
const lockPoll = 50 * time.Millisecond

// Lock takes the exclusive advisory lock on the file path, created when
// missing, and waits for it until ctx ends. It holds between processes and
// between goroutines of one process; the system drops it when the process
// dies, however it dies. The error of a wait in vain says who holds the lock.
//
// The file stays behind after unlock: removing it would let two processes
// lock two different files of one name.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, fmt.Errorf("cache: lock %s: %w", path, err)
	}
	fl := flock.New(path, flock.SetPermissions(0o666))
	ok, err := fl.TryLockContext(ctx, lockPoll)
	if err != nil || !ok {
		fl.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("cache: waiting for lock %s, held by %s: %w", path, holder(path), context.Cause(ctx))
		}
		return nil, fmt.Errorf("cache: lock %s: %w", path, err)
	}
	// The note is for people only, so failing to write it changes nothing.
	_ = os.WriteFile(path, []byte(note()), 0o666)
	var once sync.Once
	return func() {
		once.Do(func() {
			_ = os.Truncate(path, 0)
			fl.Close()
		})
	}, nil
}

func note() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("process %d on %s since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
}

func holder(path string) string {
	data, err := os.ReadFile(path)
	text, _, _ := strings.Cut(string(data), "\n")
	if err != nil || text == "" {
		return "a process that left no note"
	}
	return text
}
