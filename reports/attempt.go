package reports

import (
	"time"

	"github.com/evalrun/evalrun/grading"
)

// Attempt is the record of one attempt at one instance, written as
// attempt.json beside the official files. Durations are in seconds, sizes in
// bytes.
type Attempt struct {
	SchemaVersion int             `json:"schema_version"` // AttemptSchema
	InstanceID    string          `json:"instance_id"`
	Model         string          `json:"model_name_or_path"`
	Repo          string          `json:"repo,omitempty"`
	RunID         string          `json:"run_id"`
	Key           string          `json:"key"` // SHA-256 of all that determines the verdict
	Outcome       grading.Outcome `json:"outcome"`
	Reason        string          `json:"reason,omitempty"` // one line: why it ended so, and what to do
	Verdict       *grading.Report `json:"verdict,omitempty"`

	Image       string   `json:"image,omitempty"`        // reference
	ImageDigest string   `json:"image_digest,omitempty"` // sha256:...
	History     string   `json:"history,omitempty"`      // what is known of commits after base_commit in the image
	Deviations  []string `json:"deviations,omitempty"`   // where the environment is not the pinned one
	Network     string   `json:"network,omitempty"`      // "none (verified)"
	Rules       string   `json:"rules"`
	LogParser   string   `json:"log_parser"`

	Patch    PatchRecord   `json:"patch"`
	Phases   []PhaseRecord `json:"phases,omitempty"`
	Sign     FailureSign   `json:"failure_sign,omitzero"` // what the logs of an unresolved attempt show
	Usage    UsageRecord   `json:"usage"`
	Warnings []string      `json:"warnings,omitempty"` // for example a failed install step
	Limits   LimitsRecord  `json:"limits"`
	Env      []string      `json:"env,omitempty"` // fixed environment of the tests, NAME=value
	Start    time.Time     `json:"start"`
	Seconds  float64       `json:"seconds"` // wall clock of the whole attempt
	Reused   bool          `json:"reused,omitempty"`
}

// AttemptSchema is the schema_version of attempt.json.
const AttemptSchema = 1

// PatchRecord says what became of the model's patch.
type PatchRecord struct {
	SHA256  string     `json:"sha256,omitempty"` // of the patch as given
	Bytes   int        `json:"bytes"`
	Null    bool       `json:"null,omitempty"`    // the prediction had no patch at all, not even ""
	Files   []string   `json:"files,omitempty"`   // paths it touches
	Repairs []string   `json:"repairs,omitempty"` // what was mended before it was applied
	Applied string     `json:"applied,omitempty"` // the command that worked
	Tries   []ApplyTry `json:"tries,omitempty"`   // every command tried, in order
}

// ApplyTry is one command that was given the patch.
type ApplyTry struct {
	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	Output   string `json:"output,omitempty"` // end of what it said
}

// PhaseRecord is one process run in the sandbox.
type PhaseRecord struct {
	Name        string  `json:"name"` // apply, setup, restore, build, test; apply+restore; eval
	ExitCode    int     `json:"exit_code"`
	Seconds     float64 `json:"seconds"`
	OutputBytes int64   `json:"output_bytes"`
	Truncated   bool    `json:"truncated,omitempty"` // the middle of the output was left out
	TimedOut    bool    `json:"timed_out,omitempty"`
}

// UsageRecord is what the sandbox used.
type UsageRecord struct {
	PeakMemoryBytes  int64   `json:"peak_memory_bytes,omitempty"`
	OOMKills         int     `json:"oom_kills"`
	CPUSeconds       float64 `json:"cpu_seconds,omitempty"`
	ThrottledSeconds float64 `json:"throttled_seconds,omitempty"`
}

// LimitsRecord is what the sandbox was allowed.
type LimitsRecord struct {
	CPUs           float64  `json:"cpus"`
	MemoryBytes    int64    `json:"memory_bytes"`
	Pids           int64    `json:"pids"`
	OutputBytes    int64    `json:"output_bytes"`
	DiskBytes      int64    `json:"disk_bytes,omitempty"`
	TimeoutSeconds float64  `json:"timeout_seconds"`
	Unenforced     []string `json:"unenforced,omitempty"` // limits this engine cannot enforce, in words
}
