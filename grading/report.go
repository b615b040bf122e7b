package grading

// Status is what a log said of one test.
type Status string

const (
	Passed  Status = "PASSED"
	Failed  Status = "FAILED"
	Skipped Status = "SKIPPED"
	Error   Status = "ERROR"
	XFail   Status = "XFAIL"
)

// Split divides the tests of one list by how they ended.
type Split struct {
	Success []string `json:"success"`
	Failure []string `json:"failure"`
}

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
}
