package runner

import (
	"time"

	"github.com/evalrun/evalrun/reports"
)

// EventKind says what happened.
type EventKind string

const (
	ImageReady EventKind = "image ready"     // or not: then there is an error
	Follows    EventKind = "follows"         // another job, at work by now, whose result or image it takes
	Started    EventKind = "sandbox started" // likewise
	Entered    EventKind = "at work"         // a worker and room were waited for
	Trouble    EventKind = "trouble"         // of the engine or the host
	Stays      EventKind = "result stays"    // of an earlier call, since the image cannot be had
	Finished   EventKind = "finished"
)

// Event is what happens to a job, for logs, figures and traces.
type Event struct {
	Kind    EventKind
	Job     Job
	At      time.Time
	Took    time.Duration // of what has ended
	Err     error
	Image   Image            // of ImageReady
	Attempt *reports.Attempt // of Finished
	Again   bool             // of Trouble: what failed is tried again
}

func (r *Runner) emit(ev Event) {
	if r.o.Events == nil {
		return
	}
	ev.At = time.Now()
	r.o.Events(ev)
}
