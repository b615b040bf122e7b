package grading

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
)

// Structured is what a test runner wrote in a form made for programs: a status
// for each test, under the name the report gives it.
type Structured map[string]Status

// maxCases bounds what is read of a report.
const maxCases = 1 << 20

// ReadJUnit reads the JUnit XML that pytest, Maven, Gradle, PHPUnit and others
// write. A test's name is "classname::name"; of several results under one name
// the worst counts. A report that ends in the middle is an error: its runner did
// not come to its end.
func ReadJUnit(r io.Reader) (Structured, error) {
	found := Structured{}
	err := junitCases(r, func(class, name string, status Status) { found.add(class+"::"+name, status) })
	return found, err
}

// junitCases tells of each test of a JUnit report, in its order.
func junitCases(r io.Reader, tell func(class, name string, status Status)) error {
	d := xml.NewDecoder(&tags{r: r})
	d.Strict = true
	var class, name string // of the case being read
	var status Status
	depth, elements, cases := 0, 0, 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			if depth != 0 || elements == 0 {
				return errors.New("the report ends before its last element")
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("not a JUnit report: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return fmt.Errorf("the report's elements are %d deep", depth)
			}
			elements++
			switch t.Name.Local {
			case "testcase":
				class, name, status = attribute(t, "classname"), attribute(t, "name"), Passed
			case "failure":
				status = Failed
			case "error":
				status = Error
			case "skipped":
				status = Skipped
			}
		case xml.EndElement:
			depth--
			if t.Name.Local == "testcase" {
				if cases++; cases > maxCases {
					return fmt.Errorf("the report has more than %d tests", maxCases)
				}
				tell(class, name, status)
			}
		}
	}
}

// What a report may have, so that none fills the memory: elements in each other, and
// bytes from one "<" to the next, which hold all attributes of an element.
const (
	maxDepth = 200
	maxTag   = 8 << 20
)

// tags bounds the elements of an XML text.
type tags struct {
	r    io.Reader
	long int // bytes since the last "<"
}

func (t *tags) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if i := bytes.LastIndexByte(p[:n], '<'); i >= 0 {
		if t.long+bytes.IndexByte(p[:n], '<') > maxTag {
			return 0, fmt.Errorf("an element of more than %d bytes", maxTag)
		}
		t.long = n - i
	} else if t.long += n; t.long > maxTag {
		return 0, fmt.Errorf("an element of more than %d bytes", maxTag)
	}
	return n, err
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// add keeps the worst of a test's results.
func (s Structured) add(name string, status Status) {
	worse := map[Status]int{Passed: 0, Skipped: 1, Failed: 2, Error: 3}
	if old, ok := s[name]; !ok || worse[status] > worse[old] {
		s[name] = status
	}
}

// GoOutput turns the output of go test -json back into the text it stands for,
// and collects the results. Lines that are no events are passed on as they are.
func GoOutput(r io.Reader, w io.Writer) (Structured, error) {
	found := Structured{}
	in := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return found, err
		}
		if werr := found.goLine(line, w); werr != nil {
			return found, werr
		}
		if err != nil {
			return found, nil
		}
	}
}

func (s Structured) goLine(line []byte, w io.Writer) error {
	var e struct{ Action, Package, Test, Output string }
	if !bytes.HasPrefix(line, []byte(`{"`)) || json.Unmarshal(line, &e) != nil || e.Action == "" {
		_, err := w.Write(line)
		return err
	}
	if e.Test != "" && len(s) < maxCases {
		switch e.Action {
		case "pass":
			s.add(e.Test, Passed)
		case "fail":
			s.add(e.Test, Failed)
		case "skip":
			s.add(e.Test, Skipped)
		}
	}
	_, err := io.WriteString(w, e.Output)
	return err
}

// CrossCheckStructured compares a verdict of resolved with the runner's own
// report: tests of the row that passed in the log and did not in the report, or
// are not in it.
func CrossCheckStructured(kind StructuredKind, want Expectation, report Report, cases Structured) []Doubt {
	switch {
	case !report.Resolved:
		return nil
	case kind.counted():
		return crossCount(report, cases)
	case kind == GradleJUnit:
		return crossGradle(want, report, cases)
	}
	var doubts []Doubt
	for id := range want.passedIn(report) {
		name, ok := structuredName(kind, id)
		if !ok {
			continue
		}
		if kind == KarmaJSON {
			name = cases.titleIn(id)
		}
		switch got, ok := cases[name]; {
		case !ok:
			doubts = append(doubts, unreported(id))
		case got == Failed || got == Error || got == Skipped && kind == MavenJUnit && slices.Contains(want.FailToPass, id):
			// Maven calls a build without a test that ran a success.
			doubts = append(doubts, reportedAs(id, got))
		}
		if len(doubts) == maxDoubts {
			break
		}
	}
	return doubts
}

// maxDoubts is how many a report gives: more say nothing more.
const maxDoubts = 100

func unreported(id string) Doubt {
	return Doubt{CheckReport, id + " passed in the log and is not in the runner's report"}
}

func reportedAs(id string, status Status) Doubt {
	return Doubt{CheckReport, fmt.Sprintf("%s passed in the log and is %s in the runner's report", id, status)}
}

// passedIn are the tests of the row that passed in the log: others, such as ids that
// were cut, the log does not have under that name either.
func (e Expectation) passedIn(report Report) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, list := range [][]string{e.FailToPass, e.PassToPass} {
			for _, id := range list {
				if status, ok := report.Statuses.Get(id); ok && status == Passed && !yield(id) {
					return
				}
			}
		}
	}
}
