package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/provenance"
)

// provenance fills in what a run is known by, besides what it is about.
func (c *runCmd) provenance(r *reports.RunRecord, j job, eng *engine.Engine) {
	r.RowHashes = make(map[string]string, len(j.selected))
	for i := range j.selected {
		r.RowHashes[j.selected[i].ID] = j.selected[i].Hash()
	}
	r.Build = buildRecord()
	r.Host = reports.HostRecord{CPUs: eng.Info.CPUs, Architecture: eng.Info.Architecture, MemoryBytes: hostMemory()}
	r.Policy = map[string]string{
		"script": c.Script, "row-capabilities": strconv.FormatBool(c.Capabilities), "images": c.Images, "frozen": strconv.FormatBool(c.Frozen),
		"python": c.Python, "audit": c.Audit, "scrub-history": strconv.FormatBool(c.ScrubHistory), "verify": c.Verify,
	}
	if c.Limits.ReadOnly {
		r.Policy["read-only"] = "true"
	}
	if r.Limits.User != "" {
		r.Policy["user"] = r.Limits.User
	}
	if c.Policy != "" {
		r.Policy["policy"] = hashOf(c.Policy)
	}
}

// hostMemory is what this machine has, 0 where that is not known.
func hostMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}

// buildRecord is what the compiler knows of this program.
func buildRecord() reports.BuildRecord {
	b := reports.BuildRecord{Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// writeStatement writes what may be signed of a run: of all its attempts on disk,
// whichever call made them. An interrupted run has one, too.
func writeStatement(layout reports.Layout, record *reports.RunRecord) error {
	var all []reports.Attempt
	for _, model := range record.Models {
		attempts, _ := reports.LoadAttempts(layout, record.RunID, model) // what cannot be read is not stated
		all = append(all, attempts...)
	}
	s, err := provenance.New(context.Background(), layout, record, all)
	if err != nil {
		return err
	}
	return s.Write(layout)
}

// writeSums writes the list of all files of a run, when all of them are there. Like
// the statement, it is written of an interrupted run, too.
func writeSums(layout reports.Layout, record *reports.RunRecord) error {
	s, err := provenance.Sum(context.Background(), layout, record)
	if err != nil {
		return fmt.Errorf("run %q: hash its files: %w", record.RunID, err)
	}
	return s.Write(layout, record.RunID)
}
