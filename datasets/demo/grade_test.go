package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalrun/evalrun/grading"
)

// These tests run the instances' own tests on this machine, as far as it has
// the languages. They know of grading only what they need.

// endless is how long tests that should never end are watched. Nothing waits
// for it but predictions expected to time out.
const endless = 5 * time.Second

func TestTestsFailBeforeAndPassAfter(t *testing.T) {
	repos := materialized(t)
	for _, r := range rows(t) {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			needLanguage(t, r)
			statuses := parse(t, r, run(t, checkout(t, repos, r, r.TestPatch), r, time.Minute).log)
			for _, name := range r.FailToPass {
				if statuses[name] == "passed" {
					t.Errorf("FAIL_TO_PASS %q passes without a patch", name)
				}
			}
			for _, name := range r.PassToPass {
				if statuses[name] != "passed" {
					t.Errorf("PASS_TO_PASS %q is %q without a patch", name, statuses[name])
				}
			}

			statuses = parse(t, r, run(t, checkout(t, repos, r, r.Patch, r.TestPatch), r, time.Minute).log)
			var listed []string
			for _, name := range slices.Concat(r.FailToPass, r.PassToPass) {
				listed = append(listed, name)
				if statuses[name] != "passed" {
					t.Errorf("%q is %q after the gold patch", name, statuses[name])
				}
			}
			for name := range statuses {
				if !slices.Contains(listed, name) {
					t.Errorf("%q is in neither list", name)
				}
			}
		})
	}
}

func TestPredictionsEndAsExpected(t *testing.T) {
	repos := materialized(t)
	expected, err := Expected()
	if err != nil {
		t.Fatal(err)
	}
	for model, byInstance := range patches(t) {
		if len(byInstance) != len(rows(t)) {
			t.Errorf("%s has %d predictions for %d instances", model, len(byInstance), len(rows(t)))
		}
		for _, r := range rows(t) {
			t.Run(model+"/"+r.ID, func(t *testing.T) {
				t.Parallel()
				want := grading.Outcome(expected[model][r.ID])
				if got := grade(t, repos, r, byInstance[r.ID], want); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		}
	}
}

func TestMixedShowsEveryKindOfEnd(t *testing.T) {
	expected, err := Expected()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[grading.Outcome]int{}
	for _, outcome := range expected[Owner+"/mixed"] {
		seen[grading.Outcome(outcome)]++
	}
	for outcome, want := range map[grading.Outcome]int{
		grading.Resolved: 1, grading.EmptyPatch: 1, grading.ApplyFailed: 1,
		grading.TimedOut: 1, grading.OutOfMemory: 1,
		grading.Unresolved: 3, // wrong, breaks a passing test, tries the network
	} {
		if seen[outcome] != want {
			t.Errorf("%d predictions end %s, want %d", seen[outcome], outcome, want)
		}
	}
}

func TestBreakingPatchFixesWhatItShould(t *testing.T) {
	r := instance(t, "evalrun-demo__semverlite-1")
	needLanguage(t, r)
	dir := checkout(t, materialized(t), r, patches(t)[Owner+"/mixed"][r.ID], r.TestPatch)
	statuses := parse(t, r, run(t, dir, r, time.Minute).log)
	for _, name := range r.FailToPass {
		if statuses[name] != "passed" {
			t.Errorf("FAIL_TO_PASS %q is %q", name, statuses[name])
		}
	}
	if name := "- orders words as ASCII does"; statuses[name] != "failed" {
		t.Errorf("PASS_TO_PASS %q is %q, want it broken", name, statuses[name])
	}
}

// The prediction that asks the network is right as soon as it gets an answer,
// so it shows whether the sandbox keeps it from getting one.
func TestNetworkPatchIsRightWithTheNetwork(t *testing.T) {
	r := instance(t, "evalrun-demo__textkit-3")
	needLanguage(t, r)
	var asked string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		asked = request.URL.String()
		fmt.Fprint(w, "# code;width\n0020..007E;Na # ASCII\n4E00..9FFF;W # CJK\nFF01;F\nFF02..FF60;F\n")
	}))
	defer proxy.Close()
	dir := checkout(t, materialized(t), r, patches(t)[Owner+"/mixed"][r.ID], r.TestPatch)
	statuses := parse(t, r, run(t, dir, r, time.Minute, "http_proxy="+proxy.URL, "no_proxy=").log)
	for _, name := range slices.Concat(r.FailToPass, r.PassToPass) {
		if statuses[name] != "passed" {
			t.Errorf("%q is %q", name, statuses[name])
		}
	}
	if !strings.HasSuffix(asked, "/EastAsianWidth.txt") {
		t.Errorf("asked for %q", asked)
	}
}

// grade returns how a prediction ends. Where the machine cannot show that an
// outcome is out_of_memory, it is the tests' own report of it that counts.
func grade(t *testing.T, repos string, r row, patch string, want grading.Outcome) grading.Outcome {
	t.Helper()
	if strings.TrimSpace(patch) == "" {
		return grading.EmptyPatch
	}
	dir := checkout(t, repos, r)
	if _, err := tryGit(dir, patch, "apply", "-"); err != nil {
		if strings.Contains(err.Error(), "corrupt patch") {
			t.Errorf("the patch must be well formed: %v", err)
		}
		return grading.ApplyFailed
	}
	if _, err := tryGit(dir, r.TestPatch, "apply", "-"); err != nil {
		t.Fatal(err)
	}
	needLanguage(t, r)
	limit := time.Minute
	if want == grading.TimedOut {
		limit = endless
	}
	result := run(t, dir, r, limit)
	switch {
	case result.timedOut:
		return grading.TimedOut
	case r.Recipe.Evaluation.MemoryMiB > 0 && strings.Contains(result.log, "MemoryError"):
		return grading.OutOfMemory
	}
	statuses := parse(t, r, result.log)
	for _, name := range slices.Concat(r.FailToPass, r.PassToPass) {
		if statuses[name] != "passed" {
			return grading.Unresolved
		}
	}
	return grading.Resolved
}

