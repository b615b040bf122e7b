package html

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	units "github.com/docker/go-units"
	"golang.org/x/sync/errgroup"

	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/results"
)

// details of one instance: the tests, and what every system did with them.
type details struct {
	F2P     []string  `json:"f,omitempty"`
	P2P     []string  `json:"p,omitempty"`
	Systems []*detail `json:"s"`
}

// detail is all of one attempt that is shown. F2P and P2P have a letter for each
// test: p passed, f not, - not counted.
type detail struct {
	F2P    *string     `json:"f,omitempty"`
	P2P    *string     `json:"p,omitempty"`
	Reason string      `json:"reason,omitempty"`
	Flags  []string    `json:"flags,omitempty"`
	Links  [][2]string `json:"links,omitempty"` // name and path of files
	Patch  *diff       `json:"patch,omitempty"`
	Log    *excerpt    `json:"log,omitempty"`
	Phases []phase     `json:"phases,omitempty"`
	Facts  []facts     `json:"facts,omitempty"`
}

type phase struct {
	Name    string  `json:"name"`
	Exit    int     `json:"exit"`
	Seconds float64 `json:"seconds"`
	Output  string  `json:"output"`
}

// facts are names and values below a heading.
type facts struct {
	Name  string      `json:"name"`
	Pairs [][2]string `json:"pairs"`
}

