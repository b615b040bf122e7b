package grading

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// StructuredKind is the report to be had from the runner behind a parser.
type StructuredKind string

const (
	NoStructured StructuredKind = ""
	PytestJUnit  StructuredKind = "junit"   // PYTEST_ADDOPTS=--junitxml=FILE
	GoJSON       StructuredKind = "go-json" // GOFLAGS=-json
	JestJSON     StructuredKind = "jest-json"
	VitestJSON   StructuredKind = "vitest-json"
	PHPUnitJUnit StructuredKind = "phpunit-junit"
	RSpecJSON    StructuredKind = "rspec-json"
	CargoLog     StructuredKind = "cargo-log"    // libtest's --logfile
	MavenJUnit   StructuredKind = "maven-junit"  // surefire's reports under a name of ours
	GradleJUnit  StructuredKind = "gradle-junit" // JUnit XML in a folder of ours
	AntJUnit     StructuredKind = "ant-junit"    // a formatter more for <junit>
	KarmaJSON    StructuredKind = "karma-json"   // of a listener of ours, too
	MochaJSON    StructuredKind = "mocha-json"   // of a listener of ours
)

// StructuredOf says which report a parser's runner can be asked for in the tests of
// a repository.
func StructuredOf(parser, repo string) StructuredKind {
	switch {
	case repo == "pytest-dev/pytest":
		return NoStructured // its tests run pytest themselves, with what the environment asks for
	case family(parser) == "pytest":
		return PytestJUnit
	}
	switch parser {
	case "parse_log_gotest":
		return GoJSON
	case "parse_log_jest":
		return JestJSON
	case "parse_log_vitest":
		return VitestJSON
	case "parse_log_phpunit":
		return PHPUnitJUnit
	case "parse_log_rspec_transformed_json":
		return RSpecJSON
	case "parse_log_cargo":
		return CargoLog
	case "parse_log_maven":
		return MavenJUnit
	case "parse_log_karma":
		return KarmaJSON
	case "parse_log_ant":
		return AntJUnit
	case "parse_log_gradle_custom":
		return GradleJUnit
	case "parse_log_tap":
		return MochaJSON // where the command is mocha's: others print TAP, too
	}
	return NoStructured
}

// Format is the form a report is written in, as the ending of its name.
func (k StructuredKind) Format() string {
	switch k {
	case PytestJUnit, PHPUnitJUnit, MavenJUnit, GradleJUnit, AntJUnit:
		return "xml"
	case CargoLog:
		return "txt"
	}
	return "json"
}

// ReadStructured reads a report of a kind that is a file of its own.
func ReadStructured(kind StructuredKind, r io.Reader) (Structured, error) {
	switch kind {
	case PytestJUnit, PHPUnitJUnit, AntJUnit:
		return ReadJUnit(r)
	case JestJSON, VitestJSON:
		return readJest(kind, r)
	case RSpecJSON:
		return readRSpec(r)
	case CargoLog:
		return readCargo(r)
	case MavenJUnit:
		return readMaven(r)
	case GradleJUnit:
		return readGradle(r)
	case MochaJSON:
		return readTitles(r, mochaName)
	case KarmaJSON:
		return readTitles(r, firstLine)
	}
	return nil, fmt.Errorf("no report %q is known", kind)
}

// readJest reads what jest --json and vitest's reporter of the same name write. A
// log of jest has the titles of tests alone, so those of one title count as one, and
// it has passed where one of them has: what is not known is no contradiction.
func readJest(kind StructuredKind, r io.Reader) (Structured, error) {
	var in struct {
		TestResults []struct {
			AssertionResults []struct {
				AncestorTitles []string
				Title          string
				Status         string
			}
		}
	}
	if err := json.NewDecoder(r).Decode(&in); err != nil {
		return nil, fmt.Errorf("not a report of jest or vitest: %w", err)
	}
	found := Structured{}
	for _, file := range in.TestResults {
		for _, c := range file.AssertionResults {
			name := []string{c.Title}
			if kind == VitestJSON {
				name = append(slices.DeleteFunc(c.AncestorTitles, func(s string) bool { return s == "" }), c.Title)
			}
			found.addBest(firstLine(strings.Join(name, " > ")), jestStatus(c.Status))
		}
	}
	return found, nil
}

