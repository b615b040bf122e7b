package schedule

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
)

// Observation is what one attempt has taken.
type Observation struct {
	Instance    string  `json:"i"`
	Repo        string  `json:"r"`
	Seconds     float64 `json:"s"`
	CPUSeconds  float64 `json:"c,omitempty"`
	MemoryBytes int64   `json:"m,omitempty"`
	DiskBytes   int64   `json:"d,omitempty"`
}

func (o Observation) valid() bool {
	return o.Instance != "" && o.Seconds > 0 && o.Seconds < 1e8 && o.CPUSeconds >= 0 && o.MemoryBytes >= 0 && o.DiskBytes >= 0
}

// What is taken for granted as long as nothing has run.
const (
	guessedSeconds = 60
	guessedSpread  = 1.2 // as among the instances of a dataset
	guessedMemory  = 512 << 20

	// instanceSpread is between two runs of one instance, until some are known.
	instanceSpread = 0.2
	// remembered bounds how many observations weigh in: machines change.
	remembered = 8
	// keptLines is how long a history file may become before it is shortened.
	keptLines = 200_000
)

// History knows what earlier attempts have taken. Its methods are safe for
// concurrent use.
type History struct {
	path string // "" is memory only

	mu        sync.Mutex
	file      *os.File // once there was something to write
	all       tally
	repos     map[string]*tally
	instances map[string]*tally
	unwritten error // why the file is behind
}

// NewHistory returns one that knows nothing and keeps nothing.
func NewHistory() *History {
	return &History{repos: map[string]*tally{}, instances: map[string]*tally{}}
}

// OpenHistory reads the history at path, and has Observe add to it. A line that
// is torn or not one is left out; a file that is not there is empty.
func OpenHistory(path string) (*History, error) { return openHistory(path, keptLines) }

func openHistory(path string, keep int) (*History, error) {
	h := NewHistory()
	h.path = path
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("history of durations: %w", err)
	}
	defer f.Close()
	lines, err := h.read(f)
	if err != nil {
		return nil, fmt.Errorf("history of durations %s: %w", path, err)
	}
	if lines > keep {
		if err := shorten(path); err != nil {
			return nil, fmt.Errorf("shorten the history of durations: %w", err)
		}
	}
	return h, nil
}

// read adds the observations of r and counts the lines.
func (h *History) read(r io.Reader) (lines int, err error) {
	in := bufio.NewReader(r)
	for {
		line, more, err := in.ReadLine()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		lines++
		var o Observation
		if !more && json.Unmarshal(line, &o) == nil && o.valid() {
			h.add(o)
		}
		for more && err == nil {
			_, more, err = in.ReadLine()
		}
	}
}

// shorten keeps the later half of a file. What another process adds meanwhile is
// lost, which costs an estimate and no result.
func shorten(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	half := data[len(data)/2:]
	if i := bytes.IndexByte(half, '\n'); i >= 0 {
		half = half[i+1:]
	}
	tmp := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	if err := os.WriteFile(tmp, half, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// Observe takes down what an attempt has taken. That it could not be written is
// told by Close: a run does not end because of it.
func (h *History) Observe(o Observation) {
	if !o.valid() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(o)
	if h.path == "" || h.unwritten != nil {
		return
	}
	h.unwritten = h.write(o)
}

func (h *History) write(o Observation) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if h.file == nil {
		if err := os.MkdirAll(filepath.Dir(h.path), 0o777); err != nil {
			return err
		}
		if h.file, err = os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644); err != nil {
			return err
		}
	}
	// One write, so that lines of two processes do not mix.
	_, err = h.file.Write(append(line, '\n'))
	return err
}

// Close tells whether anything could not be kept.
func (h *History) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.unwritten
	if h.file != nil {
		err = errors.Join(err, h.file.Close())
		h.file = nil
	}
	if err != nil {
		return fmt.Errorf("history of durations: %w", err)
	}
	return nil
}

func (h *History) add(o Observation) {
	h.all.add(o)
	for _, level := range []struct {
		of   map[string]*tally
		name string
	}{{h.repos, o.Repo}, {h.instances, o.Instance}} {
		t := level.of[level.name]
		if t == nil {
			t = &tally{}
			level.of[level.name] = t
		}
		t.add(o)
	}
}

// Estimate says what is expected of an instance: what it took itself, else what
// others of its repository took, else what any took.
func (h *History) Estimate(instance, repo string) Estimate {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.instances[instance]; t != nil {
		return t.estimate(ByInstance, instanceSpread)
	}
	if t := h.repos[repo]; t != nil {
		return t.estimate(ByRepo, guessedSpread)
	}
	if h.all.seconds.n > 0 {
		return h.all.estimate(ByDefault, guessedSpread)
	}
	return Estimate{Seconds: guessedSeconds, Spread: guessedSpread, Needs: Resources{CPUs: 1, MemoryBytes: guessedMemory}, Level: Guessed}
}

// tally sums up observations.
type tally struct {
	seconds, cpus, memory, disk logStat
}

func (t *tally) add(o Observation) {
	t.seconds.add(o.Seconds)
	t.cpus.add(o.CPUSeconds / o.Seconds)
	t.memory.add(float64(o.MemoryBytes))
	t.disk.add(float64(o.DiskBytes))
}

func (t *tally) estimate(level Level, prior float64) Estimate {
	sd := t.seconds.sd(prior)
	e := Estimate{
		Seconds: math.Exp(t.seconds.mean + sd*sd/2), Spread: sd, Level: level,
		Needs: Resources{CPUs: 1, MemoryBytes: guessedMemory, DiskBytes: int64(t.disk.high())},
	}
	if t.cpus.n > 0 {
		e.Needs.CPUs = t.cpus.high()
	}
	if t.memory.n > 0 {
		e.Needs.MemoryBytes = int64(t.memory.high())
	}
	return e
}

// logStat is mean and variance of logarithms, in which later values weigh more.
// Values of 0 are not known, and not counted.
type logStat struct {
	n        int
	mean     float64
	variance float64
	max      float64
}

func (s *logStat) add(x float64) {
	if !(x > 0) || math.IsInf(x, 0) {
		return
	}
	s.n++
	s.max = max(s.max, x)
	weight := 1 / float64(min(s.n, remembered))
	d := math.Log(x) - s.mean
	s.mean += weight * d
	s.variance = (1 - weight) * (s.variance + weight*d*d)
}

// sd is the standard deviation; few values say little about it, so a prior counts
// as two.
func (s *logStat) sd(prior float64) float64 {
	n := float64(min(s.n, remembered))
	return math.Sqrt((n*s.variance + 2*prior*prior) / (n + 2))
}

// high is what will rarely be passed: two standard deviations up, and never above
// the highest there was.
func (s *logStat) high() float64 {
	if s.n == 0 {
		return 0
	}
	return min(s.max, math.Exp(s.mean+2*math.Sqrt(s.variance)))
}
