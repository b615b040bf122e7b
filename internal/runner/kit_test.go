package runner_test

import (
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
	"github.com/evalrun/evalrun/reports"
)

const (
	goodPatch = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new\n"
	testPatch = "diff --git a/tests/test_x.py b/tests/test_x.py\nnew file mode 100644\n--- /dev/null\n+++ b/tests/test_x.py\n@@ -0,0 +1 @@\n+hidden test\n"

	passing = "PASSED tests/test_x.py::test_new\nPASSED tests/test_x.py::test_old\n=== 2 passed in 0.10s ===\n"
	failing = "FAILED tests/test_x.py::test_new\nPASSED tests/test_x.py::test_old\n=== 1 failed, 1 passed in 0.10s ===\n"
)

// job is a job for an instance of this name; one phase, the tests, unless edited.
func job(id string, edits ...func(*runner.Job)) runner.Job {
	text := goodPatch
	j := runner.Job{
		Instance: &datasets.Instance{
			ID: id, Repo: "owner/name", BaseCommit: "0123456789abcdef0123456789abcdef01234567",
			FailToPass: []string{"tests/test_x.py::test_new"}, PassToPass: []string{"tests/test_x.py::test_old"},
		},
		Recipe:     &datasets.Recipe{Evaluation: datasets.Evaluation{Test: "run the tests", LogParser: "parse_log_pytest", TestPatch: testPatch}},
		Prediction: &datasets.Prediction{InstanceID: id, Model: "model", Patch: &text},
	}
	for _, edit := range edits {
		edit(&j)
	}
	return j
}

func withPatch(text string) func(*runner.Job) {
	return func(j *runner.Job) { j.Prediction.Patch = &text }
}

func withEvaluation(edit func(*datasets.Evaluation)) func(*runner.Job) {
	return func(j *runner.Job) { edit(&j.Recipe.Evaluation) }
}

// phase is how a phase goes: what it prints and how it ends.
type phase func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error)

// prints is a phase that prints a text and exits. The words NONCE and MARK stand
// for those of the script being run; of several, each prints its own.
func prints(text string, code int) phase {
	return func(_ context.Context, _ *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
		for _, f := range cmd.Files {
			if path.Ext(f.Path) != ".sh" {
				continue
			}
			script, text := string(f.Data), text
			if m := regexp.MustCompile(`(?m)^nonce=(\w+)$`).FindStringSubmatch(script); m != nil {
				text = strings.ReplaceAll(text, "NONCE", m[1])
			}
			text = strings.ReplaceAll(text, "MARK", regexp.MustCompile(`\[evalrun \w+\]`).FindString(script))
			io.WriteString(cmd.Output, text)
		}
		return sandbox.Result{ExitCode: code}, nil
	}
}

// fails is a phase during which the engine fails.
func fails(err error) phase {
	return func(context.Context, *sandboxtest.FakeSandbox, sandbox.Command) (sandbox.Result, error) {
		return sandbox.Result{ExitCode: -1}, err
	}
}

// hangs is a phase that prints something and does not end.
func hangs(text string) phase {
	return func(ctx context.Context, _ *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
		io.WriteString(cmd.Output, text)
		<-ctx.Done()
		return sandbox.Result{}, nil
	}
}

// takes is a phase that lasts.
func takes(d time.Duration, then phase) phase {
	return func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
		if err := sandboxtest.Sleep(ctx, d); err != nil {
			return sandbox.Result{}, err
		}
		return then(ctx, box, cmd)
	}
}

// dies is a phase that ends its sandbox.
func dies(_ context.Context, box *sandboxtest.FakeSandbox, _ sandbox.Command) (sandbox.Result, error) {
	box.Kill()
	return sandbox.Result{}, nil
}

// inTurn is a phase that goes differently each time.
func inTurn(phases ...phase) phase {
	var mu sync.Mutex
	return func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
		mu.Lock()
		p := phases[0]
		if len(phases) > 1 {
			phases = phases[1:]
		}
		mu.Unlock()
		return p(ctx, box, cmd)
	}
}

// kit is a run on a fake engine.
type kit struct {
	fake    *sandboxtest.Fake
	phases  map[string]phase // by the name of the script
	options runner.Options
	images  *fakeImages
	seen    *observer
	runner  *runner.Runner // of the last run

	mu  sync.Mutex
	ran []string // instance/script, in the order they began
}

