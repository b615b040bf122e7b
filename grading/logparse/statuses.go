package logparse

import (
	"bytes"
	"encoding/json"
	"iter"
	"strings"
)

// Status is what a log said of one test. Parsers of the pytest family take the
// word as it stands in the log, so values other than the constants occur.
type Status string

// The statuses that mean something to grading.
const (
	Passed  Status = "PASSED"
	Failed  Status = "FAILED"
	Skipped Status = "SKIPPED"
	Error   Status = "ERROR"
	XFail   Status = "XFAIL"
)

// Statuses holds the status of each test, in the order in which the tests first
// appeared in the log. The order matters to one grading rule (cut ids), and to
// people who read the output. The zero value is empty and ready to use.
type Statuses struct {
	index  map[string]int
	names  []string
	values []Status
}

// StatusesOf makes Statuses of name, status pairs in the given order.
func StatusesOf(pairs ...string) Statuses {
	var s Statuses
	for i := 0; i+1 < len(pairs); i += 2 {
		s.Set(pairs[i], Status(pairs[i+1]))
	}
	return s
}

// Set records a status; a later one for the same name replaces the earlier.
// The name is copied, so that statuses do not keep a whole log in memory.
func (s *Statuses) Set(name string, status Status) {
	status = intern(status)
	if i, ok := s.index[name]; ok {
		s.values[i] = status
		return
	}
	if s.index == nil {
		s.index = make(map[string]int)
	}
	name = strings.Clone(name)
	s.index[name] = len(s.names)
	s.names = append(s.names, name)
	s.values = append(s.values, status)
}

func intern(s Status) Status {
	switch s {
	case Passed:
		return Passed
	case Failed:
		return Failed
	case Skipped:
		return Skipped
	case Error:
		return Error
	case XFail:
		return XFail
	}
	return Status(strings.Clone(string(s)))
}

// Get returns the status of a test and whether the log had one.
func (s Statuses) Get(name string) (Status, bool) {
	i, ok := s.index[name]
	if !ok {
		return "", false
	}
	return s.values[i], true
}

// Len returns the number of tests.
func (s Statuses) Len() int { return len(s.names) }

// At returns the i-th test in order of first appearance.
func (s Statuses) At(i int) (string, Status) { return s.names[i], s.values[i] }

// All yields every test in order of first appearance.
func (s Statuses) All() iter.Seq2[string, Status] {
	return func(yield func(string, Status) bool) {
		for i, name := range s.names {
			if !yield(name, s.values[i]) {
				return
			}
		}
	}
}

// Map returns a copy without order.
func (s Statuses) Map() map[string]Status {
	m := make(map[string]Status, len(s.names))
	for name, status := range s.All() {
		m[name] = status
	}
	return m
}

// MarshalJSON writes an object whose keys keep the order of the log.
func (s Statuses) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	write := func(v string) error {
		if err := enc.Encode(v); err != nil {
			return err
		}
		buf.Truncate(buf.Len() - 1) // Encode ends every value with a newline
		return nil
	}
	buf.WriteByte('{')
	for i, name := range s.names {
		if i > 0 {
			buf.WriteByte(',')
		}
		if err := write(name); err != nil {
			return nil, err
		}
		buf.WriteByte(':')
		if err := write(string(s.values[i])); err != nil {
			return nil, err
		}
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}
