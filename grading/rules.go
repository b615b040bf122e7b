package grading

import (
	"fmt"
	"strings"

	"github.com/evalrun/evalrun/grading/logparse"
)

// Rules names a rule set. It is recorded in every report, because the same log
// can have another verdict under other rules.
type Rules string

const (
	// SWEBench5 is what swebench 5.0.2 does: a skipped FAIL_TO_PASS test fails, a
	// skipped PASS_TO_PASS test is kept, ids that the dataset cut short inside a
	// parameter match by prefix, an empty log needs a sign that tests ran, and a
	// test command that failed must have a failing test in its log.
	SWEBench5 Rules = "swebench-5"
	// SWEBench41 is what swebench 4.1.0 does: skipped tests count neither way,
	// ids match exactly, and no cross-checks.
	SWEBench41 Rules = "swebench-4.1"
	// Strict is SWEBench5 without its tolerance: ids match exactly, a test without
	// a known status never passes (fail-only rows included), results count only
	// inside the markers, and a row without FAIL_TO_PASS cannot be resolved.
	Strict Rules = "strict"
)

// DefaultRules is used where none are named.
const DefaultRules = SWEBench5

// AllRules returns every rule set, the default first.
func AllRules() []Rules { return []Rules{SWEBench5, SWEBench41, Strict} }

// ParseRules finds a rule set by name; "" is the default.
func ParseRules(name string) (Rules, error) {
	if name == "" {
		return DefaultRules, nil
	}
	var known []string
	for _, r := range AllRules() {
		if string(r) == name {
			return r, nil
		}
		known = append(known, string(r))
	}
	return "", fmt.Errorf("no rule set is called %q; use one of %s", name, strings.Join(known, ", "))
}

// rulebook is what a rule set decides.
type rulebook struct {
	name         Rules
	edition      logparse.Edition
	cutIDs       bool // ids cut inside a parameter match by prefix
	skippedFails bool // a skipped FAIL_TO_PASS test is a failure
	skippedKept  bool // a skipped PASS_TO_PASS test is a success
	oddFails     bool // a status of no known word is a failure, not "neither"
	absentPasses bool // fail-only rows: what the log does not show has passed
	wholeLog     bool // an empty region falls back to the whole log
	evidence     bool // no status at all needs a sign that a suite ran
	crossCheck   bool // a failed test command must show a failed test
	needsTests   bool // a row without FAIL_TO_PASS is not resolved
}

func (r Rules) book() rulebook {
	switch r {
	case SWEBench41:
		return rulebook{name: r, edition: logparse.V41, absentPasses: true, wholeLog: true}
	case Strict:
		return rulebook{name: r, skippedFails: true, skippedKept: true, oddFails: true, evidence: true, crossCheck: true, needsTests: true}
	}
	// An unknown name cannot come from ParseRules; it gets the default and says so.
	return rulebook{name: SWEBench5, cutIDs: true, skippedFails: true, skippedKept: true,
		absentPasses: true, wholeLog: true, evidence: true, crossCheck: true}
}

// failOnlyRepos are those whose logs show failures only, in the classic harness;
// the second group joined after release 4.1. 5.x rows say it themselves.
var failOnlyRepos = map[string]bool{
	"chartjs/chart.js": true, "processing/p5.js": true, "markedjs/marked": true,
	"bpmn-io/bpmn-js": false, "openlayers/openlayers": false, "eslint/eslint": false,
}

// FailOnlyRepo reports whether rows of this repository ("owner/name") that do not
// have an eval_type are fail-only under the rules.
func FailOnlyRepo(rules Rules, repo string) bool {
	always, known := failOnlyRepos[strings.ToLower(repo)]
	return known && (always || rules != SWEBench41)
}
