package datasets

import "fmt"

// Instance is one row of a dataset: a repository at a commit, the tests that
// must pass after a right patch, and how to run them.
//
// Field names follow the SWE-bench columns. Classic rows (harness <= 4.x) end
// at Version; rows of 5.x carry Image, EvalScript, LogParser and EvalType too.
type Instance struct {
	ID                     string // instance_id
	Repo                   string // owner/name
	BaseCommit             string // full commit id the patch applies to
	EnvironmentSetupCommit string // commit whose requirement files describe the environment; "" means BaseCommit
	Version                string // release line or pull request number; key of the classic facts
	Patch                  string // gold patch
	TestPatch              string // patch that adds the hidden tests
	ProblemStatement       string
	HintsText              string
	CreatedAt              string
	Difficulty             string
	Language               string

	FailToPass []string // FAIL_TO_PASS: fail before, pass after
	PassToPass []string // PASS_TO_PASS: pass before and after

	Image      string // full reference of a prebuilt image, with tag
	EvalScript string // whole bash script that runs the tests
	LogParser  string // registry name, for example parse_log_flask
	EvalType   string // "pass_and_fail" (default) or "fail_only"

	Dockerfile string  // Dockerfile text, for rows that bring their own image recipe
	Recipe     *Recipe // evalrun's own column "evalrun": how to build and test, for datasets of one's own

	Source Position // where the row came from
}

// Position says where in the input something stands.
type Position struct {
	File string // path or URL as the user gave it
	Line int    // 1-based line of a text file, 1-based row of a Parquet file; 0 if unknown
}

func (p Position) String() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return p.File
}

// Tests is how many tests decide on the instance.
func (i *Instance) Tests() int { return len(i.FailToPass) + len(i.PassToPass) }

// FailOnly reports whether only recorded failures count against the patch.
func (i *Instance) FailOnly() bool { return i.EvalType == "fail_only" }
