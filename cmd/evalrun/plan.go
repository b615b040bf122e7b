package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/ledger"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/schedule"
	"github.com/evalrun/evalrun/reports"
)

// planCmd takes the flags of run, so that one word changes a run into its plan.
type planCmd struct{ runCmd }

func (planCmd) Help() string {
	return `Takes the flags of ` + "`evalrun run`" + ` and runs nothing: it says what that run would pull and
build, how long it would take and what it would need, judged by what earlier runs took.
Root file systems of bases are made, since layers are named after their content.

Examples:
  evalrun plan -d verified -p preds.jsonl --repo-mirror ./mirrors -j auto
  evalrun plan -d verified -p preds.jsonl --images pull --json | jq .time.total
`
}

// Run predicts a run.
func (c *planCmd) Run(e *env) error {
	spool := c.spool()
	defer spool.Close()
	j, err := c.job(e, spool)
	if err != nil {
		return err
	}
	eng, err := c.open(e)
	if err != nil {
		return err
	}
	defer eng.Close()
	provider, err := c.provider(e, eng, j.selected, &display{})
	if err != nil {
		return err
	}
	durations, err := schedule.OpenHistory(historyFile(c.cacheDir()))
	if err != nil {
		return err
	}
	made, err := schedule.OpenHistory(imageHistoryFile(c.cacheDir()))
	if err != nil {
		return err
	}
	c.shareOut(&j.limits.Sandbox, eng.Info.CPUs)
	jobs, err := newPlan(j.selected, j.sets, provider.Recipes, c.Attempts)
	if err != nil {
		return err
	}
	p := prediction{
		workers: c.Workers, builders: c.Builders, pulls: c.Pulls, limits: j.limits, capacity: capacity(eng.Info, c.Workers),
		jobs: jobs, earlier: c.finished(e, c.layout(j)), durations: durations, images: made,
	}
	c.whole(provider.Recipes)
	if !c.NoCache {
		r := runner.New(runner.Options{Limits: j.limits, Unenforced: eng.Unenforced(), RowCapabilities: c.Capabilities, Policy: j.policy, Verify: runner.Verify(c.Verify)})
		if p.shared, err = sharedWork(e.ctx, p.jobs, provider, r, ledger.Verdicts(c.cacheDir())); err != nil {
			return err
		}
	}
	missing, err := missingImages(e.ctx, provider, eng.Images, p.wanted())
	if err != nil {
		return err
	}
	doc, err := p.document(missing)
	if err != nil {
		return err
	}
	doc.Engine = eng.String()
	if c.JSON {
		enc := json.NewEncoder(e.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(doc)
	}
	return doc.write(e.stdout)
}

// finished says what came of the attempts that earlier calls of the run have finished; nil
// is that there are none.
func (c *runCmd) finished(e *env, layout reports.Layout) func(reports.AttemptID) grading.Outcome {
	found, err := ledger.Finished(ledger.Options{Layout: layout, RunID: c.RunID, Fresh: c.NoCache})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(e.stderr, "warning: the plan is that of a new run, since it cannot be read what earlier calls of run %s have done: %s\n",
			reports.SafeText(c.RunID), reports.SafeText(err.Error()))
	}
	return found
}

// sharing says whose result an attempt would take, where it would not be made.
type sharing uint8

const (
	madeAnew    sharing = iota
	ofOtherRun          // it is in the cache
	ofSamePatch         // of another attempt of the run
)

// imagesThere gives the images that need not be built or pulled.
type imagesThere interface {
	There(ctx context.Context, inst *datasets.Instance) (runner.Image, bool, error)
}

// sharedWork finds for each job whether it would take another one's result. Where an
// image is still to come, its digest is not known, and nor is what was run in it.
func sharedWork(ctx context.Context, jobs runner.Jobs, images imagesThere, r *runner.Runner, verdicts *cache.Store) ([]sharing, error) {
	shared := make([]sharing, jobs.Len())
	type work struct {
		patch      string
		repetition int
	}
	seen := map[work]bool{} // of one instance, whose jobs stand in a row
	var inst *datasets.Instance
	var img runner.Image
	var there bool
	for i := range shared {
		if jobs.Empty(i) {
			continue
		}
		if jobs.Instance(i) != inst {
			inst = jobs.Instance(i)
			clear(seen)
			var err error
			if img, there, err = images.There(ctx, inst); err != nil {
				return nil, err
			}
		}
		j, err := jobs.Job(i)
		if err != nil {
			return nil, err
		}
		w := work{j.Prediction.SHA256(), j.Repetition}
		switch {
		case there && ledger.Has(verdicts, r.RunKey(j, img)):
			shared[i] = ofOtherRun
		case seen[w]:
			shared[i] = ofSamePatch
		}
		seen[w] = true
	}
	return shared, nil
}

