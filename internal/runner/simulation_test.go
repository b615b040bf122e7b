package runner_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
	"github.com/evalrun/evalrun/internal/schedule"
	"github.com/evalrun/evalrun/reports"
)

// simulation is a run on an engine that is nothing but times and failures, drawn
// from a seed. What runs in it is the real runner, in virtual time.
type simulation struct {
	instances, workers, builders int
	seed                         uint64
	dir                          string

	seconds []float64 // of the tests of each instance
	first   []time.Time

	mu      sync.Mutex
	begun   time.Time
	ended   time.Time
	atWork  int
	most    int // commands at a time
	prepare int // images ready and not begun
	ahead   int // the most of them
	waits   []time.Duration
	peak    uint64
	done    int
	longest float64
	total   float64
}

// id has the number of an instance in it.
func (s *simulation) number(instance string) int {
	var n int
	fmt.Sscanf(instance, "sim__i-%d", &n)
	return n
}

// jobs draws the instances: log-normal times with a long tail, as test suites have.
func (s *simulation) jobs(h *schedule.History) []runner.Job {
	random := rand.New(rand.NewPCG(s.seed, 42))
	list := make([]runner.Job, s.instances)
	s.seconds, s.first = make([]float64, s.instances), make([]time.Time, s.instances)
	recipe := &datasets.Recipe{Evaluation: datasets.Evaluation{Test: "run the tests", LogParser: "parse_log_pytest"}}
	patch := goodPatch
	for i := range list {
		s.seconds[i] = min(20*math.Exp(1.1*random.NormFloat64()), 1500)
		s.longest, s.total = max(s.longest, s.seconds[i]), s.total+s.seconds[i]
		id := fmt.Sprintf("sim__i-%d", i)
		list[i] = runner.Job{
			Instance: &datasets.Instance{
				ID: id, Repo: fmt.Sprintf("sim/r%d", i%12), Version: fmt.Sprint(i % 7), BaseCommit: "0123456789abcdef0123456789abcdef01234567",
				FailToPass: []string{"tests/test_x.py::test_new"}, PassToPass: []string{"tests/test_x.py::test_old"},
			},
			Recipe: recipe, Prediction: &datasets.Prediction{InstanceID: id, Model: "model", Patch: &patch},
		}
		// What a machine has measured before is right up to a tenth or so.
		h.Observe(schedule.Observation{Instance: id, Repo: list[i].Instance.Repo, Seconds: s.seconds[i] * math.Exp(0.1*random.NormFloat64())})
	}
	return list
}

var nonce = regexp.MustCompile(`nonce=(\w+)`)

// engine answers commands in virtual time, and now and then with trouble.
func (s *simulation) engine() *sandboxtest.Fake {
	// Drawn of the instance, so that what goes on at a time does not matter.
	trouble := func(instance string, n int) bool { return (s.number(instance)*7919+n)%500 == 0 }
	var mu sync.Mutex
	starts := map[string]int{}
	return &sandboxtest.Fake{
		OnStart: func(ctx context.Context, spec sandbox.Spec) error {
			id := spec.Labels["evalrun.instance"]
			mu.Lock()
			starts[id]++
			n := starts[id]
			mu.Unlock()
			if err := sandboxtest.Sleep(ctx, 150*time.Millisecond); err != nil {
				return err
			}
			if n == 1 && trouble(id, 1) {
				return broken(cause.Timeout, "slow")
			}
			mu.Lock()
			delete(starts, id)
			mu.Unlock()
			return nil
		},
		OnExec: func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
			id := box.Spec.Labels["evalrun.instance"]
			for _, f := range cmd.Files {
				switch path.Base(f.Path) {
				case "test.sh":
					return s.test(ctx, id, cmd)
				case "apply.sh":
					m := nonce.FindSubmatch(f.Data)
					fmt.Fprintf(cmd.Output, "%[1]s try 1 1 0 -\n%[1]s applied 1 1\n", m[1])
				case "snapshot.sh", "changes.sh":
					m := nonce.FindSubmatch(f.Data)
					fmt.Fprintf(cmd.Output, "%[1]s tree 0123456789abcdef0123456789abcdef01234567\n%[1]s done\n", m[1])
				}
			}
			return sandbox.Result{}, sandboxtest.Sleep(ctx, 50*time.Millisecond)
		},
		OnDestroy: func(ctx context.Context, _ *sandboxtest.FakeSandbox) error {
			return sandboxtest.Sleep(ctx, 80*time.Millisecond)
		},
	}
}

func (s *simulation) test(ctx context.Context, id string, cmd sandbox.Command) (sandbox.Result, error) {
	i := s.number(id)
	s.mu.Lock()
	s.atWork++
	s.most = max(s.most, s.atWork)
	s.first[i] = time.Now()
	s.mu.Unlock()
	err := sandboxtest.Sleep(ctx, time.Duration(s.seconds[i]*float64(time.Second)))
	s.mu.Lock()
	s.atWork--
	s.ended = time.Now()
	s.mu.Unlock()
	fmt.Fprint(cmd.Output, passing)
	return sandbox.Result{}, err
}

// Image takes a while, and now and then a registry is slow.
func (s *simulation) Image(ctx context.Context, inst *datasets.Instance) (runner.Image, error) {
	pause := 2 * time.Second
	if s.number(inst.ID)%97 == 0 {
		pause = 40 * time.Second
	}
	return runner.Image{Ref: inst.ID, Digest: "sha256:" + inst.ID}, sandboxtest.Sleep(ctx, pause)
}

func (s *simulation) There(context.Context, *datasets.Instance) (runner.Image, bool, error) {
	return runner.Image{}, false, nil
}

