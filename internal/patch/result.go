package patch

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Result is what a task of this package did.
type Result struct {
	Applied   bool
	Variant   int    // index into the variants, of the one that was applied
	Command   string // that applied it, or AlreadyApplied
	Tries     []Try  // every command, in order
	Displaced []string
	Refused   string // why nothing was tried: a link in the checkout leads out of it
	Restored  []RestoredPath
	Cleared   []string // links and files that stood where a folder of a restored path belongs
	Tree      string   // of the tracked files, after SnapshotTask
	Changed   []ChangedPath
	Tracked   []string // after TrackedTask
}

// Try is one command that was given the patch.
type Try struct {
	Variant  int
	Command  string
	ExitCode int
	Output   string // the last 4 KB
}

// RestoredPath says what was done to one path.
type RestoredPath struct {
	Path  string
	State string // kept, restored, deleted, absent, or skipped for a folder
}

// ChangedPath is a tracked file that is not what it was.
type ChangedPath struct {
	Path   string // as git prints it: quoted where it has odd bytes
	Status string // M changed, D deleted, T of another kind
}

// ParseResult reads the output of a script. Only lines that start with the nonce
// count. An error means that the script could not do its work, or was cut off:
// it is never the patch's fault.
func ParseResult(nonce, output string) (Result, error) {
	var r Result
	ended := false
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		rest, ok := strings.CutPrefix(line, nonce+" ")
		if !ok {
			continue
		}
		if ended {
			return r, fmt.Errorf("apply: the script went on after its result: %q", clipped(rest))
		}
		end, err := r.read(strings.Split(rest, " "))
		if err != nil {
			return r, err
		}
		ended = end
	}
	if !ended {
		return r, fmt.Errorf("apply: the script did not get to its result; its output ends in %q", tail(output))
	}
	return r, nil
}

// read takes in one line and reports whether it is the last.
func (r *Result) read(words []string) (end bool, err error) {
	bad := func() (bool, error) {
		return false, fmt.Errorf("apply: the script printed a line that means nothing: %q", clipped(strings.Join(words, " ")))
	}
	verb, args := words[0], words[1:]
	switch {
	case verb == "try" && len(args) == 4:
		variant, name, ok := command(args[0], args[1])
		code, err := strconv.Atoi(args[2])
		output, decoded := decode(args[3])
		if !ok || err != nil || !decoded {
			return bad()
		}
		r.Tries = append(r.Tries, Try{Variant: variant, Command: name, ExitCode: code, Output: output})
		return false, nil
	case verb == "applied" && len(args) == 2:
		variant, name, ok := command(args[0], args[1])
		if !ok {
			return bad()
		}
		if name == reverseCheck {
			name = AlreadyApplied
		}
		r.Applied, r.Variant, r.Command = true, variant, name
		return true, nil
	case (verb == "failed" || verb == "done") && len(args) == 0:
		return true, nil
	}
	text := make([]string, len(args))
	for i, a := range args {
		if i == 0 && (verb == "path" || verb == "changed" || verb == "tree") {
			text[i] = a
			continue
		}
		var ok bool
		if text[i], ok = decode(a); !ok {
			return bad()
		}
	}
	switch {
	case verb == "displaced" && len(text) == 1:
		r.Displaced = append(r.Displaced, text[0])
	case verb == "cleared" && len(text) == 1:
		r.Cleared = append(r.Cleared, text[0])
	case verb == "tracked" && len(text) == 1:
		r.Tracked = append(r.Tracked, text[0])
	case verb == "path" && len(text) == 2:
		r.Restored = append(r.Restored, RestoredPath{State: text[0], Path: text[1]})
	case verb == "tree" && len(text) == 1 && treeName.MatchString(text[0]):
		r.Tree = text[0]
	case verb == "changed" && len(text) == 2:
		r.Changed = append(r.Changed, ChangedPath{Status: text[0], Path: text[1]})
	case verb == "refused" && len(text) == 2:
		r.Refused = fmt.Sprintf("%q goes through %q, a symbolic link of the checkout that does not lead to a folder in it", text[0], text[1])
		return true, nil
	case verb == "error" && len(text) == 1:
		return true, fmt.Errorf("apply: %s", strings.TrimSpace(text[0]))
	default:
		return bad()
	}
	return false, nil
}

func command(variant, number string) (int, string, bool) {
	v, err := strconv.Atoi(variant)
	n, err2 := strconv.Atoi(number)
	name, ok := commandName(n)
	return v - 1, name, ok && err == nil && err2 == nil && v > 0
}

func decode(word string) (string, bool) {
	if word == "-" {
		return "", true
	}
	if text, ok := strings.CutPrefix(word, "="); ok {
		return text, true
	}
	b, err := base64.StdEncoding.DecodeString(word)
	return string(b), err == nil
}

func clipped(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

func tail(s string) string {
	if len(s) > 300 {
		return "…" + s[len(s)-300:]
	}
	return s
}