func newKit(t *testing.T) *kit {
	t.Helper()
	k := &kit{fake: &sandboxtest.Fake{}, images: &fakeImages{}, seen: &observer{}}
	k.phases = map[string]phase{
		"apply.sh":    prints("NONCE try 1 1 0 -\nNONCE applied 1 1\n", 0),
		"restore.sh":  prints("NONCE path absent dGVzdHMvdGVzdF94LnB5\nNONCE try 1 1 0 -\nNONCE applied 1 1\n", 0),
		"setup.sh":    prints("set up\n", 0),
		"build.sh":    prints("built\n", 0),
		"test.sh":     prints(passing, 0),
		"snapshot.sh": prints("NONCE tree 0123456789abcdef0123456789abcdef01234567\nNONCE done\n", 0),
		"changes.sh":  prints("NONCE tree 0123456789abcdef0123456789abcdef01234567\nNONCE done\n", 0),
	}
	k.fake.OnExec = k.exec
	k.options = runner.Options{
		RunID: "run", Layout: reports.Layout{Root: t.TempDir()}, Driver: k.fake, Images: k.images, Observer: k.seen,
		Workers: 2, Builders: 2, Rules: grading.DefaultRules, Network: func(context.Context, runner.Image) (string, error) { return "none (verified)", nil },
		Limits: runner.Limits{Sandbox: sandbox.Limits{MemoryBytes: 1 << 30, Pids: 100, DiskBytes: 1 << 30}, Timeout: 30 * time.Minute, OutputBytes: 1 << 20},
	}
	return k
}

// exec runs the scripts of a command one after the other, as a shell would.
func (k *kit) exec(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (res sandbox.Result, err error) {
	if len(cmd.Files) == 0 {
		return k.phase(ctx, box, path.Base(cmd.Argv[len(cmd.Argv)-1]), cmd)
	}
	for i, f := range cmd.Files {
		if path.Ext(f.Path) != ".sh" {
			continue
		}
		one := cmd
		one.Files = cmd.Files[i : i+1]
		if res, err = k.phase(ctx, box, path.Base(f.Path), one); err != nil || ctx.Err() != nil || res.DiskFull {
			return res, err
		}
	}
	return res, nil
}

func (k *kit) phase(ctx context.Context, box *sandboxtest.FakeSandbox, name string, cmd sandbox.Command) (sandbox.Result, error) {
	if name == "true" { // what follows a set-up where no script of ours does
		return sandbox.Result{}, nil
	}
	k.mu.Lock()
	k.ran = append(k.ran, box.Spec.Labels["evalrun.instance"]+"/"+name)
	p, ok := k.phases[name]
	k.mu.Unlock()
	if !ok {
		return sandbox.Result{ExitCode: -1}, fmt.Errorf("the test does not know the script %s", name)
	}
	return p(ctx, box, cmd)
}

// run runs the jobs. In its bubble time passes at once, and a goroutine left
// behind makes the test fail. What was made has to be destroyed, whatever happened.
func (k *kit) run(t *testing.T, ctx func() context.Context, jobs ...runner.Job) (attempts []reports.Attempt, left []runner.Leftover, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := runner.New(k.options)
		k.runner = r
		c := context.Background()
		if ctx != nil {
			c = ctx()
		}
		attempts, err = r.Run(c, jobs)
		left = r.Leftovers()
	})
	if n := k.fake.Live() - len(left); n != 0 {
		t.Errorf("%d sandboxes are left", n)
	}
	if len(attempts) != len(jobs) {
		t.Fatalf("%d records of %d jobs", len(attempts), len(jobs))
	}
	for i, a := range attempts {
		if a.InstanceID != jobs[i].Instance.ID || a.Model != jobs[i].Prediction.Model {
			t.Errorf("record %d is of %s and %s, job of %s and %s", i, a.InstanceID, a.Model, jobs[i].Instance.ID, jobs[i].Prediction.Model)
		}
	}
	return attempts, left, err
}

// one runs one job that must not end the run.
func (k *kit) one(t *testing.T, j runner.Job) reports.Attempt {
	t.Helper()
	attempts, _, err := k.run(t, nil, j)
	if err != nil {
		t.Fatal(err)
	}
	return attempts[0]
}

// stored reads back what is on disk.
func (k *kit) stored(t *testing.T) map[string]reports.Attempt {
	t.Helper()
	list, problems := reports.LoadAttempts(k.options.Layout, "run", "model")
	for _, p := range problems {
		t.Error(p)
	}
	found := map[string]reports.Attempt{}
	for _, a := range list {
		found[a.InstanceID] = a
	}
	return found
}

type fakeImages struct {
	image func(ctx context.Context, inst *datasets.Instance) (runner.Image, error)
	there func(inst *datasets.Instance) (runner.Image, bool, error) // nil knows of none
}

func (f *fakeImages) There(_ context.Context, inst *datasets.Instance) (runner.Image, bool, error) {
	if f.there != nil {
		return f.there(inst)
	}
	return runner.Image{}, false, nil
}

func (f *fakeImages) Image(ctx context.Context, inst *datasets.Instance) (runner.Image, error) {
	if f.image != nil {
		return f.image(ctx, inst)
	}
	return runner.Image{Ref: "image-of-" + inst.ID, Digest: "sha256:" + inst.ID, Env: []string{"A=b"}}, nil
}

// observer remembers what it was told.
type observer struct {
	mu      sync.Mutex
	workers map[int]string
	done    []string
}

func (o *observer) Worker(worker int, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.workers == nil {
		o.workers = map[int]string{}
	}
	o.workers[worker] = text
}

func (o *observer) Done(a *reports.Attempt) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done = append(o.done, a.InstanceID)
}