func jestStatus(word string) Status {
	switch word {
	case "passed":
		return Passed
	case "failed":
		return Failed
	}
	return Skipped // pending, skipped, todo, disabled
}

// firstLine is what a line of a log has of a title.
func firstLine(title string) string {
	title, _, _ = strings.Cut(strings.TrimSpace(title), "\n")
	return strings.TrimSpace(title)
}

func (s Structured) addBest(name string, status Status) {
	better := map[Status]int{Passed: 3, Failed: 2, Error: 1, Skipped: 0}
	if old, ok := s[name]; !ok || better[status] > better[old] {
		s[name] = status
	}
}

// readRSpec reads what rspec --format json writes. Names are not the log's: those
// go through a filter of the test command.
func readRSpec(r io.Reader) (Structured, error) {
	var in struct {
		Examples []struct {
			ID     string
			Status string
		}
	}
	if err := json.NewDecoder(r).Decode(&in); err != nil {
		return nil, fmt.Errorf("not a report of rspec: %w", err)
	}
	found := Structured{}
	for i, c := range in.Examples {
		found.add(fmt.Sprintf("%s %d", c.ID, i), jestStatus(c.Status))
	}
	return found, nil
}

// counted are reports whose names cannot be told from those in the log: only how
// many tests passed and failed can be compared.
func (k StructuredKind) counted() bool { return k == PHPUnitJUnit || k == RSpecJSON }

// crossCount compares how many passed: a log that shows more than the runner counts
// has lines of somebody else. What failed is no question of this: runners call risky
// or slow tests errors that a log marks otherwise.
func crossCount(report Report, cases Structured) []Doubt {
	inLog := 0
	for _, status := range report.Statuses.All() {
		if status == Passed {
			inLog++
		}
	}
	return moreThan(cases, inLog)
}

// moreThan is a doubt where so many have passed in the log, and fewer in the report.
func moreThan(cases Structured, inLog int) []Doubt {
	passed := 0
	for _, status := range cases {
		if status == Passed {
			passed++
		}
	}
	if inLog <= passed {
		return nil
	}
	return []Doubt{{CheckReport, fmt.Sprintf("%d tests have passed in the log, %d in the runner's report", inLog, passed)}}
}

// structuredName is how a report calls a test of the log; false where it cannot be
// told.
func structuredName(kind StructuredKind, id string) (string, bool) {
	switch kind {
	case PytestJUnit:
		return pytestName(id), true
	case VitestJSON: // the file stands in front; a line of a file alone is no test's
		_, name, ok := strings.Cut(id, " > ")
		return firstLine(name), ok
	case JestJSON:
		return firstLine(id), true
	case MochaJSON: // behind a directive stands what is not of the title
		return mochaName(id), !strings.Contains(id, " # ")
	case MavenJUnit: // one pattern may be many tests
		return id, !strings.ContainsAny(id, "*?,+!%[")
	case AntJUnit:
		return antName(id)
	}
	return id, true
}

// pytestName is pytest's rule: folders and classes with dots, parameters as they are.
func pytestName(id string) string {
	address, parameters, _ := strings.Cut(id, "[")
	parts := strings.Split(address, "::")
	parts[0] = strings.TrimSuffix(strings.ReplaceAll(parts[0], "/", "."), ".py")
	last := len(parts) - 1
	name := parts[last]
	if len(parameters) > 0 || strings.HasSuffix(id, "[") {
		name += "[" + parameters
	}
	return strings.Join(parts[:last], ".") + "::" + name
}

// Merge adds the results of another run of the runner: a test that one has skipped
// has run in the other.
func (s Structured) Merge(other Structured) {
	for name, status := range other {
		s.addRun(name, status)
	}
}

func (s Structured) addRun(name string, status Status) {
	worse := map[Status]int{Skipped: 0, Passed: 1, Failed: 2, Error: 3}
	if old, ok := s[name]; !ok || worse[status] > worse[old] {
		s[name] = status
	}
}