// imageHistoryFile is where it is kept how long images took to make or fetch, and
// how large they are.
func imageHistoryFile(cacheDir string) string {
	return filepath.Join(cacheDir, "image-durations.jsonl")
}

// imageTimes takes down how long images took. Those that were there took no time.
func imageTimes(ctx context.Context, h *schedule.History, eng *engine.Engine) func(runner.Event) {
	sizes, _ := eng.Images.(interface {
		ImageSize(ctx context.Context, ref string) (int64, error)
	})
	return func(ev runner.Event) {
		const there = 500 * time.Millisecond
		if ev.Kind != runner.ImageReady || ev.Err != nil || ev.Took < there {
			return
		}
		o := schedule.Observation{Instance: ev.Job.Instance.ID, Repo: ev.Job.Instance.Repo, Seconds: ev.Took.Seconds()}
		if sizes != nil {
			// Without a size there is only a time.
			o.DiskBytes, _ = sizes.ImageSize(ctx, ev.Image.Digest)
		}
		h.Observe(o)
	}
}

// imagesMissing are those that are not in the engine's store.
type imagesMissing struct {
	Have     int      `json:"have"`
	Pull     []string `json:"pull"`
	Base     int      `json:"build_base"`
	Env      int      `json:"build_env"`
	Instance int      `json:"build_instance"`
	pulled   []*datasets.Instance
	built    []*datasets.Instance
}

type imageLookup interface {
	Image(ctx context.Context, ref string) (digest string, ok bool, err error)
}

// missingImages asks the engine for each image of a run.
func missingImages(ctx context.Context, p planner, store imageLookup, wanted []*datasets.Instance) (imagesMissing, error) {
	m := imagesMissing{Pull: []string{}}
	var specs []images.InstanceSpec
	for _, inst := range wanted {
		ref := p.Prebuilt(inst)
		pulled := ref != ""
		var spec images.InstanceSpec
		if !pulled {
			var err error
			if spec, err = p.Spec(ctx, inst); err != nil {
				return m, err
			}
			ref = images.Reference(images.Instance, spec.Key())
		}
		_, have, err := store.Image(ctx, ref)
		switch {
		case err != nil:
			return m, err
		case have:
			m.Have++
		case pulled:
			m.Pull, m.pulled = append(m.Pull, ref), append(m.pulled, inst)
		default:
			specs, m.built = append(specs, spec), append(m.built, inst)
		}
	}
	plan := images.NewPlan(specs)
	m.Instance = len(plan.Instances)
	for kind, n := range map[images.Kind]*int{images.Base: &m.Base, images.Env: &m.Env} {
		for _, key := range plan.Keys(kind) {
			_, have, err := store.Image(ctx, images.Reference(kind, key))
			if err != nil {
				return m, err
			}
			if !have {
				*n++
			}
		}
	}
	return m, nil
}

// planDocument is what plan --json prints. Times are seconds, in ranges that hold
// four times out of five; sizes are bytes. What is not known is null.
type planDocument struct {
	SchemaVersion int            `json:"schema_version"`
	Engine        string         `json:"engine"`
	Instances     int            `json:"instances"`
	Attempts      int            `json:"attempts"`
	Reused        int            `json:"reused"`     // taken over from an earlier call of this run, if nothing has changed
	OtherRuns     int            `json:"other_runs"` // taken over from another run
	SamePatch     int            `json:"same_patch"` // taken over from another attempt of this run
	Empty         int            `json:"empty"`      // without a patch: nothing is run
	Known         map[string]int `json:"known_by"`   // by what the times of the others are known
	Workers       int            `json:"workers"`
	Auto          bool           `json:"workers_auto"`
	Images        imagesMissing  `json:"images"`
	Time          planTime       `json:"time"`
	CPUSeconds    float64        `json:"cpu_seconds"`
	Memory        planRoom       `json:"memory"`
	Disk          planRoom       `json:"disk"`
	ImageBytes    *planBytes     `json:"image_bytes"` // that will come; low if all is shared, high if nothing is
}

