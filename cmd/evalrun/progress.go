package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
	"github.com/schollz/progressbar/v3"
)

const (
	// redrawEvery is how often a terminal is drawn anew, so that the seconds of
	// the workers move on.
	redrawEvery = 500 * time.Millisecond
	// quietFor is how long a log may be silent before it says what goes on.
	quietFor = 30 * time.Second

	clearBelow = "\r\x1b[J" // to the start of the line, and away with all from there
	lineUp     = "\x1b[1A"
)

// progress shows how far a run has got: a bar and a line of workers on a
// terminal, one line for each finished instance elsewhere. All methods may be
// called from any goroutine; after Close they do nothing.
type progress struct {
	out      io.Writer
	terminal bool
	color    bool
	width    int
	total    int
	bar      *progressbar.ProgressBar // nil when not on a terminal
	left     func() (low, high time.Duration, ok bool)

	mu           sync.Mutex
	start        time.Time
	lastLine     time.Time // when a line was last written, not on a terminal
	done         int
	resolved     int
	notEvaluated int
	workers      map[int]work
	drawn        bool // the bar is on the screen, the cursor in its first line
	closed       bool

	stop    chan struct{}
	stopped chan struct{}
}

// work is what one worker does, and since when.
type work struct {
	text  string
	since time.Time
}

// newProgress starts to show a run of total instances. width is that of the
// terminal in columns. Close must be called.
func newProgress(out io.Writer, isTerminal bool, width int, total int) *progress {
	if os.Getenv("TERM") == "dumb" {
		isTerminal = false
	}
	if width <= 0 {
		width = 80
	}
	now := time.Now()
	p := &progress{
		out: out, terminal: isTerminal, width: width, total: total,
		color: isTerminal && os.Getenv("NO_COLOR") == "",
		start: now, lastLine: now, workers: map[int]work{},
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	if isTerminal && total > 0 {
		p.bar = newBar(total, width)
	}
	p.draw()
	go p.tick()
	return p
}

// newBar makes a bar that is never written by the library itself: its text is
// one line of ours. The rest of that line is ours too, because the library's
// rate and remaining time go astray when many instances end at once.
func newBar(total, width int) *progressbar.ProgressBar {
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(io.Discard),
		progressbar.OptionSetWidth(min(max(width/4, 5), 40)),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "=", SaucerHead: ">", SaucerPadding: " ", BarStart: "[", BarEnd: "]"}),
		progressbar.OptionSetRenderBlankState(true),
	)
}

// predict has left say how long the rest takes, as a range.
func (p *progress) predict(left func() (low, high time.Duration, ok bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = left
}

// Worker says what worker i does now; "" is nothing.
func (p *progress) Worker(i int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if text == "" {
		delete(p.workers, i)
	} else {
		p.workers[i] = work{reports.SafeText(text), time.Now()}
	}
	p.draw()
}

// Done counts an instance that has ended.
func (p *progress) Done(instance, outcome string, seconds float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.done++
	o := grading.Outcome(outcome)
	if o == grading.Resolved {
		p.resolved++
	}
	if !o.Evaluated() {
		p.notEvaluated++
	}
	if !p.terminal {
		digits := len(fmt.Sprint(p.total))
		p.line(fmt.Sprintf("[%*d/%d] %-13s %s  %.1fs", digits, p.done, p.total,
			reports.SafeText(outcome), reports.SafeText(instance), seconds))
		return
	}
	if p.bar != nil && p.done <= p.total {
		// It fails only beyond its total.
		_ = p.bar.Add(1)
	}
	p.draw()
}

// Note writes lines of its own, above the bar if there is one; false says that it did
// not, since the display was closed.
func (p *progress) Note(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.line(reports.SafeLines(text))
	p.draw()
	return true
}

// Close takes the bar away, leaves its last state as a line, and ends the
// background work.
func (p *progress) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	if p.terminal {
		p.line(reports.Clip(p.barLine(), p.width-1) + p.colorOff())
	}
	p.mu.Unlock()
	close(p.stop)
	<-p.stopped
}

// tick redraws a terminal, or breaks a long silence, until Close.
func (p *progress) tick() {
	defer close(p.stopped)
	every := redrawEvery
	if !p.terminal {
		every = time.Second
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			p.mu.Lock()
			if !p.closed {
				p.draw()
				p.breakSilence()
			}
			p.mu.Unlock()
		}
	}
}

