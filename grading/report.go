package grading

import "github.com/evalrun/evalrun/grading/logparse"

// Status is what a log said of one test.
type Status = logparse.Status

// The statuses that mean something to the rules.
const (
	Passed  = logparse.Passed
	Failed  = logparse.Failed
	Skipped = logparse.Skipped
	Error   = logparse.Error
	XFail   = logparse.XFail
)

// Split divides the tests of one list by how they ended.
type Split struct {
	Success []string `json:"success"`
	Failure []string `json:"failure"`
}

// Total is the number of tests that count; under some rules a test can be in
// neither list.
func (s Split) Total() int { return len(s.Success) + len(s.Failure) }

// TestsStatus is the official tests_status object; key order is the official one.
type TestsStatus struct {
	FailToPass Split `json:"FAIL_TO_PASS"`
	PassToPass Split `json:"PASS_TO_PASS"`
	FailToFail Split `json:"FAIL_TO_FAIL"`
	PassToFail Split `json:"PASS_TO_FAIL"`
}

// Report is the verdict on one log.
type Report struct {
	Resolved bool         `json:"resolved"`
	Found    bool         `json:"found"`            // the log could be graded
	Reason   string       `json:"reason,omitempty"` // why not, or what decided
	Tests    *TestsStatus `json:"tests_status,omitempty"`

	Rules Rules `json:"rules,omitempty"`

	// InfraClass names a known sign of broken surroundings in a log that could not
	// be graded ("out_of_memory"); the official infra_failure_reason. A hint for
	// people: it never changes the verdict. InfraAmbiguous says that a patch could
	// have caused it as well; the official infra_failure is true only if not.
	InfraClass     string `json:"infra_class,omitempty"`
	InfraAmbiguous bool   `json:"infra_ambiguous,omitempty"`

	// ParserReason says what the log parser could not make sense of.
	ParserReason string   `json:"parser_reason,omitempty"`
	BadCodes     []string `json:"bad_codes,omitempty"` // marks of a failed apply, reset or run
	ExitCode     *int     `json:"exit_code,omitempty"` // of the test command, where known

	// Unread says that the tests' output could not be read at all: the log has no
	// complete markers, or there is no such parser.
	Unread bool `json:"-"`

	// Statuses is everything the parser read.
	Statuses logparse.Statuses `json:"-"`
}

// InfraFailure is the official field of this name: the log could not be graded
// and shows a fault of the surroundings that no patch can cause.
func (r Report) InfraFailure() bool { return r.InfraClass != "" && !r.InfraAmbiguous }
