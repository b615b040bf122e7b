package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/gate"
	"github.com/evalrun/evalrun/reports/render"
	"github.com/evalrun/evalrun/reports/results"
)

type gateCmd struct {
	Source        string  `arg:"" help:"Run, file or folder with the results of one system."`
	Output        string  `name:"out" default:"." placeholder:"DIR" help:"Folder that holds logs/."`
	MinRate       string  `placeholder:"RATE" help:"Least resolved, of all but flaky instances: 0.4 or 40%."`
	MustPass      string  `type:"existingfile" placeholder:"FILE" help:"Instances, one a line, that must be resolved."`
	Baseline      string  `placeholder:"SOURCE" help:"Results to compare with: a baseline file, or any source."`
	NoRegression  bool    `help:"Every instance that the baseline resolved must still be resolved."`
	Alpha         float64 `placeholder:"ALPHA" help:"Not significantly worse than the baseline (one-sided exact McNemar test at ALPHA, such as 0.05)."`
	Flaky         string  `type:"existingfile" placeholder:"FILE" help:"Instances, one a line, that decide nothing."`
	Common        bool    `help:"The baseline may have other instances; what both have is compared."`
	WriteBaseline string  `placeholder:"FILE" help:"Write the results as a baseline file; with rules, only if they pass."`
	JSON          bool    `name:"json" help:"Print the decision as JSON."`
	Summary       string  `placeholder:"FILE" help:"Append the decision as Markdown, as for $$GITHUB_STEP_SUMMARY."`
	JUnit         string  `name:"junit" placeholder:"FILE" help:"Write all results as JUnit XML."`
	Force         bool    `help:"Replace files that evalrun has not written."`
	universeFlags
}

func (gateCmd) Help() string {
	return `Exit codes: 0 passed, 1 failed, 2 wrong usage or input, 3 undecided: what could not be
evaluated (a build, the engine) decides it. The first line printed is the reason. With
several rules all must pass. Under GITHUB_ACTIONS there are annotations, and a summary
in GITHUB_STEP_SUMMARY; under GITLAB_CI the details are a section that folds.

` + sourceHelp + `
Examples:
  evalrun gate nightly --min-rate 40%
  evalrun gate nightly --write-baseline baseline.json
  evalrun gate nightly --baseline baseline.json --no-regression --flaky flaky.txt
  evalrun gate nightly --baseline last-week --alpha 0.05 --must-pass golden.txt
`
}

// Run decides.
func (c *gateCmd) Run(e *env) error {
	for _, out := range []struct{ flag, path, mark string }{
		{"--write-baseline", c.WriteBaseline, `"baseline":`}, {"--junit", c.JUnit, `<testsuites name="evalrun"`},
	} {
		if out.path == "" {
			continue
		}
		if err := reports.MayReplace(out.path, out.mark, c.Force); err != nil {
			return fmt.Errorf("%s: %w", out.flag, err)
		}
	}
	set, rules, err := c.read(e)
	if err != nil {
		return err
	}
	if c.JUnit != "" {
		if err := c.writeJUnit(set); err != nil {
			return err
		}
	}
	if rules.MinRate == nil && rules.MustPass == nil && !rules.NoNew && rules.Alpha == 0 && c.WriteBaseline != "" {
		return c.writeBaseline(e, set)
	}
	result, err := gate.Run(set, rules)
	if err != nil {
		return err
	}
	var gained, lost []gate.Change
	if rules.Baseline != nil {
		gained, lost = gate.Changes(set, rules.Baseline)
	}
	if err := c.show(e, &result, gained, lost); err != nil {
		return err
	}
	switch result.Status {
	case gate.Failed:
		return &exitError{code: exitFailed}
	case gate.Undecided:
		return &exitError{code: exitNotEvaluated}
	}
	if c.WriteBaseline != "" {
		return c.writeBaseline(e, set)
	}
	return nil
}

