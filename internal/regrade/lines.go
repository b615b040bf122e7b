package regrade

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
	"github.com/evalrun/evalrun/reports"
)

// Line is the answer to one line of a file of logs. Report is the official
// report.json of the log; null where there is no row to grade it by.
type Line struct {
	InstanceID string            `json:"instance_id"`
	Found      bool              `json:"found"`
	StatusMap  logparse.Statuses `json:"status_map"` // in the order of the log
	Resolved   bool              `json:"resolved"`
	Report     json.RawMessage   `json:"report"`
	Outcome    grading.Outcome   `json:"outcome"`

	Reason     string      `json:"-"`
	Difference *Difference `json:"-"`
	Err        error       `json:"-"` // why the line could not be graded
}

// ErrNotSelected is of a line that was not asked for.
var ErrNotSelected = errors.New("the instance is not selected")

// maxLine bounds one line: a file without newlines must not end up in memory.
const maxLine = 1 << 30

// Lines grades a file of one JSON object a line, {"instance_id", "log",
// "encoding"}, where the encoding is utf-8 or base64. emit gets one answer for each
// line that is not blank, in their order; several lines are worked on at a time.
func Lines(ctx context.Context, o Options, r io.Reader, lookup func(id string) (*datasets.Instance, error), emit func(Line) error) error {
	ctx, stop := context.WithCancel(ctx)
	type slot struct{ done chan Line }
	order := make(chan slot, o.workers()) // bounds what is held
	read := make(chan error, 1)
	go func() {
		defer close(order)
		free := make(chan struct{}, o.workers())
		read <- eachLine(r, func(number int, text []byte) error {
			s := slot{make(chan Line, 1)}
			select {
			case order <- s:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			free <- struct{}{}
			go func() {
				defer func() { <-free }()
				s.done <- line(o, number, text, lookup)
			}()
			return nil
		})
	}()
	var err error
	for s := range order {
		answer := <-s.done
		if err == nil {
			err = emit(answer)
		}
		if err != nil {
			stop() // and let the others come to their end
		}
	}
	stop()
	if readErr := <-read; err == nil {
		err = readErr
	}
	return err
}

func eachLine(r io.Reader, f func(number int, text []byte) error) error {
	in := bufio.NewReaderSize(r, 1<<20)
	for number := 1; ; number++ {
		var text []byte
		for {
			part, err := in.ReadSlice('\n')
			text = append(text, part...)
			if len(text) > maxLine {
				return fmt.Errorf("line %d: longer than 1 GiB", number)
			}
			if err == nil {
				break
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if len(bytes.TrimSpace(text)) > 0 && errors.Is(err, io.EOF) {
				return f(number, text)
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("line %d: %w", number, err)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if err := f(number, text); err != nil {
			return err
		}
	}
}

// line grades one line.
func line(o Options, number int, text []byte, lookup func(id string) (*datasets.Instance, error)) Line {
	fail := func(id, format string, args ...any) Line {
		err := fmt.Errorf("line %d: "+format, append([]any{number}, args...)...)
		return Line{InstanceID: id, Report: json.RawMessage("null"), Outcome: grading.Ungradeable, Reason: err.Error(), Err: err}
	}
	var in struct {
		InstanceID string  `json:"instance_id"`
		Log        *string `json:"log"`
		Encoding   string  `json:"encoding"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return fail("", "bad JSON: %w", err)
	}
	switch {
	case in.InstanceID == "":
		return fail("", "instance_id is missing")
	case in.Log == nil:
		return fail(in.InstanceID, "%s: log is missing", in.InstanceID)
	}
	log := *in.Log
	switch strings.ToLower(in.Encoding) {
	case "", "utf-8", "utf8":
	case "base64":
		raw, err := base64.StdEncoding.DecodeString(log)
		if err != nil {
			return fail(in.InstanceID, "%s: the log is not base64: %w", in.InstanceID, err)
		}
		log = string(raw)
	default:
		return fail(in.InstanceID, "%s: encoding %q: want utf-8 or base64", in.InstanceID, in.Encoding)
	}
	inst, unknown := lookup(in.InstanceID)
	if unknown != nil {
		// What its tests did can be read all the same.
		inst = &datasets.Instance{ID: in.InstanceID, Repo: RepoOf(in.InstanceID)}
	}
	out := answer(o, log, inst)
	if unknown != nil {
		failed := fail(in.InstanceID, "%s: %w", in.InstanceID, unknown)
		if errors.Is(unknown, ErrNotSelected) {
			failed.Outcome, failed.Err = grading.NotRun, nil // as was asked
		}
		failed.Found, failed.StatusMap = out.Found, out.StatusMap
		return failed
	}
	return out
}

func answer(o Options, log string, inst *datasets.Instance) Line {
	e := evidence{open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(log)), nil }}
	v, err := e.verdict(o.Rules, inst)
	out := Line{InstanceID: inst.ID, Report: json.RawMessage("null"), Found: v.report.Found, Resolved: v.report.Resolved, Outcome: v.outcome, Reason: v.reason, Err: err}
	if v.report.Found {
		out.StatusMap = v.report.Statuses
	}
	a := start(o, Job{Instance: inst})
	a.Outcome, a.Verdict = v.outcome, &v.report
	if data, err := reports.OfficialReport(&a); err == nil {
		out.Report = data
	}
	if o.Against != "" && err == nil {
		if other, err := e.verdict(o.Against, inst); err == nil { // a string can be read
			out.Difference = differ(&a, v, other, inst)
		}
	}
	return out
}

// RepoOf is the repository an instance id is named after: owner__name-123 is of
// owner/name. "" if the id has another form.
func RepoOf(id string) string {
	owner, rest, ok := strings.Cut(id, "__")
	i := strings.LastIndexByte(rest, '-')
	if !ok || i < 0 || !utf8.ValidString(id) {
		return ""
	}
	return owner + "/" + rest[:i]
}
