package runner_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
	"github.com/evalrun/evalrun/reports"
)

// The repository of the test image adds by subtracting. These are its fix, the
// hidden tests, and what else a model could come up with.
const (
	fix     = "--- a/add.sh\n+++ b/add.sh\n@@ -1,2 +1,2 @@\n # add prints the sum of its arguments.\n-add() { echo $(($1 - $2)); }\n+add() { echo $(($1 + $2)); }\n"
	wrong   = "--- a/add.sh\n+++ b/add.sh\n@@ -1,2 +1,2 @@\n # add prints the sum of its arguments.\n-add() { echo $(($1 - $2)); }\n+add() { echo $(($1 * $2)); }\n"
	stale   = "--- a/add.sh\n+++ b/add.sh\n@@ -1,2 +1,2 @@\n # add prints the product of its arguments.\n-add() { echo $(($1 / $2)); }\n+add() { echo $(($1 + $2)); }\n"
	hidden  = "--- a/tests/run.sh\n+++ b/tests/run.sh\n@@ -1,3 +1,4 @@\n # The tests that were there before.\n . ./add.sh\n [ \"$(add 0 0)\" = 0 ] && echo 'PASSED t::zero' || echo 'FAILED t::zero'\n+[ \"$(add 2 3)\" = 5 ] && echo 'PASSED t::sum' || echo 'FAILED t::sum'\n"
	forging = "--- a/tests/run.sh\n+++ b/tests/run.sh\n@@ -1,3 +1,2 @@\n # The tests that were there before.\n-. ./add.sh\n-[ \"$(add 0 0)\" = 0 ] && echo 'PASSED t::zero' || echo 'FAILED t::zero'\n+printf 'PASSED t::%s\\n' zero sum\n"
)

// code is a patch that adds lines to what the tests load.
func code(lines ...string) string {
	return fmt.Sprintf("--- a/add.sh\n+++ b/add.sh\n@@ -1,2 +1,%d @@\n # add prints the sum of its arguments.\n add() { echo $(($1 - $2)); }\n+%s\n",
		2+len(lines), strings.Join(lines, "\n+"))
}

func realJob(id, patch string, edits ...func(*runner.Job)) runner.Job {
	j := job(id, withPatch(patch), func(j *runner.Job) {
		j.Instance.BaseCommit = dockertest.BaseCommit
		j.Instance.FailToPass, j.Instance.PassToPass = []string{"t::sum"}, []string{"t::zero"}
		j.Recipe.Evaluation.Test, j.Recipe.Evaluation.TestPatch = "bash tests/run.sh", hidden
	})
	for _, edit := range edits {
		edit(&j)
	}
	return j
}

func realOptions(t testing.TB, c *docker.Client, image string) runner.Options {
	t.Helper()
	digest, _, err := c.Image(context.Background(), image)
	if err != nil {
		t.Fatal(err)
	}
	return runner.Options{
		RunID: "run", Layout: reports.Layout{Root: t.TempDir()}, Driver: c, Observer: &observer{},
		Images: &fakeImages{image: func(context.Context, *datasets.Instance) (runner.Image, error) {
			return runner.Image{Ref: image, Digest: digest}, nil
		}},
		Workers: 2, Builders: 1, Rules: grading.DefaultRules, Network: func(context.Context, runner.Image) (string, error) { return "", nil },
		Limits: runner.Limits{
			Sandbox: sandbox.Limits{CPUs: 1, MemoryBytes: 256 << 20, Pids: 100, DiskBytes: 1 << 30}, Timeout: time.Minute, OutputBytes: 1 << 20,
		},
	}
}

func daemon(t testing.TB) (*docker.Client, string) {
	t.Helper()
	image := dockertest.Image(t)
	c, err := docker.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, image
}

