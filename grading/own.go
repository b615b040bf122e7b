package grading

import (
	"fmt"

	"github.com/evalrun/evalrun/grading/logparse"
)

// Circumstances are what evalrun knows of an attempt of its own besides the log.
type Circumstances struct {
	Parser      string // of the log
	OutOfMemory string // why the tests were killed at their own memory limit; "" if they were not
	Missing     string // what the tests wanted to fetch and the image lacks (see OfflineSign)
	Exit        *int   // of the test command; nil where that is not known
}

// Outcome says how an attempt of evalrun's own ended, and why.
//
// Where nothing could be graded, what the log says of the surroundings is no
// evidence: with an image whose gold patch passes it is the patch's doing, which
// broke the build, the import or the runner, and could write anything. LogOutcome is
// for logs of which nothing else is known.
func (r *Report) Outcome(c Circumstances) (Outcome, string) {
	switch {
	case r.Resolved:
		return Resolved, ""
	case c.OutOfMemory != "":
		return OutOfMemory, c.OutOfMemory
	case r.Found:
		return Unresolved, r.Reason
	case !logparse.Known(c.Parser):
		return Ungradeable, r.Reason
	case c.Missing != "":
		return Ungradeable, "no test ran, and the image lacks what the tests wanted to fetch: " + c.Missing
	case r.Statuses.Len() == 0 && c.Exit != nil:
		return Unresolved, fmt.Sprintf("no test ran: the test command exited with %d", *c.Exit)
	}
	return Unresolved, r.Reason
}
