package render

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports/results"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string `xml:"name,attr"`
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	Skipped  int    `xml:"skipped,attr"`
	Time     string `xml:"time,attr"`

	Properties *junitProperties `xml:"properties"` // provenance; nil where it is not known
	Cases      []junitCase      `xml:"testcase"`
}

type junitProperties struct {
	List []junitProperty `xml:"property"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string       `xml:"name,attr"`
	Class   string       `xml:"classname,attr"`
	Time    string       `xml:"time,attr"`
	Skipped *junitReason `xml:"skipped"`
	Error   *junitReason `xml:"error"`
	Failure *junitReason `xml:"failure"`
}

type junitReason struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// JUnit writes a test suite for each set and a test case for each instance: a
// failure where the patch is at fault, an error where something else is, skipped
// where nothing was run.
func JUnit(w io.Writer, sets []*results.Set, facts map[string]results.Facts) error {
	all := junitSuites{Name: "evalrun"}
	for _, s := range sets {
		suite := junitSuite{Name: xmlText(s.Name), Properties: properties(s)}
		total := 0.0
		for i := range s.Items {
			it := &s.Items[i]
			c := junitCase{Name: xmlText(it.ID), Class: xmlText(cmp.Or(results.RepoOf(it, facts[it.ID]), "unknown")), Time: junitTime(it.Seconds)}
			total += max(0, it.Seconds)
			reason := &junitReason{Message: xmlText(cmp.Or(it.Reason, string(it.Outcome))), Type: xmlText(string(it.Outcome)), Text: failedTests(it)}
			switch {
			case it.Resolved():
			case it.Outcome == grading.NotRun:
				reason.Type = "" // the schema has none here
				c.Skipped = reason
				suite.Skipped++
			case it.Outcome.Evaluated():
				c.Failure = reason
				suite.Failures++
			default:
				c.Error = reason
				suite.Errors++
			}
			suite.Cases = append(suite.Cases, c)
		}
		suite.Tests, suite.Time = len(s.Items), junitTime(total)
		all.Tests, all.Failures, all.Errors = all.Tests+suite.Tests, all.Failures+suite.Failures, all.Errors+suite.Errors
		all.Suites = append(all.Suites, suite)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return fmt.Errorf("write JUnit XML: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// properties are the provenance of a run of ours.
func properties(s *results.Set) *junitProperties {
	if s.Record == nil {
		return nil
	}
	p := &junitProperties{}
	for _, row := range Provenance(s.Record)[0].Table.Rows {
		p.List = append(p.List, junitProperty{xmlText(row[0].Text), xmlText(row[1].Text)})
	}
	return p
}

func junitTime(s float64) string {
	if !(s > 0) {
		return "0"
	}
	return strconv.FormatFloat(s, 'f', 3, 64)
}

// failedTests are the tests that kept an instance from being resolved.
func failedTests(it *results.Item) string {
	const most = 50
	var lines []string
	for _, list := range []struct {
		name  string
		tests *results.Tests
	}{{"FAIL_TO_PASS", it.FailToPass}, {"PASS_TO_PASS", it.PassToPass}} {
		if list.tests == nil {
			continue
		}
		for i, t := range list.tests.Failed {
			if i == most {
				lines = append(lines, fmt.Sprintf("%s: and %d more", list.name, len(list.tests.Failed)-most))
				break
			}
			lines = append(lines, list.name+": "+t)
		}
	}
	return xmlText(strings.Join(lines, "\n"))
}

// xmlText leaves out what no XML document may hold, however it is escaped.
func xmlText(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n', r == '\r', r >= 0x20 && r <= 0xd7ff, r >= 0xe000 && r <= 0xfffd && r != utf8.RuneError, r >= 0x10000 && r <= 0x10ffff:
			return r
		}
		return '?'
	}, s)
}