// read loads what is decided on, and by which rules.
func (c *gateCmd) read(e *env) (*results.Set, gate.Rules, error) {
	rules := gate.Rules{NoNew: c.NoRegression, Alpha: c.Alpha, CommonOnly: c.Common}
	if c.MinRate != "" {
		least, err := parseRate(c.MinRate)
		if err != nil {
			return nil, rules, err
		}
		rules.MinRate = &least
	}
	if !(c.Alpha >= 0 && c.Alpha < 1) { // NaN is neither
		return nil, rules, errors.New("--alpha: want more than 0 and less than 1")
	}
	must, err := readList("--must-pass", c.MustPass)
	if err != nil {
		return nil, rules, err
	}
	if rules.MustPass = must.ids; c.MustPass != "" && len(must.ids) == 0 {
		return nil, rules, fmt.Errorf("--must-pass %s names no instance", c.MustPass)
	}
	flaky, err := readList("--flaky", c.Flaky)
	if err != nil {
		return nil, rules, err
	}
	rules.Flaky = flaky.set()
	u, err := c.load(e)
	if err != nil {
		return nil, rules, err
	}
	set, err := c.one(e, c.Source, u)
	if err != nil {
		return nil, rules, err
	}
	if c.Baseline != "" {
		if rules.Baseline, err = c.one(e, c.Baseline, u); err != nil {
			return nil, rules, fmt.Errorf("--baseline: %w", err)
		}
	}
	if rules.Baseline != nil {
		flaky.warn(e, set, rules.Baseline)
	} else {
		flaky.warn(e, set)
	}
	return set, rules, nil
}

// one reads the results of one system.
func (c *gateCmd) one(e *env, source string, u *results.Universe) (*results.Set, error) {
	sets, err := results.Load(e.ctx, source, results.Options{Root: c.Output, Light: c.JUnit == ""})
	if err != nil {
		return nil, err
	}
	if len(sets) != 1 {
		var names []string
		for _, s := range sets {
			names = append(names, s.Name)
		}
		return nil, fmt.Errorf("%s has %d systems; name one: %s::%s", source, len(sets), source, strings.Join(names, ", ::"))
	}
	showNotes(e, sets)
	s := sets[0]
	if s.Open && u == nil {
		return nil, fmt.Errorf("%s: a submission names only some of its instances: give the dataset with -d, so that the others can be counted", s.Source)
	}
	if u != nil {
		if err := u.Check(s); err != nil {
			return nil, err
		}
		s.Select(u.IDs)
	}
	return s, nil
}

// parseRate reads "0.4" or "40%".
func parseRate(text string) (float64, error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	rate, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		rate /= 100
	}
	if err != nil || !(rate >= 0 && rate <= 1) {
		return 0, fmt.Errorf("--min-rate %q: want a share such as 0.4, or 40%%", text)
	}
	return rate, nil
}

func (c *gateCmd) writeBaseline(e *env, set *results.Set) error {
	if err := results.WriteBaseline(c.WriteBaseline, set); err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "baseline of %d instances, %d resolved: %s\n", len(set.Items), set.Resolved(), c.WriteBaseline)
	return nil
}

func (c *gateCmd) writeJUnit(set *results.Set) error {
	var out strings.Builder
	err := render.JUnit(&out, []*results.Set{set}, nil)
	if err == nil {
		err = cache.WriteFile(c.JUnit, []byte(out.String()), 0o666)
	}
	return err
}

// show prints the decision as the surroundings ask for.
func (c *gateCmd) show(e *env, r *gate.Result, gained, lost []gate.Change) error {
	doc := render.Gate(r, gained, lost)
	for _, path := range []string{c.Summary, os.Getenv("GITHUB_STEP_SUMMARY")} {
		if path == "" {
			continue
		}
		if err := appendMarkdown(path, doc); err != nil {
			return err
		}
	}
	if c.JSON {
		return writeJSON(e.stdout, r)
	}
	fmt.Fprintf(e.stdout, "gate %s: %s\n", r.Status, reports.SafeText(r.Reason))
	_, width := terminalOf(e.stdout)
	switch {
	case os.Getenv("GITHUB_ACTIONS") == "true":
		if err := render.GitHubAnnotations(e.stdout, r); err != nil {
			return err
		}
		// Names in the details must not be taken for commands.
		token := "evalrun-" + rand.Text()
		fmt.Fprintf(e.stdout, "::group::details\n::stop-commands::%s\n", token)
		err := doc.WriteText(e.stdout, width)
		fmt.Fprintf(e.stdout, "::%s::\n::endgroup::\n", token)
		return err
	case os.Getenv("GITLAB_CI") == "true":
		fmt.Fprintf(e.stdout, "\x1b[0Ksection_start:%d:evalrun_gate[collapsed=true]\r\x1b[0Kdetails\n", time.Now().Unix())
		err := doc.WriteText(e.stdout, width)
		fmt.Fprintf(e.stdout, "\x1b[0Ksection_end:%d:evalrun_gate\r\x1b[0K\n", time.Now().Unix())
		return err
	}
	return doc.WriteText(e.stdout, width)
}

func appendMarkdown(path string, doc render.Document) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("append the summary: %w", err)
	}
	if err := doc.WriteMarkdown(f); err != nil {
		f.Close()
		return fmt.Errorf("append the summary: %w", err)
	}
	return f.Close()
}
