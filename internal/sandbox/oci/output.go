package oci

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// output passes a process's output on. It does not fail when that does: a process
// must not be held up because nobody takes its output.
type output struct {
	to      io.Writer
	refused error // the first error of to
}

func (o *output) Write(p []byte) (int, error) {
	if o.to != nil && o.refused == nil {
		_, o.refused = o.to.Write(p)
	}
	return len(p), nil
}

// stream reads a pipe until everyone has closed its other side.
type stream struct {
	from   *os.File
	to     *output
	pause  chan struct{} // run has stopped to let settle look
	resume chan struct{}
}

func newStream(from *os.File, to *output) *stream {
	return &stream{from: from, to: to, pause: make(chan struct{}), resume: make(chan struct{})}
}

// run reads until the end. After settle it throws away what it reads.
func (s *stream) run() {
	defer s.from.Close()
	_, err := io.Copy(struct{ io.Writer }{s.to}, struct{ io.Reader }{s.from})
	close(s.pause)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		<-s.resume
		io.Copy(io.Discard, struct{ io.Reader }{s.from})
	}
}

// settle takes what is in the pipe, and what comes later no more. Whatever the
// process itself has written is in the pipe when it has ended.
func (s *stream) settle() {
	s.from.SetReadDeadline(time.Now().Add(-1))
	<-s.pause
	s.from.SetReadDeadline(time.Time{})
	defer close(s.resume)
	raw, err := s.from.SyscallConn()
	if err != nil {
		return // it is closed, since it has ended
	}
	// As much as a pipe holds: others may write on for ever.
	buffer := make([]byte, 64<<10)
	for left := 1 << 20; left > 0; {
		var n int
		raw.Read(func(fd uintptr) bool {
			n, err = unix.Read(int(fd), buffer)
			return true
		})
		if n <= 0 || err != nil {
			return
		}
		s.to.Write(buffer[:n])
		left -= n
	}
}
