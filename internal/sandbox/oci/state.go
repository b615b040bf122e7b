package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// state is the folder of a driver:
//
//	lock                held while a run's folder is made, or swept
//	runs/RUN/lock       held as long as the run's process lives
//	runs/RUN/runtime/   the runtime's own state
//	runs/RUN/boxes/BOX/ one sandbox
//	runs/RUN/boxes/BOX/alive  held as long as a runtime's process is at work on it
//
// The kernel gives up a lock with the process that holds it, whatever ended it
// and in whichever process namespace it was.
type state struct {
	dir  string
	run  string // this process's folder
	lock *flock.Flock
	made atomic.Int64 // sandboxes
}

// box is what is written down about a sandbox before anything is made for it.
type box struct {
	Runtime string            `json:"runtime"` // path of the runtime
	Cgroup  string            `json:"cgroup"`  // as told to the runtime; "" for none
	Expiry  int64             `json:"expiry"`  // seconds since 1970
	Labels  map[string]string `json:"labels,omitempty"`
}

func openState(dir string) (*state, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &state{dir: dir}
	if err := os.MkdirAll(filepath.Join(dir, "runs"), 0o700); err != nil {
		return nil, err
	}
	return s, s.exclusively(func() error {
		// A name nobody else has on this machine: sandboxes' names have it in them,
		// and with them their control groups.
		s.run = filepath.Join(dir, "runs", fmt.Sprintf("%016x", rand.Uint64()))
		for _, sub := range []string{"", "runtime", "boxes"} {
			if err := os.Mkdir(filepath.Join(s.run, sub), 0o700); err != nil {
				return err
			}
		}
		s.lock = flock.New(filepath.Join(s.run, "lock"))
		// Who only looks (see HasLeftovers) has it for a moment.
		return s.lock.Lock()
	})
}

// exclusively keeps other processes from making and sweeping run folders.
func (s *state) exclusively(f func() error) (err error) {
	l := flock.New(filepath.Join(s.dir, "lock"))
	if err := l.Lock(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return f()
}

func (s *state) runtimeRoot() string { return filepath.Join(s.run, "runtime") }

// name makes a valid name of a hint, which no other sandbox has.
func (s *state) name(hint string) string {
	return fmt.Sprintf("%s-%s-%d", sandbox.ValidName(hint), filepath.Base(s.run), s.made.Add(1))
}

func (s *state) box(name string) string   { return filepath.Join(s.run, "boxes", name) }
func (s *state) boxes() ([]string, error) { return filepath.Glob(filepath.Join(s.run, "boxes", "*")) }

// close removes the run's folder, if nothing is left in it.
func (s *state) close() error {
	return s.exclusively(func() error {
		left, err := s.boxes()
		if len(left) == 0 {
			err = errors.Join(err, removeAll(s.run))
		}
		return errors.Join(err, s.lock.Close())
	})
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

func readBox(dir string) (box, error) {
	var b box
	data, err := os.ReadFile(filepath.Join(dir, "box.json"))
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	return b, err
}

// alive opens the file by whose lock others can tell that a runtime is at work on a
// sandbox: syscall.LOCK_SH for the runtime, which inherits it, LOCK_EX to find out.
func alive(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "alive"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return f, nil
}
