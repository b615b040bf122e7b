package runner

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// errSilent ends a command that has printed nothing for too long.
var errSilent = errors.New("no output for too long")

// silence ends ctx when nothing is written for as long as the limit. Without a
// limit it only passes the output on.
type silence struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	to     io.Writer
	limit  time.Duration
	timer  *time.Timer // nil without a limit
	last   atomic.Int64
	start  time.Time
}

func newSilence(parent context.Context, limit time.Duration, to io.Writer) *silence {
	s := &silence{to: to, limit: limit, start: time.Now()}
	s.ctx, s.cancel = context.WithCancelCause(parent)
	if limit > 0 {
		s.timer = time.AfterFunc(limit, s.look)
	}
	return s
}

// look goes off when the limit could have passed. Output only takes down when it
// came, which costs less than setting the timer each time.
func (s *silence) look() {
	if s.ctx.Err() != nil {
		return
	}
	quiet := time.Since(s.start) - time.Duration(s.last.Load())
	if quiet >= s.limit {
		s.cancel(errSilent)
		return
	}
	s.timer.Reset(s.limit - quiet)
}

func (s *silence) Write(p []byte) (int, error) {
	s.last.Store(int64(time.Since(s.start)))
	return s.to.Write(p)
}

// end stops the watch and reports whether it ended the command.
func (s *silence) end() bool {
	s.cancel(nil)
	if s.timer != nil {
		s.timer.Stop()
	}
	return errors.Is(context.Cause(s.ctx), errSilent)
}
