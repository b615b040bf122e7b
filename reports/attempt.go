package reports

import (
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/screen"
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
	Attempt       int             `json:"attempt,omitempty"` // of several at the instance, from 2; 0 and 1 are the first
	Key           string          `json:"key"`               // SHA-256 of all that determines the verdict
	RunKey        string          `json:"run_key,omitempty"` // SHA-256 of all that determines what is run
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

	Patch  PatchRecord   `json:"patch"`
	Phases []PhaseRecord `json:"phases,omitempty"`
	// LogBytes is the length of test_output.txt.
	LogBytes int64       `json:"log_bytes,omitempty"`
	Trust    TrustRecord `json:"trust,omitzero"`
	Sign     FailureSign `json:"failure_sign,omitzero"` // what the logs of an unresolved attempt show
	Usage    UsageRecord `json:"usage"`
	// Tracked files that build and tests changed, as "M path": told by the sandbox
	// they ran in, and so no evidence.
	ChangedByTests []string `json:"changed_by_tests,omitempty"`
	// Limits that may have shaped the verdict: a run with more of them could end otherwise.
	LimitedBy []string     `json:"limited_by,omitempty"`
	Warnings  []string     `json:"warnings,omitempty"` // for example a failed install step
	Limits    LimitsRecord `json:"limits"`
	Env       []string     `json:"env,omitempty"` // fixed environment of the tests, NAME=value
	Start     time.Time    `json:"start"`
	Seconds   float64      `json:"seconds"` // wall clock of the whole attempt, but for the next
	// WaitedSeconds is how long it waited for a free worker.
	WaitedSeconds float64 `json:"waited_seconds,omitempty"`
	ImageSeconds  float64 `json:"image_seconds,omitempty"` // until its image was there
	StartSeconds  float64 `json:"start_seconds,omitempty"` // of its sandbox, the last one
	Reused        bool    `json:"reused,omitempty"`
	// ReusedFrom is the attempt at the same that was made, where this one was not.
	ReusedFrom *Origin `json:"reused_from,omitempty"`
	// Regraded says that the verdict is of a stored log, made under other rules.
	Regraded bool `json:"regraded,omitempty"`
	// Resumed says that an earlier call of the same run has made it. A run that went
	// on is as good as one that was never interrupted, so that no file tells.
	Resumed bool `json:"-"`
}

// AttemptSchema is the schema_version of attempt.json.
const AttemptSchema = 1

// Origin names an attempt.
type Origin struct {
	RunID      string `json:"run_id"`
	Model      string `json:"model_name_or_path"`
	InstanceID string `json:"instance_id"`
	Attempt    int    `json:"attempt,omitempty"`
}

// Origin is the name of an attempt.
func (a *Attempt) Origin() Origin { return Origin{a.RunID, a.Model, a.InstanceID, a.Attempt} }

// TrustRecord is why the verdict is to be believed, or not.
type TrustRecord struct {
	// Screen is what the patch itself looks like.
	Screen *screen.Report `json:"screen,omitempty"`
	// Doubts are disagreements between the log of a resolved attempt and other
	// evidence. verdict.resolved stays what the rules say of the log.
	Doubts []grading.Doubt `json:"doubts,omitempty"`
	// SecondOpinion is a run with nothing but the patch's source files.
	SecondOpinion *SecondOpinion `json:"second_opinion,omitempty"`
	// Report is the kind of report that a second opinion has read.
	Report string `json:"-"`
	// Flagged says what a person should look at.
	Flagged []string `json:"flagged,omitempty"`
}

// SecondOpinion is what a resolved attempt came to without what its patch does to
// tests and to what runs them.
type SecondOpinion struct {
	Resolved bool     `json:"resolved"`
	Reason   string   `json:"reason,omitempty"` // why it is not
	LeftOut  []string `json:"left_out"`         // paths of the patch that were not applied
	Report   string   `json:"report,omitempty"` // what kind the runner wrote besides its log, and was held against it
	Seconds  float64  `json:"seconds"`
}

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
	Name        string  `json:"name"` // apply, setup, restore, snapshot, build, test; apply+restore+snapshot; eval
	ExitCode    int     `json:"exit_code"`
	At          float64 `json:"at,omitempty"` // seconds from the attempt's start to the phase's
	Seconds     float64 `json:"seconds"`
	OutputBytes int64   `json:"output_bytes"`
	Truncated   bool    `json:"truncated,omitempty"` // the middle of the output was left out
	TimedOut    bool    `json:"timed_out,omitempty"`
}

// UsageRecord is what the sandbox used.
type UsageRecord struct {
	PeakMemoryBytes  int64   `json:"peak_memory_bytes,omitempty"` // with files the kernel keeps while there is room
	HeldMemoryBytes  int64   `json:"held_memory_bytes,omitempty"` // the most found that could not be given back
	OOMKills         int     `json:"oom_kills"`
	CPUSeconds       float64 `json:"cpu_seconds,omitempty"`
	ThrottledSeconds float64 `json:"throttled_seconds,omitempty"`
	DiskBytes        int64   `json:"disk_bytes,omitempty"` // the most found written, measured every few seconds
}

// LimitsRecord is what the sandbox was allowed.
type LimitsRecord struct {
	CPUs           float64 `json:"cpus"`
	MemoryBytes    int64   `json:"memory_bytes"`
	Pids           int64   `json:"pids"`
	OutputBytes    int64   `json:"output_bytes"`
	DiskBytes      int64   `json:"disk_bytes,omitempty"`
	TimeoutSeconds float64 `json:"timeout_seconds"`
	SilenceSeconds float64 `json:"silence_seconds,omitempty"`
	// What it was sure of when others wanted more than there was.
	CPUsGuaranteed        float64  `json:"cpus_guaranteed,omitempty"`
	MemoryGuaranteedBytes int64    `json:"memory_guaranteed_bytes,omitempty"`
	ReadOnly              bool     `json:"read_only,omitempty"`  // nothing but the checkout, root's home and memory could be written
	User                  string   `json:"user,omitempty"`       // UID:GID that ran everything, where it was not root
	Unenforced            []string `json:"unenforced,omitempty"` // limits this engine cannot enforce, in words
}