func (s *simulation) Worker(int, string) {}

func (s *simulation) Done(a *reports.Attempt) {
	os.RemoveAll(filepath.Join(s.dir, "logs", "run_evaluation", a.RunID, a.Model, a.InstanceID))
	s.mu.Lock()
	s.done++
	look := s.done%2000 == 0
	s.mu.Unlock()
	if look {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s.mu.Lock()
		s.peak = max(s.peak, m.HeapAlloc)
		s.mu.Unlock()
	}
}

func (s *simulation) event(ev runner.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch ev.Kind {
	case runner.ImageReady:
		s.prepare++
		s.ahead = max(s.ahead, s.prepare)
	case runner.Entered:
		s.prepare--
		s.waits = append(s.waits, ev.Took)
	}
}

func (s *simulation) run(t testing.TB) []grading.Outcome {
	s.dir = t.TempDir()
	if _, err := os.Stat("/dev/shm"); err == nil {
		dir, err := os.MkdirTemp("/dev/shm", "evalrun-simulation-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		s.dir = dir
	}
	// The program has a limit, too: garbage is collected before memory grows.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(250 << 20))
	h := schedule.NewHistory()
	list := s.jobs(h)
	fake := s.engine()
	r := runner.New(runner.Options{
		RunID: "run", Layout: reports.Layout{Root: s.dir}, Driver: fake, Images: s, Observer: s, Events: s.event,
		Workers: s.workers, Builders: s.builders, Rules: grading.DefaultRules, Network: func(context.Context, runner.Image) (string, error) { return "", nil },
		History: h, Layer: func(inst *datasets.Instance) string { return inst.Repo + inst.Version },
		Limits: runner.Limits{Sandbox: sandbox.Limits{MemoryBytes: 1 << 30}, Timeout: time.Hour, OutputBytes: 1 << 20},
	})
	s.begun = time.Now()
	outcomes := make([]grading.Outcome, len(list))
	err := r.Make(context.Background(), runner.List(list), func(job int, a *reports.Attempt) { outcomes[job] = a.Outcome })
	if err != nil {
		t.Fatal(err)
	}
	if n := fake.Live(); n > 0 {
		t.Errorf("%d sandboxes are left", n)
	}
	return outcomes
}

func (s *simulation) check(t testing.TB, outcomes []grading.Outcome) {
	t.Helper()
	for i, o := range outcomes {
		if o != grading.Resolved {
			t.Fatalf("sim__i-%d: %q", i, o)
		}
	}
	bound := max(s.longest, s.total/float64(s.workers))
	makespan := s.ended.Sub(s.begun).Seconds()
	t.Logf("%d instances, %d workers: makespan %.0f s, lower bound %.0f s (%+.1f %%); at most %d at work, %d images ahead, one begun %s after one half as long, heap %d MiB",
		s.instances, s.workers, makespan, bound, 100*(makespan/bound-1), s.most, s.ahead, s.latest().Round(time.Second), s.peak>>20)
	if makespan > 1.05*bound {
		t.Errorf("the makespan is %.0f s, the lower bound %.0f s", makespan, bound)
	}
	if s.most > s.workers {
		t.Errorf("%d at work, with %d workers", s.most, s.workers)
	}
	if most := 3*s.workers + s.builders; s.ahead > most {
		t.Errorf("%d images were ready and not begun, want at most %d", s.ahead, most)
	}
	if longest := slices.Max(s.waits); longest.Seconds() > s.longest {
		t.Errorf("one waited %s for a worker, longer than the longest test", longest)
	}
	if late := s.latest(); late.Seconds() > overtaken*bound {
		t.Errorf("one was begun %s after one that takes half as long", late)
	}
	if s.peak > heap {
		t.Errorf("the heap grew to %d MiB, want less than %d", s.peak>>20, heap>>20)
	}
}

// heap is the most memory a run may take.
const heap = 250 << 20

// overtaken is how much later than one half as long an instance may be begun, as a
// part of the lower bound. A slow image holds up those that share its layer, and
// then they wait for room between the stages.
const overtaken = 0.15

// latest is by how much an instance was begun later than one that takes at most
// half as long, at worst: an instance that starves is begun last. Short ones are in
// no order.
func (s *simulation) latest() time.Duration {
	limit := max(s.longest, s.total/float64(s.workers)) / 40
	order := make([]int, s.instances)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(s.seconds[b], s.seconds[a]) })
	var begun time.Time // the last of those at least twice as long
	var worst time.Duration
	longer := 0
	for _, i := range order {
		if s.seconds[i] < limit {
			break
		}
		for s.seconds[order[longer]] >= 2*s.seconds[i] {
			if at := s.first[order[longer]]; at.After(begun) {
				begun = at
			}
			longer++
		}
		worst = max(worst, begun.Sub(s.first[i]))
	}
	return worst
}

// TestSimulation runs thousands of instances as they would run for hours. The whole
// size is that of TestFullSimulation.
func TestSimulation(t *testing.T) {
	s := &simulation{instances: 3000, workers: 100, builders: 20, seed: 1}
	if raceDetector {
		s.instances, s.workers = 600, 20
	}
	synctest.Test(t, func(t *testing.T) { s.check(t, s.run(t)) })
}

// TestFullSimulation is 100,000 instances on 1,000 workers; it takes minutes.
func TestFullSimulation(t *testing.T) {
	if os.Getenv("EVALRUN_SIMULATION") != "full" {
		t.Skip("minutes of work; `make simulate` runs it")
	}
	s := &simulation{instances: 100_000, workers: 1000, builders: 200, seed: 2}
	synctest.Test(t, func(t *testing.T) { s.check(t, s.run(t)) })
}
