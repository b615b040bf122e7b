// Package screen reads a model's patch before anything runs: what kind of file
// each change is to, and which of its lines reach for the verdict rather than for
// the bug. It reports, with the lines as evidence; what is done about a finding is
// the policy's to say. It never changes a patch.
//
// It must not know how patches are applied, what a test printed or what a verdict
// is. A clean report is no proof of honesty: whoever wants to cheat can write what
// no rule knows. It is one line of defence, and cheap.
package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/internal/patch"
)

// Level says how bad a finding is, and a report as its worst finding.
type Level string

const (
	Clean      Level = "clean"
	Suspicious Level = "suspicious" // a person should look; honest patches have such lines, too
	Blocked    Level = "blocked"    // the policy does not let the patch run
)

// Report is what is to be said about one patch.
type Report struct {
	Level    Level     `json:"level"`
	Files    []File    `json:"files"`
	Findings []Finding `json:"findings,omitempty"`
	Omitted  int       `json:"omitted,omitempty"` // findings beyond maxFindings
}

// File is one file the patch touches.
type File struct {
	Path    string  `json:"path"`
	Classes []Class `json:"classes"`
	Action  Action  `json:"action"` // what the policy does about it
}

// Finding is one reason to look at a patch.
type Finding struct {
	Rule      string `json:"rule"`
	Level     Level  `json:"level"`
	Path      string `json:"path"`
	Line      int    `json:"line,omitempty"`       // in the file after the patch; 0 when it is about the whole file
	PatchLine int    `json:"patch_line,omitempty"` // in the patch
	Text      string `json:"text,omitempty"`       // of the line, cut
	Why       string `json:"why"`
}

func (f Finding) String() string {
	at := f.Path
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d", f.Path, f.Line)
	}
	return fmt.Sprintf("%s: %s (%s)", at, f.Why, f.Rule)
}

// Revision is raised when a patch could get another report.
const Revision = 3

// maxFindings bounds a report, of each level and of the program and what tests it
// apart, so that none can be hidden behind others: a person reads the first only.
const maxFindings = 100

// Patch screens a patch that has been prepared.
func Patch(p patch.Prepared, policy Policy) Report {
	r, x := draft{Report: Report{Level: Clean, Files: []File{}}}, expressions{}
	for _, f := range p.Files {
		file := File{Path: f.Path(), Classes: classify(x, f)}
		file.Action = policy.action(file, f.Old == f.Path())
		r.Files = append(r.Files, file)
		r.file(f, file)
	}
	for _, u := range p.Unsafe {
		if r.takes(Blocked, true) {
			r.Findings = append(r.Findings, Finding{Rule: "outside", Level: Blocked, Path: u.Path, PatchLine: u.Line, Why: u.Reason})
		}
	}
	for l := range addedLines(x, p) {
		broken(l, func(rule *rule) {
			if level := policy.level(rule.name); r.takes(level, l.ofTests) {
				r.Findings = append(r.Findings, Finding{Rule: rule.name, Level: level, Path: l.path, Line: l.number, PatchLine: l.patchLine, Text: clip(l.text), Why: rule.why})
			}
		})
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(rank(b.Level), rank(a.Level)) })
	return r.Report
}

// draft is a report being written.
type draft struct {
	Report
	kept [levels][2]int // findings, by rank, and whether they are of the tests
}

// takes counts a finding, and reports whether there is room for it. One that the
// policy ignores is clean and left out.
func (r *draft) takes(level Level, ofTests bool) bool {
	if level == Clean {
		return false
	}
	n, of := max(rank(level), 0), 0
	if n > rank(r.Level) {
		r.Level = level
	}
	if ofTests {
		of = 1
	}
	if r.kept[n][of] == maxFindings {
		r.Omitted++
		return false
	}
	r.kept[n][of]++
	return true
}

// ofTests reports whether a file is of the tests, or of what runs them.
func ofTests(classes []Class) bool {
	return slices.Contains(classes, Tests) || slices.ContainsFunc(classes, isInfrastructure)
}

// levels is how many there are.
const levels = 3

func rank(l Level) int { return slices.Index([]Level{Clean, Suspicious, Blocked}, l) }

// Reason is the report in one line, for the record of an attempt.
func (r Report) Reason() string {
	if len(r.Findings) == 0 {
		return ""
	}
	text := r.Findings[0].String()
	if more := len(r.Findings) + r.Omitted - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// With returns the paths for which the policy says to do this.
func (r Report) With(action Action) []string {
	var paths []string
	for _, f := range r.Files {
		if f.Action == action {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

func clip(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 160 {
		s = strings.ToValidUTF8(s[:160], "") + "…"
	}
	return s
}
