package datasets

import (
	"reflect"
	"regexp"
	"testing"
)

func fullInstance() Instance {
	return Instance{
		ID: "own__calc-1", Repo: "own/calc", BaseCommit: "b", EnvironmentSetupCommit: "e", Version: "1", Patch: "p", TestPatch: "t",
		ProblemStatement: "s", HintsText: "h", CreatedAt: "c", Difficulty: "d", Language: "py", FailToPass: []string{"f"}, PassToPass: []string{"p"},
		Image: "i", EvalScript: "x", LogParser: "l", EvalType: "fail_only", Dockerfile: "D",
		Recipe: &Recipe{Install: []string{"make"}}, Source: Position{File: "f", Line: 1},
	}
}

// Changing a field changes the hash just when the field decides the verdict.
func TestInstanceHashCoversTheVerdict(t *testing.T) {
	decidesNothing := map[string]bool{"Patch": true, "ProblemStatement": true, "HintsText": true, "CreatedAt": true, "Difficulty": true, "Source": true}
	base := fullInstance()
	want := base.Hash()
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(want) {
		t.Fatalf("hash %q is no SHA-256", want)
	}
	for i := range reflect.TypeFor[Instance]().NumField() {
		changed := fullInstance()
		field := reflect.ValueOf(&changed).Elem().Field(i)
		name := reflect.TypeFor[Instance]().Field(i).Name
		switch field.Interface().(type) {
		case string:
			field.SetString("other")
		case []string:
			field.Set(reflect.ValueOf([]string{"f", "p"}))
		case *Recipe:
			field.Set(reflect.ValueOf((*Recipe)(nil)))
		case Position:
			field.Set(reflect.ValueOf(Position{File: "g"}))
		default:
			t.Fatalf("field %s is of a kind this test does not know: decide whether it belongs into the hash", name)
		}
		if same := changed.Hash() == want; same != decidesNothing[name] {
			t.Errorf("field %s: hash stays the same is %v, want %v", name, same, decidesNothing[name])
		}
		if NewDataset("", "", []Instance{changed}).SHA256 == NewDataset("", "", []Instance{base}).SHA256 && name != "Source" {
			t.Errorf("field %s is not in the dataset's hash", name)
		}
	}
}

func TestInstanceHashOfRecipe(t *testing.T) {
	seen := map[string]string{}
	for name, recipe := range map[string]*Recipe{
		"none": nil, "zero": {}, "whole": {Evaluation: Evaluation{Whole: true}}, "test patch": {Evaluation: Evaluation{TestPatch: "x"}},
		"install": {Install: []string{"a", "b"}}, "joined": {Install: []string{"a b"}}, "pre": {PreInstall: []string{"a", "b"}},
		"timeout": {Evaluation: Evaluation{TimeoutSeconds: 5}},
	} {
		hash := (&Instance{ID: "i", Recipe: recipe}).Hash()
		if other, ok := seen[hash]; ok {
			t.Errorf("recipes %q and %q hash the same", name, other)
		}
		seen[hash] = name
	}
}

// What means the same hashes the same; what is only alike does not.
func TestInstanceHashEquality(t *testing.T) {
	for _, tc := range []struct {
		name string
		a, b Instance
		same bool
	}{
		{"default eval type", Instance{}, Instance{EvalType: "pass_and_fail"}, true},
		{"environment commit", Instance{BaseCommit: "b"}, Instance{BaseCommit: "b", EnvironmentSetupCommit: "b"}, true},
		{"nil and no tests", Instance{}, Instance{FailToPass: []string{}}, true},
		{"fields run together", Instance{ID: "ab", Repo: "c"}, Instance{ID: "a", Repo: "bc"}, false},
		{"lists run together", Instance{FailToPass: []string{"a", "b"}}, Instance{FailToPass: []string{"ab"}}, false},
		{"from one list to the other", Instance{FailToPass: []string{"a"}}, Instance{PassToPass: []string{"a"}}, false},
	} {
		if same := tc.a.Hash() == tc.b.Hash(); same != tc.same {
			t.Errorf("%s: equal is %v, want %v", tc.name, same, tc.same)
		}
	}
}