type planTime struct {
	Images *planRange `json:"images"` // null where none is missing
	Tests  planRange  `json:"tests"`
	Total  planRange  `json:"total"`
}

type planRange struct {
	Low  float64 `json:"low"`
	Mid  float64 `json:"mid"`
	High float64 `json:"high"`
}

type planBytes struct {
	Low  int64 `json:"low"`
	High int64 `json:"high"`
}

// planRoom is what runs at a time will need, and what there is.
type planRoom struct {
	Needed   int64 `json:"needed"`
	Capacity int64 `json:"capacity"` // 0 is not known
}

func rangeOf(r schedule.Range) planRange {
	return planRange{r.Low.Seconds(), r.Mid.Seconds(), r.High.Seconds()}
}

// write is the plan for people.
func (d *planDocument) write(w io.Writer) error {
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", what, reports.SafeText(fmt.Sprintf(format, args...)))
	}
	clocks := func(r planRange) string {
		s := func(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
		return span(s(r.Low), s(r.High))
	}
	line("engine", "%s", d.Engine)
	line("attempts", "%d of %d instances; %d reused from an earlier call, %d without a patch", d.Attempts, d.Instances, d.Reused, d.Empty)
	if d.OtherRuns+d.SamePatch > 0 {
		line("", "%d reused from other runs, %d at the same patch as another one: they are not made (--no-cache makes them)", d.OtherRuns, d.SamePatch)
	}
	line("images", "%d there, %d to pull, %d to build (with %d bases, %d environments)", d.Images.Have, len(d.Images.Pull), d.Images.Instance, d.Images.Base, d.Images.Env)
	const first = 10
	for i, ref := range d.Images.Pull {
		if i == first {
			line("  pull", "and %d more (--json has all)", len(d.Images.Pull)-first)
			break
		}
		line("  pull", "%s", ref)
	}
	if d.Time.Images != nil {
		line("", "%s to make or fetch, beside the tests", clocks(*d.Time.Images))
	}
	workers := fmt.Sprintf("%d at a time", d.Workers)
	if d.Auto {
		workers += " (auto, on average)"
	}
	line("tests", "%s, %s, %.0f s of processor time", clocks(d.Time.Tests), workers, d.CPUSeconds)
	var known []string
	for _, level := range []schedule.Level{schedule.ByInstance, schedule.ByRepo, schedule.ByDefault, schedule.Guessed} {
		if n := d.Known[level.String()]; n > 0 {
			known = append(known, fmt.Sprintf("%d by %s", n, map[schedule.Level]string{
				schedule.ByInstance: "their own earlier runs", schedule.ByRepo: "others of their repository",
				schedule.ByDefault: "other repositories", schedule.Guessed: "nothing, so that the range is a guess",
			}[level]))
		}
	}
	if len(known) > 0 {
		line("", "known: %s", strings.Join(known, ", "))
	}
	line("in all", "%s (four times out of five)", clocks(d.Time.Total))
	line("memory", "%s at a time%s", sizeOf(d.Memory.Needed), ofCapacity(d.Memory.Capacity))
	disk := sizeOf(d.Disk.Needed) + " written by sandboxes at a time"
	switch {
	case d.ImageBytes != nil:
		disk += fmt.Sprintf(", %s to %s for new images", sizeOf(d.ImageBytes.Low), sizeOf(d.ImageBytes.High))
	case d.Time.Images != nil:
		disk += ", and new images, whose sizes are not known"
	}
	line("disk", "%s%s", disk, ofCapacity(d.Disk.Capacity))
	_, err := io.WriteString(w, b.String())
	return err
}

func ofCapacity(n int64) string {
	if n == 0 {
		return ""
	}
	return ", of " + sizeOf(n) + " there are"
}

func sizeOf(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n > 0:
		return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20)
	}
	return "0 MiB"
}