// The whole way, on a real engine.
func TestOnDocker(t *testing.T) {
	c, image := daemon(t)
	withSetup := withEvaluation(func(e *datasets.Evaluation) { e.Setup, e.Build = ". ./add.sh", "true" })
	brief := withEvaluation(func(e *datasets.Evaluation) { e.TimeoutSeconds = 5 })
	tests := []struct {
		name   string
		job    runner.Job
		want   grading.Outcome
		reason string
	}{
		{name: "fix", job: realJob("fix", fix), want: grading.Resolved},
		{name: "fix without newline", job: realJob("newline", strings.TrimSuffix(fix, "\n")), want: grading.Resolved},
		{name: "wrong", job: realJob("wrong", wrong), want: grading.Unresolved, reason: "t::sum"},
		{name: "stale", job: realJob("stale", stale), want: grading.ApplyFailed},
		{name: "forged tests", job: realJob("forging", forging), want: grading.Unresolved, reason: "t::sum"},
		{name: "never ends", job: realJob("hang", code("while :; do sleep 1; done"), brief), want: grading.TimedOut},
		{name: "never ends in set-up", job: realJob("hang2", code("sleep 1000"), withSetup, brief), want: grading.TimedOut, reason: "setup"},
		{name: "memory", job: realJob("memory", code("x=$(yes)")), want: grading.OutOfMemory},
		{name: "processes left by the set-up", job: realJob("pids", code("for i in $(seq 200); do sleep 1000 & done"), withSetup), want: grading.Unresolved},
		{name: "kills everything", job: realJob("kill", code("kill -9 -1", "kill -9 1", "kill -9 $$")), want: grading.Unresolved},
		{name: "removes everything", job: realJob("rm", code("cd /; rm -rf /testbed"), withSetup), want: grading.Unresolved, reason: "twice"},
		{name: "removes the tools", job: realJob("tools", code("rm -rf /usr/bin"), withSetup), want: grading.Unresolved},
		{name: "prints for ever", job: realJob("flood", code("yes"), brief), want: grading.TimedOut},
		{name: "damages our files", job: realJob("evalrun", code("rm -rf /evalrun; ln -s /testbed /evalrun"), withSetup), want: grading.Unresolved, reason: "t::sum"},
	}
	var list []runner.Job
	for _, tt := range tests {
		list = append(list, tt.job)
	}
	r := runner.New(realOptions(t, c, image))
	attempts, err := r.Run(context.Background(), list)
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range tests {
		if a := attempts[i]; a.Outcome != tt.want || !strings.Contains(a.Reason, tt.reason) {
			t.Errorf("%s: %s %q, want %s %q; warnings %q", tt.name, a.Outcome, a.Reason, tt.want, tt.reason, a.Warnings)
		}
	}
	if left := r.Leftovers(); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// timer remembers how long each attempt had a worker.
type timer struct {
	mu      sync.Mutex
	since   map[int]time.Time
	seconds []float64
}

func (m *timer) Worker(worker int, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	began, busy := m.since[worker]
	switch {
	case text == "":
		m.seconds = append(m.seconds, time.Since(began).Seconds())
		delete(m.since, worker)
	case !busy:
		m.since[worker] = time.Now()
	}
}

func (*timer) Done(*reports.Attempt) {}

// BenchmarkAttempt makes attempts with two workers on a warm image. The test
// command sleeps for a second. The figures are the median of how long an attempt
// keeps its worker beyond that second, and what the whole run takes beyond those
// seconds, everything before and after the attempts included, shared out over them.
func BenchmarkAttempt(b *testing.B) {
	c, image := daemon(b)
	o := realOptions(b, c, image)
	m := &timer{since: map[int]time.Time{}}
	o.Observer = m
	var list []runner.Job
	for i := range b.N {
		list = append(list, realJob(fmt.Sprintf("instance-%d", i), fix, withEvaluation(func(e *datasets.Evaluation) { e.Test += "; sleep 1" })))
	}
	b.ResetTimer()
	attempts, err := runner.New(o).Run(context.Background(), list)
	b.StopTimer()
	if err != nil {
		b.Fatal(err)
	}
	for _, a := range attempts {
		if a.Outcome != grading.Resolved {
			b.Fatalf("%s: %s %s", a.InstanceID, a.Outcome, a.Reason)
		}
	}
	slices.Sort(m.seconds)
	b.ReportMetric(m.seconds[len(m.seconds)/2]-1, "s-worker-beyond-tests/attempt")
	perWorker := float64((b.N + o.Workers - 1) / o.Workers)
	b.ReportMetric(b.Elapsed().Seconds()/perWorker-1, "s-wall-beyond-tests/attempt")
}

// A resolved attempt during which something reached for what tests run with is
// resolved by the rules, and a person is told.
func TestWatchedFromOutside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root sees what a container has written")
	}
	c, image := daemon(t)
	fixing := func(lines ...string) string {
		return strings.Replace(code(lines...), " add() { echo $(($1 - $2)); }\n", "-add() { echo $(($1 - $2)); }\n+add() { echo $(($1 + $2)); }\n", 1)
	}
	withSetup := withEvaluation(func(e *datasets.Evaluation) { e.Setup = ". ./add.sh" })
	tests := []struct {
		job  runner.Job
		want string // part of what is flagged, "" for nothing
	}{
		{realJob("tool", fixing("cp /usr/bin/true /usr/bin/yes"), withSetup), "/usr/bin/yes"},
		{realJob("back-again", fixing("cp /usr/bin/yes /tmp/y; cp /usr/bin/true /usr/bin/yes; cp /tmp/y /usr/bin/yes"), withSetup), "/usr/bin/yes"},
		{realJob("tests", fixing("echo '# more' >>tests/run.sh")), "tests/run.sh"},
		{realJob("tests-and-back", fixing("cp tests/run.sh /tmp/run.sh; cat /tmp/run.sh >tests/run.sh")), "tests/run.sh"},
		{realJob("names", fixing("mkdir -p \"$(printf '/tmp/\\377')\"; echo '# more' >>tests/run.sh")), "tests/run.sh"},
		{realJob("depth", fixing("d=/tmp; for i in $(seq 210); do d=$d/d; done; mkdir -p $d; echo '# more' >>tests/run.sh")), "not known for sure"},
		{realJob("tracked", fixing("[ ! -e tests ] || { echo '# more' >>add.sh; echo x >untracked; }")), ""},
		{realJob("tests-in-set-up", fixing("[ -e /tmp/x ] || echo '# more' >>tests/run.sh; : >/tmp/x"), withSetup), ""},
		{realJob("nothing", fixing("echo x >/tmp/x; mkdir -p /opt/tool/bin; : >/opt/tool/bin/tool"), withSetup), ""},
	}
	var list []runner.Job
	for _, tt := range tests {
		list = append(list, tt.job)
	}
	attempts, err := runner.New(realOptions(t, c, image)).Run(context.Background(), list)
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range tests {
		a := attempts[i]
		told := slices.DeleteFunc(slices.Clone(a.Trust.Flagged), func(s string) bool { return !strings.Contains(s, "changed") })
		if flagged := strings.Join(told, "; "); a.Outcome != grading.Resolved || !strings.Contains(flagged, tt.want) || tt.want == "" && flagged != "" {
			t.Errorf("%s: %s %q, flagged %q, want %q; warnings %q", a.InstanceID, a.Outcome, a.Reason, flagged, tt.want, a.Warnings)
		}
		want := map[string][]string{"tests": {"M tests/run.sh"}, "tests-and-back": {"M tests/run.sh"}, "names": {"M tests/run.sh"}, "tracked": {"M add.sh"}}[a.InstanceID]
		if diff := cmp.Diff(want, a.ChangedByTests); diff != "" || strings.Contains(strings.Join(a.Warnings, ""), "not known") {
			t.Errorf("%s: changed by tests (-want +got):\n%s\nwarnings %q", a.InstanceID, diff, a.Warnings)
		}
	}
}
