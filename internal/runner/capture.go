package runner

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// tailKeep is how much of the end of a phase's output survives when the middle
// has to go: test runners print their summaries last.
const tailKeep = 8 << 20

// capture is the log of one attempt: the phases' output one after another, each
// with a bound on its size, on disk as it arrives.
type capture struct {
	file *os.File
	size int64
	err  error // first failure to write; the attempt cannot be graded then
}

func newCapture(path string) (*capture, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &capture{file: f}, nil
}

func (c *capture) close() error {
	if err := c.file.Close(); c.err == nil {
		c.err = err
	}
	return c.err
}

// line writes text of our own.
func (c *capture) line(text string) { c.write([]byte(text + "\n")) }

func (c *capture) write(p []byte) {
	if c.err != nil {
		return
	}
	n, err := c.file.Write(p)
	c.size += int64(n)
	c.err = err
}

// startLine makes sure that what is written next begins a line.
func (c *capture) startLine() {
	var last [1]byte
	if c.size == 0 {
		return
	}
	if _, err := c.file.ReadAt(last[:], c.size-1); err != nil || last[0] != '\n' {
		c.line("")
	}
}

// section opens a region of the log for reading.
func (c *capture) section(r region) (io.ReadCloser, error) {
	if c.err != nil {
		return nil, c.err
	}
	return io.NopCloser(io.NewSectionReader(c.file, r.start, r.end-r.start)), nil
}

// region is where a phase's output lies in the log.
type region struct {
	start, end int64
	bytes      int64 // what the phase printed, kept or not
	truncated  bool
}

// phase begins the output of a phase; at most limit bytes of it are kept.
func (c *capture) phase(limit int64) *phaseOutput {
	tail := min(int64(tailKeep), limit/4)
	return &phaseOutput{c: c, start: c.size, head: limit - tail, tail: tail}
}

// phaseOutput takes one phase's output: the head goes to the file, then the
// last bytes are kept in a ring. It never blocks and never fails, so that what
// prints is not slowed down or broken by us.
type phaseOutput struct {
	c     *capture
	start int64
	head  int64
	tail  int64

	mu    sync.Mutex
	total int64
	ring  []byte
	next  int // where the next byte goes once the ring is full
	ended bool
}

var _ io.Writer = (*phaseOutput)(nil)

func (p *phaseOutput) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(b)
	if p.ended {
		return n, nil
	}
	if room := p.head - p.total; room > 0 {
		first := b[:min(int64(len(b)), room)]
		p.c.write(first)
		b = b[len(first):]
	}
	p.total += int64(n)
	p.keep(b)
	return n, nil
}

func (p *phaseOutput) keep(b []byte) {
	if int64(len(b)) > p.tail {
		b = b[int64(len(b))-p.tail:]
	}
	if grow := min(int(p.tail)-len(p.ring), len(b)); grow > 0 {
		p.ring = append(p.ring, b[:grow]...)
		b = b[grow:]
	}
	for len(b) > 0 {
		n := copy(p.ring[p.next:], b)
		p.next = (p.next + n) % len(p.ring)
		b = b[n:]
	}
}

// end writes what was kept of the tail and returns where all of it lies.
func (p *phaseOutput) end() region {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	r := region{start: p.start, bytes: p.total}
	if dropped := p.total - p.head - int64(len(p.ring)); dropped > 0 {
		r.truncated = true
		p.c.line(fmt.Sprintf("\n[evalrun: %d bytes of output left out here]", dropped))
	}
	p.c.write(p.ring[p.next:])
	p.c.write(p.ring[:p.next])
	p.ring = nil
	r.end = p.c.size
	return r
}
