package reports

import (
	"bytes"
	"io"
	"os"
	"slices"

	"github.com/evalrun/evalrun/grading"
)

// FailureSign is what the logs of an attempt that did not resolve its instance
// say of the surroundings, in the official harness's terms. It fills the infra
// and ambiguous lists of the official run summary and nothing else: an outcome
// never depends on it.
type FailureSign struct {
	Class     string `json:"class,omitempty"` // official name, for example missing_module
	Ambiguous bool   `json:"ambiguous,omitempty"`
}

// signTimedOut is the official class of tests that ran out of time.
const signTimedOut = "tests_timed_out"

// signOrder is the official order of the classes: of several in a log the first
// here counts, wherever they stand.
var signOrder = []string{
	"browser_launch_failed", "display_unavailable", "out_of_memory", "container_unavailable",
	"network_unreachable", "missing_module", "no_tests_collected", signTimedOut,
}

// wantsSign: the official harness looks only at what did not resolve.
func wantsSign(a *Attempt) bool {
	return a.Outcome != grading.Resolved && a.Outcome != grading.EmptyPatch
}

// ScanLogs looks for signs in the logs of an attempt. A log that is missing or
// cannot be read has none.
func ScanLogs(paths ...string) FailureSign {
	var best FailureSign
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		best = firstSign(best, scan(f))
		f.Close()
	}
	return best
}

func firstSign(a, b FailureSign) FailureSign {
	rank := func(s FailureSign) int {
		if s.Class == "" {
			return len(signOrder) + 1
		}
		if i := slices.Index(signOrder, s.Class); i >= 0 {
			return i
		}
		return len(signOrder) // one that grading has learnt since
	}
	if rank(b) < rank(a) {
		return b
	}
	return a
}

// scan looks for the first sign in a log piece by piece: logs can be huge.
// Pieces end where lines end. Only in a line longer than a piece they overlap,
// and a mark where it is cut keeps its parts from looking like whole lines.
func scan(r io.Reader) FailureSign {
	const size, overlap, cut = 256 << 10, 128, 'x' // no sign is longer than the overlap
	var best FailureSign
	buf := make([]byte, 0, size+overlap+1)
	for {
		n, err := io.ReadFull(r, buf[len(buf):size+overlap])
		buf = buf[:len(buf)+n]
		last := err != nil
		end := len(buf)
		var rest []byte
		if !last {
			if i := bytes.LastIndexAny(buf, "\r\n"); i >= 0 && i+1 > overlap {
				end = i + 1
				rest = slices.Clone(buf[end:])
			} else {
				rest = append([]byte{cut}, buf[end-overlap:]...)
				buf = append(buf, cut)
				end++
			}
		}
		if class, _, ambiguous := grading.InfraFailure(oneLineEnd(buf[:end])); class != "" {
			best = firstSign(best, FailureSign{class, ambiguous})
		}
		if last || best.Class == signOrder[0] {
			return best
		}
		buf = append(buf[:0], rest...)
	}
}

// oneLineEnd turns \r\n and \r into \n, as reading in text mode does.
func oneLineEnd(text []byte) string {
	if bytes.IndexByte(text, '\r') < 0 {
		return string(text)
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return string(bytes.ReplaceAll(text, []byte("\r"), []byte("\n")))
}