// writeDetails puts the details into the store, piece by piece and in order, with
// several at work.
func (d *data) writeDetails(ctx context.Context, p *Page, path string, store *store) error {
	if !hasDetails(p.Sets) {
		return nil
	}
	const attempts = 32 // in a piece
	d.Chunk = max(1, attempts/len(p.Sets))
	n := (len(d.Rows) + d.Chunk - 1) / d.Chunk
	packed := make([]chan []byte, n)
	for i := range packed {
		packed[i] = make(chan []byte, 1)
	}
	g, ctx := errgroup.WithContext(ctx)
	ahead := make(chan struct{}, 4*runtime.NumCPU()) // bounds what is held
	g.Go(func() error {
		for i := range packed {
			select {
			case text := <-packed[i]:
				<-ahead
				if err := store.add(text); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	next := make(chan int)
	g.Go(func() error {
		defer close(next)
		for i := range n {
			select {
			case ahead <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case next <- i:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range runtime.NumCPU() {
		g.Go(func() error {
			packer, memory := newPacker(), &scratch{}
			for i := range next {
				text, err := d.pack(packer, memory, path, p.Sets, i*d.Chunk, min((i+1)*d.Chunk, len(d.Rows)))
				if err != nil {
					return err
				}
				packed[i] <- text
			}
			return nil
		})
	}
	return g.Wait()
}

// hasDetails: a page of summaries has nothing to open.
func hasDetails(sets []*results.Set) bool {
	for _, s := range sets {
		for i := range s.Items {
			if !bare(&s.Items[i]) {
				return true
			}
		}
	}
	return false
}

// bare items are outcomes and nothing else.
func bare(it *results.Item) bool {
	return it.Dir == "" && it.Patch == "" && it.Record == nil && it.FailToPass == nil && it.PassToPass == nil
}

func (d *data) pack(packer *packer, memory *scratch, path string, sets []*results.Set, from, to int) ([]byte, error) {
	piece := make([]details, 0, to-from)
	for n := from; n < to; n++ {
		one, err := newDetails(memory, path, sets, d.items[n])
		if err != nil {
			return nil, fmt.Errorf("instance %s: %w", d.Rows[n].ID, err)
		}
		piece = append(piece, one)
	}
	raw, err := json.Marshal(piece)
	if err != nil {
		return nil, err
	}
	return packer.pack(raw)
}

func newDetails(memory *scratch, path string, sets []*results.Set, items []*results.Item) (details, error) {
	out := details{Systems: make([]*detail, len(items))}
	f2p, p2p := newNames(), newNames()
	for _, it := range items {
		if it != nil {
			f2p.add(it.FailToPass)
			p2p.add(it.PassToPass)
		}
	}
	out.F2P, out.P2P = f2p.shown(), p2p.shown()
	var errs []error
	for n, it := range items {
		if it == nil || bare(it) {
			continue
		}
		one, err := newDetail(memory, path, sets[n].Record, it)
		one.F2P, one.P2P = f2p.letters(it.FailToPass), p2p.letters(it.PassToPass)
		out.Systems[n] = one
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

func newDetail(memory *scratch, path string, record *reports.RunRecord, it *results.Item) (*detail, error) {
	out := &detail{Reason: reports.SafeText(it.Reason)}
	if a := it.Record; a != nil {
		out.Flags = flagsOf(a)
		out.Facts = factsOf(a)
		if record != nil && record.RowHashes[it.ID] != "" {
			from := &out.Facts[1]
			from.Pairs = append(from.Pairs, [2]string{"row sha256", reports.SafeText(record.RowHashes[it.ID])})
		}
		for _, p := range a.Phases {
			output := units.BytesSize(float64(p.OutputBytes))
			if p.Truncated {
				output += ", the middle left out"
			}
			if p.TimedOut {
				output += ", timed out"
			}
			out.Phases = append(out.Phases, phase{reports.SafeText(p.Name), p.ExitCode, p.Seconds, output})
		}
	}
	if it.Patch != "" {
		out.Patch = memory.newDiff([]byte(it.Patch[:min(len(it.Patch), mostPatch)]), int64(len(it.Patch)))
	}
	if it.Dir == "" {
		return out, nil
	}
	have, err := regularFiles(it.Dir)
	if err != nil {
		return out, err
	}
	if have["patch.diff"] {
		run, err := memory.readPatch(filepath.Join(it.Dir, "patch.diff"))
		if err != nil {
			return out, err
		}
		if run != nil {
			out.Patch = run // what the log is of
		}
	}
	for _, name := range []string{"test_output.txt", "run_instance.log"} {
		if out.Log != nil || !have[name] {
			continue
		}
		if out.Log, err = memory.readLog(filepath.Join(it.Dir, name), name, it); err != nil {
			return out, err
		}
	}
	folder := relativeLink(path, it.Dir)
	for _, name := range []string{"patch.diff", "test_output.txt", "run_instance.log", "eval.sh", "report.json", "attempt.json"} {
		if have[name] {
			out.Links = append(out.Links, [2]string{name, folder + "/" + component(name)})
		}
	}
	return out, nil
}

// regularFiles are the names of those in a folder; none where there is no folder.
func regularFiles(dir string) (map[string]bool, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	have := make(map[string]bool, len(entries))
	for _, e := range entries {
		have[e.Name()] = e.Type().IsRegular()
	}
	return have, nil
}

// flagsOf is what a person should look at.
func flagsOf(a *reports.Attempt) []string {
	var out []string
	add := func(texts ...string) {
		for _, t := range texts {
			out = append(out, reports.SafeText(t))
		}
	}
	add(a.Trust.Flagged...)
	for _, d := range a.Trust.Doubts {
		add(d.String())
	}
	if s := a.Trust.Screen; s != nil {
		for _, f := range s.Findings {
			add("patch: " + f.String())
		}
	}
	if o := a.Trust.SecondOpinion; o != nil {
		verdict := "resolved, too"
		if !o.Resolved {
			verdict = "not resolved: " + o.Reason
		}
		add("second opinion without " + strings.Join(o.LeftOut, ", ") + ": " + verdict)
	}
	return out
}

// factsOf lists the resources and, field by field, the rest of the record.
func factsOf(a *reports.Attempt) []facts {
	use := facts{Name: "Resources"}
	add := func(name, value string) { use.Pairs = append(use.Pairs, [2]string{name, value}) }
	if peak := a.Usage.PeakMemoryBytes; peak > 0 {
		text := units.BytesSize(float64(peak))
		if limit := a.Limits.MemoryBytes; limit > 0 {
			text += fmt.Sprintf(", %.0f %% of %s", 100*float64(peak)/float64(limit), units.BytesSize(float64(limit)))
		}
		add("peak memory", text)
	}
	if a.Usage.OOMKills > 0 {
		add("killed for memory", fmt.Sprint(a.Usage.OOMKills))
	}
	if a.Usage.CPUSeconds > 0 {
		add("CPU time", fmt.Sprintf("%.1f s", a.Usage.CPUSeconds))
	}
	if a.Usage.ThrottledSeconds > 0 {
		add("throttled", fmt.Sprintf("%.1f s", a.Usage.ThrottledSeconds))
	}
	add("wall clock", fmt.Sprintf("%.1f s", a.Seconds))
	if sign := signOf(a.Sign); sign != "" {
		add("sign in the logs", sign)
	}
	from := facts{Name: "Provenance"}
	rest := *a // without what is shown elsewhere
	rest.Verdict, rest.Phases, rest.Trust, rest.Sign, rest.Usage = nil, nil, reports.TrustRecord{}, reports.FailureSign{}, reports.UsageRecord{}
	for _, p := range flattened(&rest, "usage", "reason", "outcome", "instance_id", "repo", "seconds", "schema_version") {
		const most = 4000
		from.Pairs = append(from.Pairs, [2]string{p.Name, clipBytes(p.Value, most)})
	}
	return []facts{use, from}
}

func clipBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " …"
}

// names are the tests of one list that any system knows of, in order.
type names struct {
	list []string
	at   map[string]int
}

func newNames() *names { return &names{at: map[string]int{}} }

func (n *names) add(t *results.Tests) {
	if t == nil {
		return
	}
	for _, part := range [][]string{t.Failed, t.Passed} {
		for _, name := range part {
			if _, known := n.at[name]; !known {
				n.at[name] = len(n.list)
				n.list = append(n.list, name)
			}
		}
	}
}

func (n *names) shown() []string { return safeAll(n.list) }

// letters is nil where nothing was graded.
func (n *names) letters(t *results.Tests) *string {
	if t == nil {
		return nil
	}
	out := []byte(strings.Repeat("-", len(n.list)))
	for _, name := range t.Passed {
		out[n.at[name]] = 'p'
	}
	for _, name := range t.Failed {
		out[n.at[name]] = 'f'
	}
	text := string(out)
	return &text
}