func (p *progress) breakSilence() {
	if p.terminal || time.Since(p.lastLine) < quietFor {
		return
	}
	text := fmt.Sprintf("[%d/%d] still running: %s", p.done, p.total, p.doing())
	if p.left != nil {
		if eta := p.eta(time.Since(p.start)); eta != "" {
			text += "; ETA " + eta
		}
	}
	p.line(text)
}

// line writes a whole line, instead of the bar if that is drawn. What cannot be
// written is lost: a run does not end because nobody watches it any more.
func (p *progress) line(text string) {
	before := ""
	if p.drawn {
		before = clearBelow
		p.drawn = false
	}
	p.lastLine = time.Now()
	_, _ = io.WriteString(p.out, before+text+"\n")
}

// draw shows the bar and the workers in two lines, in one write, and puts the
// cursor back to the start.
func (p *progress) draw() {
	if !p.terminal {
		return
	}
	text := clearBelow + reports.Clip(p.barLine(), p.width-1) + p.colorOff()
	if doing := p.doing(); doing != "" {
		text += "\n" + reports.Clip(doing, p.width-1) + lineUp
	}
	p.drawn = true
	_, _ = io.WriteString(p.out, text+"\r")
}

// barLine is the bar with counts, rate and remaining time.
func (p *progress) barLine() string {
	elapsed := time.Since(p.start)
	parts := []string{p.paint("32", fmt.Sprintf("%d resolved", p.resolved))}
	if p.notEvaluated > 0 {
		parts = append(parts, p.paint("33", fmt.Sprintf("%d not evaluated", p.notEvaluated)))
	}
	if p.done > 0 && elapsed > 0 {
		parts = append(parts, fmt.Sprintf("%.1f/min", float64(p.done)/elapsed.Minutes()))
	}
	if eta := p.eta(elapsed); eta != "" {
		parts = append(parts, "ETA "+eta)
	}
	parts = append(parts, clock(elapsed))
	bar := fmt.Sprintf("%d/%d", p.done, p.total)
	if p.bar != nil {
		bar = strings.TrimSpace(p.bar.String())
	}
	return bar + " " + strings.Join(parts, " · ")
}

// eta is how long the rest takes: what was predicted, or else what the instances
// so far took.
func (p *progress) eta(elapsed time.Duration) string {
	left := p.total - p.done
	if left <= 0 {
		return ""
	}
	if p.left != nil {
		if low, high, ok := p.left(); ok {
			return span(low, high)
		}
		return ""
	}
	if p.done == 0 {
		return ""
	}
	return clock(elapsed / time.Duration(p.done) * time.Duration(left))
}

// span shows a range of times no finer than it is known.
func span(low, high time.Duration) string {
	unit := time.Second
	switch {
	case high >= time.Hour:
		unit = 5 * time.Minute
	case high >= 10*time.Minute:
		unit = time.Minute
	case high >= time.Minute:
		unit = 10 * time.Second
	}
	low, high = low.Round(unit), high.Round(unit)
	if low == high {
		return clock(high)
	}
	return clock(low) + " to " + clock(high)
}

// doing lists what each worker does and for how long.
func (p *progress) doing() string {
	var ids []int
	for i := range p.workers {
		ids = append(ids, i)
	}
	slices.Sort(ids)
	var parts []string
	for _, i := range ids {
		w := p.workers[i]
		name := ""
		if i >= 0 { // below are those that prepare, and say so
			name = fmt.Sprintf("w%d ", i)
		}
		parts = append(parts, fmt.Sprintf("%s%s %s", name, w.text, clock(time.Since(w.since))))
	}
	if len(parts) == 0 && !p.terminal {
		return "no worker is busy"
	}
	return strings.Join(parts, " | ")
}

func (p *progress) paint(code, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// colorOff ends a colour whose end may have been cut off.
func (p *progress) colorOff() string {
	if !p.color {
		return ""
	}
	return "\x1b[0m"
}

// clock shows a time in whole seconds: 12s, 3m04s, 2h05m.
func clock(d time.Duration) string {
	s := int(d.Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
}
