package redteam_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/datasets/demo"
	"github.com/evalrun/evalrun/datasets/swebench"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/builder"
	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/mirror"
	"github.com/evalrun/evalrun/internal/provision"
	"github.com/evalrun/evalrun/internal/redteam"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/screen"
	"github.com/evalrun/evalrun/reports"
)

// limits are small, so that attacks on resources end soon.
var limits = runner.Limits{
	Sandbox: sandbox.Limits{CPUs: 1, MemoryBytes: 512 << 20, Pids: 128, DiskBytes: 128 << 20},
	Timeout: time.Minute, OutputBytes: 4 << 20,
}

// field is a real engine with the images of the demo dataset.
type field struct {
	engine    *engine.Engine
	host      *host
	provider  *provision.Provider
	instances map[string]*datasets.Instance
	dir       string
}

// asked is the engine that EVALRUN_REDTEAM_ENGINE names.
func asked() string {
	if name := os.Getenv("EVALRUN_REDTEAM_ENGINE"); name != "" {
		return name
	}
	return engine.Docker
}

func newField(t testing.TB, name string) *field {
	t.Helper()
	if testing.Short() {
		t.Skip("runs patches on a real engine")
	}
	ctx := t.Context()
	eng, err := engine.Open(ctx, engine.Options{Name: name, CacheDir: cache.Dir()})
	if err != nil {
		required := "EVALRUN_REQUIRE_DOCKER"
		if name == engine.Embedded {
			required = "EVALRUN_REQUIRE_OCI"
		}
		if os.Getenv(required) != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() { eng.Close() })
	f := &field{engine: eng, dir: t.TempDir(), instances: map[string]*datasets.Instance{}}
	f.host = watchHost(t, eng.Sandbox, name)
	repositories := filepath.Join(f.dir, "repositories")
	if err := demo.Materialize(ctx, repositories); err != nil {
		t.Fatal(err)
	}
	if err := demo.WriteTo(f.dir); err != nil {
		t.Fatal(err)
	}
	ds, err := datasets.Load(ctx, filepath.Join(f.dir, "demo.jsonl"), datasets.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	recipes := map[string]*datasets.Recipe{}
	for i := range ds.Instances {
		inst := &ds.Instances[i]
		recipe, err := swebench.Derive(inst)
		if err != nil {
			t.Fatal(err)
		}
		recipes[inst.ID], f.instances[strings.TrimPrefix(inst.ID, demo.Owner+"__")] = &recipe, inst
	}
	f.provider = newProvider(t, eng, repositories, recipes)
	return f
}

// newProvider builds images as `evalrun demo` does, so that both share them.
func newProvider(t testing.TB, eng *engine.Engine, repositories string, recipes map[string]*datasets.Recipe) *provision.Provider {
	t.Helper()
	mirrors, err := mirror.Parse([]string{repositories})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := images.OpenLock(filepath.Join(t.TempDir(), "images.lock"), false)
	if err != nil {
		t.Fatal(err)
	}
	b := builder.New(builder.Options{Engine: eng.Images, CacheDir: cache.Dir(), Lock: lock, Settings: builder.HostSettings(), Parallel: 2})
	return &provision.Provider{
		Mode: provision.Build, HasRepos: true, Builder: b, Store: eng.Images, Lock: lock, Recipes: recipes,
		Resolver: &images.Resolver{
			Base: images.Source{Kind: "debian", Ref: "bookworm"}, Platform: eng.Platform(), Memo: filepath.Join(cache.Dir(), "digests"),
			BaseDigest: b.BaseDigest, HostSuite: images.HostSuite(), Mirrors: mirrors,
		},
	}
}

func (f *field) job(t testing.TB, c redteam.Case) runner.Job {
	t.Helper()
	inst := f.instances[c.Instance]
	if inst == nil {
		t.Fatalf("%s: there is no instance %q", c.Name, c.Instance)
	}
	recipe := *f.provider.Recipes[inst.ID]
	recipe.Evaluation.Setup, recipe.Evaluation.TimeoutSeconds = c.Setup, c.Seconds
	return runner.Job{Instance: inst, Recipe: &recipe, Prediction: &datasets.Prediction{InstanceID: inst.ID, Model: c.Name, Patch: &c.Patch}}
}

// gold are cases of all gold patches.
func (f *field) gold(name string) []redteam.Case {
	var cases []redteam.Case
	for id, inst := range f.instances {
		cases = append(cases, redteam.Case{Name: name, Instance: id, Expected: redteam.Resolved, Patch: inst.Patch})
	}
	slices.SortFunc(cases, func(a, b redteam.Case) int { return strings.Compare(a.Instance, b.Instance) })
	return cases
}

// grade makes an attempt at each case.
func (f *field) grade(t *testing.T, run string, cases []redteam.Case) []reports.Attempt {
	t.Helper()
	var jobs []runner.Job
	for _, c := range cases {
		jobs = append(jobs, f.job(t, c))
	}
	r := runner.New(runner.Options{
		RunID: run, Layout: reports.Layout{Root: f.dir}, Driver: f.host, Images: f.provider, Observer: quiet{},
		Workers: max(2, runtime.NumCPU()), Builders: 2, Limits: limits, Rules: grading.DefaultRules,
		Network: func(context.Context, runner.Image) (string, error) { return "", nil }, Verify: runner.VerifySuspicious,
	})
	attempts, err := r.Run(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	if left := r.Leftovers(); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	return attempts
}

// expect grades cases and holds each to how it must end. It returns how many that
// must not be resolved are by the rules alone.
func (f *field) expect(t *testing.T, run string, cases []redteam.Case) (bought int) {
	t.Helper()
	for i, a := range f.grade(t, run, cases) {
		c := cases[i]
		if a.Verdict != nil && a.Verdict.Resolved && c.Expected != redteam.Resolved {
			bought++
		}
		if why := wrong(c, &a); why != "" {
			t.Errorf("%s (%s): %s: %s %q; flagged %q; doubts %v; warnings %q", c.Name, c.Tries, why, a.Outcome, a.Reason, a.Trust.Flagged, a.Trust.Doubts, a.Warnings)
		}
	}
	return bought
}

// quiet observes nothing.
type quiet struct{}

func (quiet) Worker(int, string)    {}
func (quiet) Done(*reports.Attempt) {}

// batch is how many attempts are made between two looks at the gold patches.
const batch = 60

// TestHostile grades patches that try to buy a verdict. In between, the gold
// patches have to come out as ever.
func TestHostile(t *testing.T) {
	cases := readCases(t, "hostile", 60)
	f := newField(t, asked())
	every := "" // instance, or where only some cases are run one of them
	if os.Getenv("EVALRUN_REDTEAM") != "" {
		every = "textkit-1"
	}
	want := f.goldStatuses(t, "gold", every)
	bought := 0
	for n := 0; len(cases) > 0; n++ {
		some := cases[:min(batch, len(cases))]
		cases = cases[len(some):]
		run := fmt.Sprintf("hostile-%d", n)
		bought += f.expect(t, run, some)
		only := "-1" // one instance of each language
		if len(cases) == 0 || every != "" {
			only = every
		}
		if diff := cmp.Diff(ofInstances(want, only), f.goldStatuses(t, run+"-gold", only)); diff != "" {
			t.Errorf("after %s the gold patches come out otherwise (-before +after):\n%s", run, diff)
		}
		f.onlyOurFiles(t, run)
	}
	t.Logf("%d of them are resolved by the rules alone", bought)
	f.host.same(t)
}

// TestHonest grades patches that are odd and fair.
func TestHonest(t *testing.T) {
	cases := readCases(t, "honest", 40)
	f := newField(t, asked())
	f.expect(t, "honest", cases)
	f.host.same(t)
}

func readCases(t *testing.T, kind string, atLeast int) []redteam.Case {
	t.Helper()
	cases, err := redteam.Read(os.DirFS(filepath.Join("testdata", kind)))
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < atLeast {
		t.Fatalf("%d cases, want %d at least", len(cases), atLeast)
	}
	cases = slices.DeleteFunc(cases, func(c redteam.Case) bool { return c.Root && os.Geteuid() != 0 })
	if some := os.Getenv("EVALRUN_REDTEAM"); some != "" {
		match, err := regexp.Compile(some)
		if err != nil {
			t.Fatalf("EVALRUN_REDTEAM, a regular expression of names: %v", err)
		}
		cases = slices.DeleteFunc(cases, func(c redteam.Case) bool { return !match.MatchString(c.Name) })
	}
	// Cases of one instance in a row, as a run has them.
	slices.SortStableFunc(cases, func(a, b redteam.Case) int { return strings.Compare(a.Instance, b.Instance) })
	return cases
}

// wrong says what is wrong with how an attempt ended, or "".
func wrong(c redteam.Case, a *reports.Attempt) string {
	resolved := a.Outcome == grading.Resolved
	switch {
	case !a.Outcome.Evaluated():
		return "it was not evaluated"
	case c.Unsafe != (a.Outcome == grading.ApplyFailed):
		return fmt.Sprintf("refused is %t, want %t", !c.Unsafe, c.Unsafe)
	case !c.Unsafe && a.Patch.Applied == "" && !(a.Trust.SecondOpinion != nil):
		return "it was not applied, so that nothing is shown"
	case c.Expected == redteam.NotResolved && resolved:
		return "resolved"
	case c.Expected == redteam.Flagged && !resolved:
		return "not resolved, where a person was to look"
	case c.Expected == redteam.Flagged && len(a.Trust.Flagged) == 0:
		return "resolved, and nobody is told"
	case c.Expected == redteam.Resolved && !resolved:
		return "not resolved"
	case c.Expected == redteam.Resolved && beyondSuspicious(a):
		return "an honest patch is flagged"
	}
	return ""
}

// beyondSuspicious reports whether more is said than that the patch has lines or
// files that a person should look at.
func beyondSuspicious(a *reports.Attempt) bool {
	return a.Trust.Screen == nil || a.Trust.Screen.Level == screen.Blocked || len(a.Trust.Doubts) > 0 ||
		slices.ContainsFunc(a.Trust.Flagged, func(s string) bool { return !strings.HasPrefix(s, "the patch looks suspicious") })
}

// ofInstances keeps the statuses of instances whose names end so.
func ofInstances(statuses map[string]string, end string) map[string]string {
	kept := map[string]string{}
	for key, status := range statuses {
		if id, _, _ := strings.Cut(key, " "); strings.HasSuffix(id, end) {
			kept[key] = status
		}
	}
	return kept
}

// goldStatuses are the statuses of all tests after the gold patches of the
// instances whose names end so.
func (f *field) goldStatuses(t *testing.T, run, end string) map[string]string {
	t.Helper()
	statuses := map[string]string{}
	cases := slices.DeleteFunc(f.gold("gold"), func(c redteam.Case) bool { return !strings.HasSuffix(c.Instance, end) })
	for _, a := range f.grade(t, run, cases) {
		if a.Outcome != grading.Resolved || len(a.Trust.Flagged) > 0 {
			t.Errorf("%s: gold of %s: %s %s, flagged %q", run, a.InstanceID, a.Outcome, a.Reason, a.Trust.Flagged)
		}
		if a.Verdict == nil {
			continue
		}
		for name, status := range a.Verdict.Statuses.All() {
			statuses[a.InstanceID+" "+name] = string(status)
		}
	}
	return statuses
}

// onlyOurFiles looks for what does not belong into a run's folder.
func (f *field) onlyOurFiles(t *testing.T, run string) {
	t.Helper()
	ours := []string{"patch.diff", "eval.sh", "test_output.txt", "second_opinion_output.txt", "run_instance.log", "report.json", "attempt.json", "run.json", "journal.jsonl"}
	err := filepath.WalkDir(reports.Layout{Root: f.dir}.RunDir(run), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !slices.Contains(ours, d.Name()) || !d.Type().IsRegular() {
			t.Errorf("%s: a file that is not ours: %s", run, path)
		}
		if info, err := d.Info(); err == nil && info.Size() > 3*limits.OutputBytes {
			t.Errorf("%s: %s has %d bytes", run, path, info.Size())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
