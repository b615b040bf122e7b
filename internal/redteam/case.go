// Package redteam holds evalrun to its word: patches that try to buy a verdict,
// each named for its trick, and honest ones that look odd. Its tests grade all of
// them on a real engine and look at what became of verdicts and host.
//
// It must not know how a trick is found out; it knows how an attempt must end.
package redteam

import (
	"bufio"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// How an attempt at a case must end.
const (
	NotResolved = "not_resolved" // not resolved, whatever the reason
	Flagged     = "flagged"      // resolved by the log, and a person is told to look
	Resolved    = "resolved"     // resolved, and nothing worse is said than that it looks suspicious
)

// Case is one patch and how an attempt at it must end.
type Case struct {
	Name     string // of the file, without extension
	Instance string // of the demo dataset, without its owner
	Tries    string // what the patch does, in one line
	Expected string
	Setup    string // what the row runs before the tests, "" for nothing
	Seconds  int    // time limit, 0 for the run's own
	Unsafe   bool   // the patch must be refused before anything runs
	Root     bool   // only what root sees of a container from outside tells
	Patch    string
}

// Read reads the cases in a folder: files NAME.diff that begin with lines
// "Instance: textkit-1" and the like, the patch behind them.
func Read(dir fs.FS) ([]Case, error) {
	names, err := fs.Glob(dir, "*.diff")
	if err != nil {
		return nil, err
	}
	var all []Case
	for _, name := range names {
		data, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		c, err := parse(string(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c.Name = strings.TrimSuffix(path.Base(name), ".diff")
		all = append(all, c)
	}
	return all, nil
}

func parse(text string) (Case, error) {
	var c Case
	header, patch, ok := cutPatch(text)
	if !ok {
		return c, fmt.Errorf("no line begins with \"diff --git\"")
	}
	c.Patch = patch
	lines := bufio.NewScanner(strings.NewReader(header))
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), ": ")
		if !ok {
			return c, fmt.Errorf("header line %q: want \"Key: value\"", lines.Text())
		}
		switch key {
		case "Instance":
			c.Instance = value
		case "Tries":
			c.Tries = value
		case "Expected":
			c.Expected = value
		case "Setup":
			c.Setup = value
		case "Unsafe":
			c.Unsafe = value == "yes"
		case "Needs":
			c.Root = value == "root"
		case "Seconds":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return c, fmt.Errorf("header line Seconds: want a number above 0, not %q", value)
			}
			c.Seconds = n
		default:
			return c, fmt.Errorf("header line %q: unknown key", lines.Text())
		}
	}
	switch {
	case c.Instance == "" || c.Tries == "":
		return c, fmt.Errorf("it must have lines \"Instance:\" and \"Tries:\"")
	case !slices.Contains([]string{NotResolved, Flagged, Resolved}, c.Expected):
		return c, fmt.Errorf("header line Expected: want %s, %s or %s, not %q", NotResolved, Flagged, Resolved, c.Expected)
	}
	return c, lines.Err()
}

// cutPatch parts the header from the patch.
func cutPatch(text string) (header, patch string, ok bool) {
	if strings.HasPrefix(text, "diff --git ") {
		return "", text, true
	}
	at := strings.Index(text, "\ndiff --git ")
	if at < 0 {
		return text, "", false
	}
	return text[:at+1], text[at+1:], true
}
