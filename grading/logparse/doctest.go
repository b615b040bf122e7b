package logparse

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// doctest reads the XML reporter of the C++ framework doctest. Every subcase of a
// test case, however deep, is a test; it passes if no expression below it failed.
func doctest(_ Context, text string, out *Result) {
	start := strings.Index(text, "<doctest")
	if start < 0 {
		return
	}
	text = text[start:]
	const closing = "</doctest>"
	end := strings.Index(text, closing)
	if end < 0 {
		out.complain("the XML report has no end")
		end = len(text)
	} else {
		end += len(closing)
	}
	var r doctestReader
	if err := r.read(text[:end]); err != nil {
		out.complain("the XML report is broken: %v", err)
	}
	for _, c := range r.cases {
		for _, s := range c.subcases {
			status := Passed
			if s.failed {
				status = Failed
			}
			out.setIn([]string{c.name}, " > ", s.name, status)
		}
	}
}

type (
	doctestCase struct {
		name     string
		subcases []*doctestSubcase
	}
	doctestSubcase struct {
		name   string
		failed bool
	}
)

type doctestReader struct {
	cases     []*doctestCase
	openCases []*doctestCase
	open      []*doctestSubcase // open subcases whose failure is not yet known
	depth     []string          // names of the open elements
	ignored   int               // open test cases nested too deep
}

// maxNestedCases bounds the work that test cases inside each other can make.
const maxNestedCases = 32

func (r *doctestReader) read(text string) error {
	dec := xml.NewDecoder(strings.NewReader(text))
	for {
		tok, err := dec.RawToken()
		switch {
		case errors.Is(err, io.EOF) && len(r.depth) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("element <" + r.depth[len(r.depth)-1] + "> is not closed")
		case err != nil:
			return err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			r.start(tok)
		case xml.EndElement:
			if n := len(r.depth); n == 0 || r.depth[n-1] != fullName(tok.Name) {
				return errors.New("</" + fullName(tok.Name) + "> closes nothing")
			}
			r.end()
		}
	}
}

func fullName(n xml.Name) string {
	if n.Space == "" {
		return n.Local
	}
	return n.Space + ":" + n.Local
}

func (r *doctestReader) start(e xml.StartElement) {
	name := fullName(e.Name)
	root := len(r.depth) == 0
	r.depth = append(r.depth, name)
	if root {
		return
	}
	switch name {
	case "TestCase":
		c := &doctestCase{name: attribute(e, "name", "None")}
		if len(r.openCases) == maxNestedCases {
			r.ignored++ // no real report nests test cases at all
			return
		}
		r.cases = append(r.cases, c)
		r.openCases = append(r.openCases, c)
	case "SubCase":
		s := &doctestSubcase{name: attribute(e, "name", "None")}
		for _, c := range r.openCases {
			c.subcases = append(c.subcases, s)
		}
		r.open = append(r.open, s)
	case "Expression":
		if attribute(e, "success", "") != "true" {
			// From the innermost out: what has failed already has failed parents.
			for i := len(r.open) - 1; i >= 0 && !r.open[i].failed; i-- {
				r.open[i].failed = true
			}
		}
	}
}

func (r *doctestReader) end() {
	last := len(r.depth) - 1
	name := r.depth[last]
	r.depth = r.depth[:last]
	switch {
	case name == "TestCase" && r.ignored > 0:
		r.ignored--
	case name == "TestCase" && len(r.openCases) > 0:
		r.openCases = r.openCases[:len(r.openCases)-1]
	case name == "SubCase" && len(r.open) > 0:
		r.open = r.open[:len(r.open)-1]
	}
}

func attribute(e xml.StartElement, name, absent string) string {
	for _, a := range e.Attr {
		if fullName(a.Name) == name {
			return attributeSpace.Replace(a.Value)
		}
	}
	return absent
}

// attributeSpace does what XML asks of white space in attributes.
var attributeSpace = strings.NewReplacer("\n", " ", "\r", " ", "\t", " ")
