package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/gate"
)

// shownChanges bounds what a summary lists.
const shownChanges = 50

// Gate shows what a gate decided, and why.
func Gate(r *gate.Result, gained, lost []gate.Change) Document {
	head := fmt.Sprintf("gate %s: %d of %d resolved", r.Status, r.Resolved, r.Of)
	if r.Baseline != "" {
		head += ", against " + r.Baseline
	}
	t := &Table{Head: []string{"rule", "", "reason"}}
	for _, c := range r.Checks {
		t.Rows = append(t.Rows, cells(c.Rule, string(c.Status), c.Reason))
	}
	doc := Document{{Heading: head, Lines: r.Notes, Table: t}}
	for _, list := range []struct {
		what    string
		changes []gate.Change
	}{{"no longer resolved", lost}, {"newly resolved", gained}} {
		if len(list.changes) == 0 {
			continue
		}
		changes := &Table{Head: []string{"instance", "before", "now", "reason"}}
		for i, c := range list.changes {
			if i == shownChanges {
				break
			}
			changes.Rows = append(changes.Rows, cells(c.ID, string(c.Before), string(c.Now), c.Reason))
		}
		block := Block{Heading: fmt.Sprintf("%d %s", len(list.changes), list.what), Table: changes}
		if n := len(list.changes); n > shownChanges {
			block.Lines = []string{fmt.Sprintf("the first %d", shownChanges)}
		}
		doc = append(doc, block)
	}
	return doc
}

// GitHubAnnotations writes workflow commands: one for the gate, and one for each
// instance at fault, as many as GitHub shows.
func GitHubAnnotations(w io.Writer, r *gate.Result) error {
	const shown = 9 // of ten of a kind in one step; the first is the gate itself
	level := map[gate.Status]string{gate.Passed: "notice", gate.Failed: "error", gate.Undecided: "warning"}
	var b strings.Builder
	say := func(level, title, text string) {
		fmt.Fprintf(&b, "::%s title=%s::%s\n", level, githubProperty(title), githubData(text))
	}
	say(level[r.Status], "evalrun gate "+string(r.Status), r.Reason)
	left := shown
	for _, c := range r.Checks {
		if c.Status == gate.Passed {
			continue
		}
		for _, id := range c.Instances {
			if left == 0 {
				break
			}
			left--
			say(level[c.Status], c.Rule, id)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// githubData and githubProperty escape as the runner's own toolkit does.
func githubData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(reports.SafeLines(s))
}

func githubProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(githubData(s))
}