// checkout returns a work tree of base_commit with patches applied.
func checkout(t *testing.T, repos string, r row, patches ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "testbed")
	gitOutput(t, "", "clone", "--quiet", "--no-checkout", filepath.Join(repos, r.Repo+".git"), dir)
	gitOutput(t, dir, "checkout", "--quiet", "--detach", r.BaseCommit)
	for _, patch := range patches {
		if _, err := tryGit(dir, patch, "apply", "-"); err != nil {
			t.Fatalf("%s: %v", r.ID, err)
		}
	}
	return dir
}

type runResult struct {
	log      string
	timedOut bool
}

// run runs the phases of the evaluation in dir. A proxy that is not there
// stands for the missing network; env comes last and may name another.
func run(t *testing.T, dir string, r row, limit time.Duration, env ...string) runResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	e := r.Recipe.Evaluation
	var script strings.Builder
	script.WriteString("set -uo pipefail\n")
	if e.MemoryMiB > 0 {
		fmt.Fprintf(&script, "ulimit -v %d\n", 4*e.MemoryMiB*1024) // of addresses, not of memory
	}
	for _, phase := range []string{e.Prelude, e.Setup, e.Build, e.Test} {
		script.WriteString(strings.ReplaceAll(phase, "/testbed", "'"+dir+"'") + "\n")
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.Env = append(os.Environ(), "http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9",
		"GOFLAGS=-mod=mod", "GOTOOLCHAIN=local", "GOWORK=off", "NODE_OPTIONS=", "PYTEST_ADDOPTS=")
	cmd.Env = append(cmd.Env, env...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", r.ID, log.String())
		}
	})
	return runResult{log.String(), errors.Is(ctx.Err(), context.DeadlineExceeded)}
}

var (
	pytestLine = regexp.MustCompile(`^(PASSED|FAILED|ERROR) (\S+)`)
	gotestLine = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (.+) \(.*\)$`)
	tapLine    = regexp.MustCompile(`^(ok|not ok) \d+ (.+)$`)
)

// parse returns "passed" or "failed" for every test in the log.
func parse(t *testing.T, r row, log string) map[string]string {
	t.Helper()
	rules := map[string]*regexp.Regexp{"parse_log_pytest": pytestLine, "parse_log_gotest": gotestLine, "parse_log_tap": tapLine}
	rule := rules[r.Recipe.Evaluation.LogParser]
	if rule == nil {
		t.Fatalf("%s: unknown log_parser %q", r.ID, r.Recipe.Evaluation.LogParser)
	}
	statuses := map[string]string{}
	for line := range strings.Lines(log) {
		found := rule.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil {
			continue
		}
		statuses[found[2]] = "failed"
		if slices.Contains([]string{"PASSED", "PASS", "ok"}, found[1]) {
			statuses[found[2]] = "passed"
		}
	}
	return statuses
}

func instance(t *testing.T, id string) row {
	t.Helper()
	for _, r := range rows(t) {
		if r.ID == id {
			return r
		}
	}
	t.Fatalf("no instance %s", id)
	return row{}
}

// needLanguage skips the test on a machine that cannot run the instance's.
func needLanguage(t *testing.T, r row) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the instances' tests")
	}
	probes := map[string]string{
		"py": "python3 -m pytest --version",
		"go": "go version",
		"js": `node -e 'process.exit(parseInt(process.versions.node, 10) < 18 ? 1 : 0)'`,
		"c":  "cc --version && make --version",
	}
	language := r.Recipe.Environment.Language
	probe, ok := probes[language]
	if !ok {
		t.Fatalf("%s: unknown language %q", r.ID, language)
	}
	if out, err := exec.Command("bash", "-c", probe).CombinedOutput(); err != nil {
		t.Skipf("this machine cannot run %s tests: %s: %v\n%s", language, probe, err, out)
	}
}

// TestRowsAreWhole: what a loader would complain about.
func TestRowsAreWhole(t *testing.T) {
	languages := map[string]bool{}
	for _, r := range rows(t) {
		if r.ID == "" || r.ProblemStatement == "" || r.Version == "" || r.CreatedAt == "" || r.TestPatch == "" || r.Patch == "" {
			t.Errorf("%s: an empty column", r.ID)
		}
		if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(r.BaseCommit) {
			t.Errorf("%s: base_commit %q", r.ID, r.BaseCommit)
		}
		if len(r.FailToPass) == 0 || len(r.PassToPass) == 0 {
			t.Errorf("%s: %d FAIL_TO_PASS, %d PASS_TO_PASS", r.ID, len(r.FailToPass), len(r.PassToPass))
		}
		if r.Recipe == nil || r.Recipe.Evaluation.Test == "" {
			t.Errorf("%s: no recipe", r.ID)
			continue
		}
		if r.Recipe.Environment.Base != "debian:bookworm" || len(r.Recipe.Environment.Apt) == 0 {
			t.Errorf("%s: environment %+v", r.ID, r.Recipe.Environment)
		}
		languages[r.Recipe.Environment.Language] = true
	}
	if len(languages) != 4 {
		t.Errorf("languages %v, want four", languages)
	}
}
