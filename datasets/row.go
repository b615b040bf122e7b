package datasets

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// column ties a column of text to the field it fills.
type column struct {
	name  string
	field func(*Instance) *string
	// info columns describe an instance but decide nothing: what cannot be read
	// there is a warning.
	info bool
	// number columns may hold a number where a string is meant: version 3.1.
	number bool
}

var columns = []column{
	{name: "instance_id", field: func(i *Instance) *string { return &i.ID }},
	{name: "repo", field: func(i *Instance) *string { return &i.Repo }},
	{name: "base_commit", field: func(i *Instance) *string { return &i.BaseCommit }},
	{name: "environment_setup_commit", field: func(i *Instance) *string { return &i.EnvironmentSetupCommit }},
	{name: "version", field: func(i *Instance) *string { return &i.Version }, number: true},
	{name: "patch", field: func(i *Instance) *string { return &i.Patch }},
	{name: "test_patch", field: func(i *Instance) *string { return &i.TestPatch }},
	{name: "problem_statement", field: func(i *Instance) *string { return &i.ProblemStatement }, info: true},
	{name: "hints_text", field: func(i *Instance) *string { return &i.HintsText }, info: true},
	{name: "created_at", field: func(i *Instance) *string { return &i.CreatedAt }, info: true, number: true},
	{name: "difficulty", field: func(i *Instance) *string { return &i.Difficulty }, info: true, number: true},
	{name: "language", field: func(i *Instance) *string { return &i.Language }},
	{name: "image", field: func(i *Instance) *string { return &i.Image }},
	{name: "eval_script", field: func(i *Instance) *string { return &i.EvalScript }},
	{name: "log_parser", field: func(i *Instance) *string { return &i.LogParser }},
	{name: "eval_type", field: func(i *Instance) *string { return &i.EvalType }},
	{name: "dockerfile", field: func(i *Instance) *string { return &i.Dockerfile }},
}

var listColumns = []struct {
	name  string
	field func(*Instance) *[]string
}{
	{"FAIL_TO_PASS", func(i *Instance) *[]string { return &i.FailToPass }},
	{"PASS_TO_PASS", func(i *Instance) *[]string { return &i.PassToPass }},
}

const recipeColumn = "evalrun"

// columnNames maps each known column, in lower case, to its right spelling.
func columnNames() map[string]string {
	names := map[string]string{recipeColumn: recipeColumn}
	for _, c := range columns {
		names[c.name] = c.name
	}
	for _, c := range listColumns {
		names[strings.ToLower(c.name)] = c.name
	}
	return names
}

// rowReader collects the instances of one dataset from rows of any format.
type rowReader struct {
	instances []Instance
	problems  Problems
	names     map[string]string
	byID      map[string]Position
	byFold    map[string]int // lower-case id -> index in instances
	spelling  map[string]bool
}

func newRowReader() *rowReader {
	return &rowReader{names: columnNames(), byID: map[string]Position{}, byFold: map[string]int{}, spelling: map[string]bool{}}
}

// add decodes one row. key is its key in an object by id, else "". Faulty rows
// are noted; rows without a usable or with a second id are left out.
func (r *rowReader) add(cells map[string]any, pos Position, key string) {
	inst := Instance{Source: pos}
	id, idErr := cellText(cells["instance_id"])
	if id == "" {
		id = key
	}
	r.checkSpelling(cells, pos)
	for _, c := range columns {
		text, err := cellText(cells[c.name])
		if raw, ok := cells[c.name].(json.RawMessage); ok && !c.number && kindOf(raw) == "a number" {
			text, err = "", errors.New("is a number, not a string")
		}
		*c.field(&inst) = text
		if err != nil && c.info {
			r.problems.warn(pos, id, inColumn(c.name, err).reason, "it decides nothing; correct it if you need it")
		} else if err != nil {
			r.problems.fatalErr(pos, id, inColumn(c.name, err))
		}
	}
	listsRead := true
	for _, c := range listColumns {
		names, err := cellList(cells[c.name])
		*c.field(&inst) = names
		if err != nil {
			listsRead = false
			r.problems.fatalErr(pos, id, inColumn(c.name, err))
		}
	}
	recipe, err := cellRecipe(cells[recipeColumn])
	inst.Recipe = recipe
	if err != nil {
		r.problems.fatalErr(pos, id, inColumn(recipeColumn, err))
	}
	if listsRead && inst.Tests() == 0 {
		r.problems.warn(pos, id, "FAIL_TO_PASS and PASS_TO_PASS are both empty: there is nothing to grade", "give the tests, or leave the instance out")
	}
	if idErr == nil {
		r.keep(inst, id, key)
	}
}

