package swebench

import (
	"fmt"
	"strings"

	"github.com/evalrun/evalrun/datasets"
)

// Derive says how the images of an instance are made and how its tests are run.
//
// In this order: a row's own recipe is used as it is; a row with an evaluation
// script (5.x) is evaluated by that script; any other row must be one the facts
// know. The environment comes from the facts wherever they know repository and
// version; otherwise at most its language is set.
//
// PreInstall and Install of the result are the lines of one shell script, in
// this order: later lines use what earlier ones set.
func Derive(inst *datasets.Instance) (datasets.Recipe, error) {
	repo, spec, err := lookup(inst.Repo, inst.Version)
	if err != nil {
		return datasets.Recipe{}, instanceError(inst, err)
	}
	if inst.Recipe != nil {
		return ownRecipe(inst, repo)
	}

	recipe := datasets.Recipe{Environment: datasets.Environment{Language: languageOf(inst, repo)}}
	if spec != nil {
		if recipe, err = setUp(inst, repo, spec); err != nil {
			return datasets.Recipe{}, instanceError(inst, err)
		}
	}
	script := inst.EvalScript
	if strings.TrimSpace(script) == "" {
		test, err := testFromFacts(inst, repo, spec)
		if err != nil {
			return datasets.Recipe{}, instanceError(inst, err)
		}
		script = classicScript(inst, repo, spec, test)
	}
	recipe.Evaluation, _ = Split(script)
	if spec == nil {
		// The script is all there is to tell what it needs.
		_, _, locale := liftSystem(strings.Split(recipe.Evaluation.Setup, "\n"))
		addLocale(&recipe.Environment, locale)
	}
	fillGrading(&recipe.Evaluation, inst, repo)
	recipe.Evaluation.Capabilities = Capabilities(inst)
	return recipe, nil
}

// testFromFacts returns the test command of a row without a script, or says why
// there is none and what to do.
func testFromFacts(inst *datasets.Instance, repo *repository, spec *spec) ([]string, error) {
	const advice = `add a column "eval_script" with a script in SWE-bench 5.x format, or a column "evalrun" with a recipe`
	switch {
	case inst.Repo == "":
		return nil, fmt.Errorf("the row names no repository; %s", advice)
	case repo == nil:
		return nil, fmt.Errorf("repository %s (version %q) is not one SWE-bench has facts for, and the row has no evaluation script; %s", inst.Repo, inst.Version, advice)
	case spec == nil:
		return nil, fmt.Errorf("there are no facts for version %q of %s (known: %s), and the row has no evaluation script; correct the version, or %s",
			inst.Version, inst.Repo, strings.Join(repo.versions(), ", "), advice)
	}
	test := testCommand(inst, repo, spec)
	if len(test) == 0 {
		return nil, fmt.Errorf("the facts hold no test command for %s version %q, and the row has no evaluation script; %s", inst.Repo, inst.Version, advice)
	}
	return test, nil
}

func instanceError(inst *datasets.Instance, err error) error {
	if inst.Source.File != "" {
		return fmt.Errorf("%s: instance %s: %w", inst.Source, inst.ID, err)
	}
	return fmt.Errorf("instance %s: %w", inst.ID, err)
}

// ownRecipe completes the recipe a row brings: the test patch, what it touches,
// and the script other tools expect.
func ownRecipe(inst *datasets.Instance, repo *repository) (datasets.Recipe, error) {
	recipe := *inst.Recipe // slices are shared, and only ever replaced below
	eval := &recipe.Evaluation
	switch {
	case strings.TrimSpace(eval.Test) != "":
		eval.TestPatch = inst.TestPatch
		if eval.TestPatch != "" && !strings.HasSuffix(eval.TestPatch, "\n") {
			eval.TestPatch += "\n"
		}
		eval.ResetFiles = appendNew(append([]string{}, eval.ResetFiles...), allPaths(patchedFiles(eval.TestPatch))...)
		eval.Script = recipeScript(inst, *eval)
	case strings.TrimSpace(inst.EvalScript) != "" || strings.TrimSpace(eval.Script) != "":
		script := eval.Script
		if strings.TrimSpace(script) == "" {
			script = inst.EvalScript
		}
		given := *eval
		*eval, _ = Split(script)
		eval.LogParser, eval.EvalType = given.LogParser, given.EvalType
		eval.TimeoutSeconds, eval.MemoryMiB = given.TimeoutSeconds, given.MemoryMiB
	default:
		return datasets.Recipe{}, instanceError(inst, fmt.Errorf(`its recipe (column "evalrun") names no test command; set evaluation.test, or add a column "eval_script"`))
	}
	fillGrading(eval, inst, repo)
	return recipe, nil
}

// fillGrading sets how logs are read: by the evaluation itself, the row, or
// the facts, whoever says it first.
func fillGrading(eval *datasets.Evaluation, inst *datasets.Instance, repo *repository) {
	if eval.LogParser == "" {
		eval.LogParser = inst.LogParser
	}
	if eval.LogParser == "" && repo != nil {
		eval.LogParser = repo.LogParser
	}
	if eval.EvalType == "" {
		eval.EvalType = inst.EvalType
	}
	if eval.EvalType == "" {
		eval.EvalType = "pass_and_fail"
		if repo != nil && repo.FailOnly {
			eval.EvalType = "fail_only"
		}
	}
}

// Names rows give languages by, as far as they differ from ours.
var languageNames = map[string]string{
	"python": "py", "golang": "go", "javascript": "js", "typescript": "js", "ts": "js", "node": "js",
	"rs": "rust", "rb": "ruby", "c++": "c", "cpp": "c", "shell": "sh", "bash": "sh",
}

// languageOf guesses an instance's language; "" if nothing tells it.
func languageOf(inst *datasets.Instance, repo *repository) string {
	if repo != nil {
		return repo.language
	}
	name := strings.ToLower(strings.TrimSpace(inst.Language))
	if ours, found := languageNames[name]; found {
		return ours
	}
	return name
}
