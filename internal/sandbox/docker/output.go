package docker

import (
	"archive/tar"
	"errors"
	"io"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/evalrun/evalrun/internal/sandbox"
)

const (
	// How long output may pause after its process has ended before it is taken
	// for that of something the process left behind, and how often it may go on.
	drainPause  = 500 * time.Millisecond
	drainRounds = 20
)

// output carries a process's input and output between the daemon and a command.
type output struct {
	resets   bool // the daemon is one that ends output so
	attached types.HijackedResponse
	to       io.Writer
	total    atomic.Int64
	feeding  sync.WaitGroup

	done chan struct{} // closed when no more is written to the command's output
	// Complete once done is closed:
	head    []byte // the first bytes
	cut     error  // what ended it before its time
	refused error  // the first error of to
}

func newOutput(attached types.HijackedResponse, cmd sandbox.Command) *output {
	o := &output{attached: attached, to: cmd.Output, done: make(chan struct{})}
	if o.to == nil {
		o.to = io.Discard
	}
	go func() {
		defer close(o.done)
		_, o.cut = stdcopy.StdCopy(o, o, attached.Reader)
	}()
	switch {
	case len(cmd.Files) > 0:
		o.feeding.Go(func() {
			writeTar(attached.Conn, cmd.Files) // when tar ends early its exit status tells
			attached.CloseWrite()
		})
	case len(cmd.Stdin) > 0:
		o.feeding.Go(func() {
			attached.Conn.Write(cmd.Stdin) // a process may end without reading it all
			attached.CloseWrite()
		})
	}
	return o
}

// Write passes output on. It does not fail when that does: a process must not
// be held up because nobody takes its output.
func (o *output) Write(p []byte) (int, error) {
	if room := 1024 - len(o.head); room > 0 {
		o.head = append(o.head, p[:min(room, len(p))]...)
	}
	o.total.Add(int64(len(p)))
	if o.refused == nil {
		_, o.refused = o.to.Write(p)
	}
	return len(p), nil
}

// beginning returns the first bytes of an output that has ended.
func (o *output) beginning() (string, bool) {
	select {
	case <-o.done:
		return string(o.head), true
	default:
		return "", false
	}
}

// drain waits for the output's end, or until it pauses: something the process
// left behind may keep it open for ever.
func (o *output) drain() {
	last := int64(-1)
	for range drainRounds {
		now := o.total.Load()
		if now == last {
			return
		}
		last = now
		select {
		case <-o.done:
			return
		case <-time.After(drainPause):
		}
	}
}

// close ends the connection; the command's output is not written after it. The
// error is what kept output from the command.
func (o *output) close() error {
	_, ended := o.beginning()
	o.attached.Close()
	<-o.done
	o.feeding.Wait()
	if o.refused != nil {
		return o.refused
	}
	// Podman cuts the connection of a process that ends without reading its input.
	if ended && o.cut != nil && !(o.resets && errors.Is(o.cut, syscall.ECONNRESET)) {
		return engineError("read output", o.cut)
	}
	return nil
}

// writeTar writes files as a tar, without entries for their folders: those that
// exist stay as they are.
func writeTar(to io.Writer, files []sandbox.File) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		name := strings.TrimPrefix(path.Clean("/"+f.Path), "/")
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: f.Mode, Size: int64(len(f.Data))}); err != nil {
			return err
		}
		if _, err := w.Write(f.Data); err != nil {
			return err
		}
	}
	return w.Close()
}
