// Package lint finds the rows of a dataset that cannot be graded as they mean to
// be: no test to show success, ids no log parser can produce, patches that are no
// patches. It starts nothing and reads rows only.
//
// It must not know where rows come from, how they are run, or how its findings are
// shown.
package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/datasets/swebench"
	"github.com/evalrun/evalrun/grading/logparse"
	"github.com/evalrun/evalrun/internal/patch"
)

// Kind names one kind of fault.
type Kind string

const (
	BadRow          Kind = "bad-row"            // the row could not be read
	EmptyFailToPass Kind = "empty-fail-to-pass" // nothing can show that a patch works
	UnmatchableID   Kind = "unmatchable-id"     // the row's log parser can never give this id
	CutID           Kind = "cut-id"             // cut inside a parameter: more "[" than "]"
	RepeatedID      Kind = "repeated-id"        // twice in a list, or in both
	RefusedReset    Kind = "refused-reset"      // git refuses the script's reset of the test files
	DuplicateRow    Kind = "duplicate-row"      // the same task as another row
	BadPatch        Kind = "bad-patch"          // the gold patch or the test patch does not parse
	UnknownParser   Kind = "unknown-parser"     // no log parser, or none of this name
	NoRecipe        Kind = "no-recipe"          // neither the row nor the facts say how to run it
)

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{BadRow, EmptyFailToPass, UnmatchableID, CutID, RepeatedID, RefusedReset, DuplicateRow, BadPatch, UnknownParser, NoRecipe}
}

// Finding is one fault of one row.
type Finding struct {
	InstanceID string `json:"instance_id"`
	Kind       Kind   `json:"kind"`
	Detail     string `json:"detail"`
	File       string `json:"file"`
	Line       int    `json:"line,omitempty"`
}

// repository is owner/name, as code hosts allow them.
var repository = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*/[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*$`)

// Rows finds the faults of all rows, in the order of the rows.
func Rows(rows []datasets.Instance) []Finding {
	var out []Finding
	first := map[[4]string]string{}
	for i := range rows {
		inst := &rows[i]
		add := func(kind Kind, detail string) {
			out = append(out, Finding{InstanceID: inst.ID, Kind: kind, Detail: detail, File: inst.Source.File, Line: inst.Source.Line})
		}
		tests(inst, add)
		if !repository.MatchString(inst.Repo) {
			add(BadRow, fmt.Sprintf("repo is %q: want owner/name", inst.Repo))
		}
		if strings.TrimSpace(inst.TestPatch) == "" && inst.EvalScript == "" && inst.Recipe == nil {
			add(BadPatch, "test_patch is empty, and no script brings the hidden tests")
		}
		for _, p := range []struct{ column, text string }{{"patch", inst.Patch}, {"test_patch", inst.TestPatch}} {
			if p.column == "test_patch" && strings.TrimSpace(p.text) == "" {
				continue // the tests are there already
			}
			if why := badPatch(p.text); why != "" {
				add(BadPatch, p.column+": "+why)
			}
		}
		for _, reset := range swebench.RefusedResets(inst) {
			add(RefusedReset, reset)
		}
		key := [4]string{inst.Repo, inst.BaseCommit, inst.Patch, inst.TestPatch}
		if other, twice := first[key]; twice {
			add(DuplicateRow, "repository, commit and both patches are those of "+other)
		} else {
			first[key] = inst.ID
		}
	}
	return out
}

// Problems turns what the reader of a dataset could not take into findings.
func Problems(problems datasets.Problems) []Finding {
	var out []Finding
	for _, p := range problems.Fatal() {
		kind := BadRow
		if strings.Contains(p.Reason, "is a duplicate of") {
			kind = DuplicateRow
		}
		out = append(out, Finding{InstanceID: p.InstanceID, Kind: kind, Detail: p.Reason, File: p.File, Line: p.Line})
	}
	return out
}

func tests(inst *datasets.Instance, add func(Kind, string)) {
	if len(inst.FailToPass) == 0 {
		add(EmptyFailToPass, "FAIL_TO_PASS is empty: nothing can show that a patch works")
	}
	for _, id := range repeated(inst) {
		add(RepeatedID, id)
	}
	recipe, err := swebench.Derive(inst)
	if err != nil {
		add(NoRecipe, err.Error())
		return
	}
	parser := recipe.Evaluation.LogParser
	if !logparse.Known(parser) {
		add(UnknownParser, fmt.Sprintf("no log parser is called %q", parser))
		return
	}
	failOnly := recipe.Evaluation.EvalType == "fail_only"
	in := logparse.Context{Repo: inst.Repo, Version: inst.Version, InstanceID: inst.ID}
	for _, list := range []struct {
		name string
		ids  []string
	}{{"FAIL_TO_PASS", inst.FailToPass}, {"PASS_TO_PASS", inst.PassToPass}} {
		for _, id := range list.ids {
			switch {
			case Cut(id):
				add(CutID, fmt.Sprintf("%s %q", list.name, id))
			case !failOnly && !Matchable(parser, in, id):
				add(UnmatchableID, fmt.Sprintf("%s %q: %s never gives this id", list.name, id, parser))
			}
		}
	}
}

// Cut reports whether an id was cut inside a parameter.
func Cut(id string) bool { return strings.Count(id, "[") > strings.Count(id, "]") }

func repeated(inst *datasets.Instance) []string {
	var out []string
	in := map[string]string{}
	for _, list := range []struct {
		name string
		ids  []string
	}{{"FAIL_TO_PASS", inst.FailToPass}, {"PASS_TO_PASS", inst.PassToPass}} {
		for _, id := range list.ids {
			switch before := in[id]; before {
			case "":
				in[id] = list.name
			case list.name:
				out = append(out, fmt.Sprintf("%s has %q twice", list.name, id))
			default:
				out = append(out, fmt.Sprintf("%q is in both lists", id))
			}
		}
	}
	return out
}

// harmless are problems of a patch that evalrun repairs before applying it, and
// whose repair is known to be right.
var harmless = []string{"the last line has no newline"}

// badPatch says what is wrong with a patch; "" if nothing is.
func badPatch(text string) string {
	_, problems := patch.Parse(text)
	for _, p := range problems {
		if !slices.Contains(harmless, p.Reason) {
			return p.String()
		}
	}
	return ""
}
