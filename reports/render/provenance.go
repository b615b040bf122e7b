package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/results"
)

// Provenance shows what a run was made of and with. What is not known is left out.
func Provenance(r *reports.RunRecord) Document {
	return Document{{Lines: []string{""}, Table: &Table{Head: []string{"provenance", ""}, Rows: provenanceRows(r)}}}
}

// ProvenanceOf shows it for several systems: a table for each run, named after those
// that are of it. Results that others wrote have none.
func ProvenanceOf(sets []*results.Set) Document {
	var doc Document
	names := map[*reports.RunRecord]*Table{}
	for _, s := range sets {
		if s.Record == nil {
			continue
		}
		if t, ok := names[s.Record]; ok {
			t.Head[1] += ", " + s.Name
			continue
		}
		t := &Table{Head: []string{"provenance", s.Name}, Rows: provenanceRows(s.Record)}
		names[s.Record] = t
		doc = append(doc, Block{Lines: []string{""}, Table: t})
	}
	return doc
}

func provenanceRows(r *reports.RunRecord) [][]Cell {
	t := &Table{}
	add := func(name string, parts ...string) {
		var known []string
		for _, p := range parts {
			if strings.TrimSpace(p) != "" {
				known = append(known, strings.TrimSpace(p))
			}
		}
		if len(known) > 0 {
			t.Rows = append(t.Rows, cells(name, strings.Join(known, ", ")))
		}
	}
	add("dataset", r.Dataset.Name, r.Dataset.Split, digest(r.Dataset.SHA256))
	for _, p := range r.Predictions {
		add("predictions", p.Path, digest(p.SHA256))
	}
	add("rules", r.Rules)
	add("evalrun", r.Evalrun, r.Build.Revision, r.Build.Go)
	add("policy", policy(r.Policy)...)
	add("engine", r.Engine.Name+" "+r.Engine.Version, r.Engine.StorageDriver, r.Engine.Cgroup)
	add("machine", r.Platform, r.Kernel, count(int64(r.Host.CPUs), "processors"), count(r.Host.MemoryBytes>>30, "GiB"))
	l := r.Limits
	add("limits of one attempt", count(l.MemoryBytes>>20, "MiB"), count(l.Pids, "processes"), count(l.DiskBytes>>20, "MiB of disk"), count(l.OutputBytes>>20, "MiB of output"),
		count(int64(l.TimeoutSeconds), "seconds"), count(int64(l.SilenceSeconds), "seconds of silence"))
	add("network", r.Network)
	add("time", stamp(r.CreatedAt), stamp(r.FinishedAt))
	for _, model := range r.Models {
		add("taken over from an earlier call", count(int64(r.Reused[model]), "of "+model))
	}
	if n := len(r.RowHashes); n > 0 {
		add("rows", fmt.Sprintf("%d by hash, in run.json", n))
	}
	if n := len(r.ImageDigests); n > 0 {
		add("images", fmt.Sprintf("%d by digest, in run.json", n))
	}
	add("not the pinned environment", r.Deviations...)
	return t.Rows
}

func policy(flags map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		out = append(out, name+" "+flags[name])
	}
	return out
}

func digest(sum string) string {
	if sum == "" {
		return ""
	}
	return "sha256:" + sum
}

func count(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