func inColumn(name string, err error) *fault {
	return prefixed("column "+name+" ", err, "correct the row")
}

// keep checks a decoded row and adds it.
func (r *rowReader) keep(inst Instance, id, key string) {
	pos := inst.Source
	if key != "" && inst.ID != "" && inst.ID != key {
		r.problems.fatal(pos, id, fmt.Sprintf("stands under the key %q of the object by id", key), "make key and instance_id equal")
	}
	inst.ID = id
	if err := checkID(id); err != nil {
		r.problems.fatalErr(pos, id, err)
		return
	}
	if first, ok := r.byID[id]; ok {
		r.problems.fatal(pos, id, "instance_id is a duplicate of "+first.String(), "remove one of the two rows")
		return
	}
	if other, ok := r.byFold[strings.ToLower(id)]; ok {
		o := r.instances[other]
		r.problems.warn(pos, id, fmt.Sprintf("differs only in case from %s at %s", o.ID, o.Source), "image names and some file systems ignore case; better rename one")
	} else {
		r.byFold[strings.ToLower(id)] = len(r.instances)
	}
	r.byID[id] = pos
	r.check(&inst)
	r.instances = append(r.instances, inst)
}

var commitID = regexp.MustCompile(`^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$`)

func (r *rowReader) check(inst *Instance) {
	pos, id := inst.Source, inst.ID
	ownImage := inst.Image != "" || inst.Dockerfile != ""
	if inst.Repo == "" && !ownImage {
		r.problems.fatal(pos, id, "column repo is missing or empty", "name the repository as owner/name")
	}
	switch commit := inst.BaseCommit; {
	case commit == "" && !ownImage:
		r.problems.fatal(pos, id, "column base_commit is missing or empty", "give the full commit id the patch applies to")
	case commit != "" && !commitID.MatchString(commit):
		r.problems.fatal(pos, id, fmt.Sprintf("base_commit %.80q is no full commit id", commit), "write all 40 (or 64) hexadecimal digits")
	}
	if commit := inst.EnvironmentSetupCommit; commit != "" && !commitID.MatchString(commit) {
		r.problems.fatal(pos, id, fmt.Sprintf("environment_setup_commit %.80q is no full commit id", commit), "write all 40 (or 64) hexadecimal digits, or nothing")
	}
	switch inst.EvalType {
	case "", "pass_and_fail", "fail_only":
	default:
		r.problems.fatal(pos, id, fmt.Sprintf("eval_type %.80q is unknown", inst.EvalType), "use pass_and_fail or fail_only")
	}
}

// maxID leaves room for what is put around an id in file names.
const maxID = 200

// checkID refuses ids that cannot be the name of a folder.
func checkID(id string) error {
	const fix = "use letters, digits and _ - . only"
	switch {
	case id == "":
		return &fault{"instance_id is missing or empty", "every record needs instance_id; in an object by id every value is an object"}
	case len(id) > maxID:
		return &fault{fmt.Sprintf("instance_id has %d bytes, more than %d", len(id), maxID), "it becomes a file name; shorten it"}
	case id == "." || id == "..", strings.ContainsAny(id, `/\`):
		return &fault{fmt.Sprintf("instance_id %q is a path", id), fix}
	case strings.IndexFunc(id, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) >= 0:
		return &fault{fmt.Sprintf("instance_id %q holds white space or control characters", id), fix}
	}
	return nil
}

// checkSpelling warns once for each column that is known but for its case:
// fail_to_pass would otherwise be an instance without tests.
func (r *rowReader) checkSpelling(cells map[string]any, pos Position) {
	for name := range cells {
		right, known := r.names[strings.ToLower(name)]
		if !known || right == name || r.spelling[name] {
			continue
		}
		if _, both := cells[right]; both {
			continue
		}
		r.spelling[name] = true
		r.problems.warn(pos, "", fmt.Sprintf("column %q is not read", name), fmt.Sprintf("did you mean %s?", right))
	}
}
