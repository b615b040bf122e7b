// Package observe makes of what a runner tells: a log, figures for Prometheus, a
// status page and traces.
//
// It must not decide anything: a run is the same with and without it.
package observe

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/reports"
)

// Options say what is observed, and how.
type Options struct {
	RunID string
	Jobs  int
	Log   *slog.Logger // nil keeps none
	Left  func() (low, high time.Duration, ok bool)
}

// Watch keeps what is known of a run that goes on. Its methods are safe for
// concurrent use.
type Watch struct {
	o       Options
	start   time.Time
	metrics *metrics
	traces  *traces // nil without

	mu       sync.Mutex
	workers  map[int]work
	outcomes map[grading.Outcome]int
	done     int
	reused   int
	resumed  int
	troubles map[cause.Cause]int
	latest   string // trouble
}

// work is what a worker does, and since when.
type work struct {
	text  string
	since time.Time
}

// New watches a run.
func New(o Options) *Watch {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Left == nil {
		o.Left = func() (low, high time.Duration, ok bool) { return 0, 0, false }
	}
	w := &Watch{o: o, start: time.Now(), workers: map[int]work{}, outcomes: map[grading.Outcome]int{}, troubles: map[cause.Cause]int{}}
	w.metrics = newMetrics(w)
	return w
}

// Worker says what a worker does now; "" is nothing.
func (w *Watch) Worker(i int, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text == "" {
		delete(w.workers, i)
		return
	}
	w.workers[i] = work{text, time.Now()}
}

// Event takes in what happened to a job.
func (w *Watch) Event(ev runner.Event) {
	log := w.o.Log.With("instance", ev.Job.Instance.ID, "model", ev.Job.Prediction.Model)
	switch ev.Kind {
	case runner.ImageReady:
		w.metrics.stage("image", ev.Took)
		w.traces.image(ev)
		if ev.Err != nil {
			log.Error("no image", "seconds", ev.Took.Seconds(), "cause", cause.Of(ev.Err).String(), "error", ev.Err)
			break
		}
		log.Debug("image ready", "seconds", ev.Took.Seconds())
	case runner.Started:
		w.metrics.stage("start", ev.Took)
		log.Debug("sandbox started", "seconds", ev.Took.Seconds(), "error", ev.Err)
	case runner.Entered:
		w.metrics.stage("wait", ev.Took)
		log.Debug("at work", "waited_seconds", ev.Took.Seconds())
	case runner.Trouble:
		c := cause.Of(ev.Err)
		w.metrics.trouble(c)
		log.Warn("trouble", "cause", c.String(), "error", ev.Err)
		w.mu.Lock()
		w.troubles[c]++
		w.latest = ev.Job.Instance.ID + ": " + ev.Err.Error()
		w.mu.Unlock()
	case runner.Stays:
		log.Warn("no image, and the result of an earlier call stays", "cause", cause.Of(ev.Err).String(), "error", ev.Err)
	case runner.Finished:
		w.finished(log, ev)
	}
}

func (w *Watch) finished(log *slog.Logger, ev runner.Event) {
	a := ev.Attempt
	w.mu.Lock()
	w.outcomes[a.Outcome]++
	w.done++
	switch {
	case a.Resumed:
		w.resumed++
	case a.Reused:
		w.reused++
	}
	w.mu.Unlock()
	w.metrics.finished(a)
	w.traces.attempt(ev)
	phases := make([]any, 0, len(a.Phases))
	for _, p := range a.Phases {
		phases = append(phases, slog.Float64(p.Name, p.Seconds))
	}
	log.Info("finished", "outcome", string(a.Outcome), "reason", a.Reason, "reused", a.Reused, "resumed", a.Resumed, "seconds", a.Seconds, "image_seconds", a.ImageSeconds,
		"start_seconds", a.StartSeconds, "waited_seconds", a.WaitedSeconds, slog.Group("phases", phases...),
		"peak_memory_bytes", a.Usage.PeakMemoryBytes, "cpu_seconds", a.Usage.CPUSeconds)
}

// Begin and End log the run itself.
func (w *Watch) Begin(args ...any) {
	w.o.Log.Info("run begins", append([]any{"run", w.o.RunID, "jobs", w.o.Jobs}, args...)...)
}

// End logs how the run ended.
func (w *Watch) End(err error) {
	if err != nil {
		w.o.Log.Error("run ended", "run", w.o.RunID, "cause", cause.Of(err).String(), "error", err)
		return
	}
	w.o.Log.Info("run ended", "run", w.o.RunID)
}

// Status is what goes on at a moment.
type Status struct {
	RunID     string         `json:"run_id"`
	Jobs      int            `json:"jobs"`
	Done      int            `json:"done"`
	Reused    int            `json:"reused"`  // results of other attempts
	Resumed   int            `json:"resumed"` // those of earlier calls of the run
	Outcomes  map[string]int `json:"outcomes"`
	Troubles  map[string]int `json:"troubles"`
	Latest    string         `json:"latest_trouble,omitempty"`
	Workers   []Worker       `json:"workers"`
	Elapsed   float64        `json:"elapsed_seconds"`
	LeftLow   *float64       `json:"left_low_seconds,omitempty"` // missing while nothing can be said
	LeftHigh  *float64       `json:"left_high_seconds,omitempty"`
	Generated time.Time      `json:"generated"`
}

// Worker is what one worker does.
type Worker struct {
	Worker  int     `json:"worker"`
	Doing   string  `json:"doing"`
	Seconds float64 `json:"seconds"`
}

// Status tells what goes on now.
func (w *Watch) Status() Status {
	low, high, ok := w.o.Left()
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	s := Status{
		RunID: w.o.RunID, Jobs: w.o.Jobs, Done: w.done, Reused: w.reused, Resumed: w.resumed, Outcomes: map[string]int{}, Troubles: map[string]int{},
		Latest: w.latest, Workers: []Worker{}, Elapsed: now.Sub(w.start).Seconds(), Generated: now.UTC(),
	}
	if ok {
		l, h := low.Seconds(), high.Seconds()
		s.LeftLow, s.LeftHigh = &l, &h
	}
	for o, n := range w.outcomes {
		s.Outcomes[string(o)] = n
	}
	for c, n := range w.troubles {
		s.Troubles[c.String()] = n
	}
	for _, i := range slices.Sorted(maps.Keys(w.workers)) {
		s.Workers = append(s.Workers, Worker{i, w.workers[i].text, now.Sub(w.workers[i].since).Seconds()})
	}
	return s
}

// ran reports whether a record is of this call and of commands that ran.
func ran(a *reports.Attempt) bool { return !a.Reused && !a.Resumed && len(a.Phases) > 0 }
