package datasets

// Recipe says how the images of one instance are made and how its tests are
// run. Classic rows get theirs from the facts in datasets/swebench; a dataset
// of one's own may carry it in the column "evalrun".
type Recipe struct {
	Environment Environment `json:"environment"`

	// PreInstall and Install run once, in /testbed at base_commit with the
	// environment active and the network on, while the instance layer is built.
	PreInstall []string `json:"pre_install,omitempty"`
	Install    []string `json:"install,omitempty"`
	// Build are steps of the test script that come before the tests, run there as
	// well so that the image holds what they fetch.
	Build []string `json:"build,omitempty"`

	Evaluation Evaluation `json:"evaluation"`
}

// Environment holds the facts that determine the env layer. Two instances with
// equal resolved environments share one layer.
type Environment struct {
	Language string `json:"language"` // py, go, js, c, rust, java, php, ruby, sh
	// Version is the pinned interpreter or tool chain: "3.9", "1.23.8", "20".
	// Empty means whatever the base has.
	Version string `json:"version,omitempty"`

	// Base names the operating system the environment wants, for example
	// "debian:bookworm"; empty leaves the choice to the run.
	Base string `json:"base,omitempty"`

	Apt []string `json:"apt,omitempty"` // operating system packages

	// Pip lists requirement specifiers, in order, installed together
	// (conda package names of the classic facts are already turned into pip's).
	Pip []string `json:"pip,omitempty"`
	// PipLate is installed in a second call, after Pip and the requirement
	// files, as the classic harness does with pip_packages.
	PipLate []string `json:"pip_late,omitempty"`

	// RequirementFiles are paths in the repository, tried in order at
	// RequirementCommit; the first that exists is used. EnvironmentFiles are the
	// same for conda's environment.yml.
	RequirementFiles  []string `json:"requirement_files,omitempty"`
	EnvironmentFiles  []string `json:"environment_files,omitempty"`
	RequirementCommit string   `json:"requirement_commit,omitempty"`

	// Commands run last, as root, network on.
	Commands []string `json:"commands,omitempty"`

	// Env is set for the install step and the tests, as NAME=value.
	Env []string `json:"env,omitempty"`

	// Deviations say in words where this is not what the dataset pins. They are
	// reported with every attempt.
	Deviations []string `json:"deviations,omitempty"`
}

// Evaluation is how the tests of one instance are run once its patch is
// applied. The phases are separate processes; each starts with Prelude, the
// lines that set up the shell (source, conda activate, cd, export), and runs
// under "set -uxo pipefail".
type Evaluation struct {
	// Script is the whole script in the official format, markers included. It
	// is written to eval.sh for other tools, and run as it is when Whole is set.
	Script string `json:"script,omitempty"`
	Whole  bool   `json:"-"`

	Prelude string `json:"prelude,omitempty"`
	Setup   string `json:"setup,omitempty"` // before the test files are restored: git status, install
	Build   string `json:"build,omitempty"` // after the test patch, before the tests
	Test    string `json:"test"`            // what stands between the markers

	// ResetFiles are restored to base_commit before the test patch is applied
	// and need not exist there; created files are deleted.
	ResetFiles []string `json:"reset_files,omitempty"`
	// TestPatch adds the hidden tests; usually the row's.
	TestPatch string `json:"-"`

	LogParser string `json:"log_parser"`
	EvalType  string `json:"eval_type,omitempty"`

	// Capabilities are what the official harness gives the row's container besides
	// its default ones, for example SYS_ADMIN for browsers.
	Capabilities []string `json:"capabilities,omitempty"`

	// TimeoutSeconds replaces the run's limit for this instance when > 0;
	// MemoryMiB likewise.
	TimeoutSeconds int `json:"timeout_seconds,omitempty"`
	MemoryMiB      int `json:"memory_mib,omitempty"`
}
