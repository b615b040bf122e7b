package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets/demo"
	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
	"github.com/evalrun/evalrun/reports"
)

// program is evalrun as a process of its own, with the demo dataset beside it.
type program struct {
	bin, dir string
	engine   string
}

// eachEngine runs a benchmark on Docker and on the embedded engine, where there is
// one.
func eachEngine(b *testing.B, f func(b *testing.B, p *program)) {
	for _, name := range []string{engine.Docker, engine.Embedded} {
		b.Run(name, func(b *testing.B) {
			if name == engine.Embedded && os.Geteuid() != 0 {
				b.Skip("the embedded engine of this benchmark needs root")
			}
			eng, err := engine.Open(b.Context(), engine.Options{Name: name, CacheDir: b.TempDir()})
			if err != nil {
				b.Skip(err)
			}
			if err := eng.Close(); err != nil {
				b.Fatal(err)
			}
			f(b, newProgram(b, name))
		})
	}
}

func newProgram(b *testing.B, engine string) *program {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p := &program{dir: b.TempDir(), engine: engine}
	p.bin = filepath.Join(p.dir, "evalrun") // what the test binary is when it is called so
	if err := os.Symlink(exe, p.bin); err != nil {
		b.Fatal(err)
	}
	if err := demo.WriteTo(p.dir); err != nil {
		b.Fatal(err)
	}
	if err := demo.Materialize(b.Context(), filepath.Join(p.dir, "repositories")); err != nil {
		b.Fatal(err)
	}
	return p
}

// call runs a command on the demo's images.
func (p *program) call(b *testing.B, cacheDir string, args ...string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), p.bin, append(args, "--engine", p.engine, "--images", "build", "--repo-mirror", "repositories", "--cache", cacheDir)...)
	cmd.Dir = p.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
}

// BenchmarkStart is what passes from the call of evalrun to the first process of the
// tests, once there are images.
func BenchmarkStart(b *testing.B) {
	eachEngine(b, func(b *testing.B, p *program) {
		const id = "evalrun-demo__textkit-1"
		run := func() {
			p.call(b, cache.Dir(), "run", "-d", "demo.jsonl", "-p", "gold", "-i", id, "--run-id", "bench", "--no-cache")
		}
		run()
		var times []time.Duration
		call := func() {
			began := time.Now()
			run()
			times = append(times, firstTest(b, p.dir, id).Sub(began))
		}
		for b.Loop() {
			call()
		}
		for len(times) < 9 { // a median of one is none
			call()
		}
		sandboxtest.ReportMedian(b, times)
	})
}

// firstTest is when the tests of the run began.
func firstTest(b *testing.B, dir, id string) time.Time {
	b.Helper()
	list, problems := reports.LoadAttempts(reports.Layout{Root: dir}, "bench", "gold")
	if len(problems) > 0 || len(list) != 1 || list[0].InstanceID != id {
		b.Fatalf("%d attempts, %v", len(list), problems)
	}
	for _, phase := range list[0].Phases {
		if phase.Name == "test" {
			return list[0].Start.Add(time.Duration(phase.At * float64(time.Second)))
		}
	}
	b.Fatalf("no tests were run: %s %s", list[0].Outcome, list[0].Reason)
	return time.Time{}
}

// BenchmarkBuild builds the layers of the demo's environments and instances anew, on
// a base that is there; Debian's packages are fetched meanwhile. The images are removed
// again; a daemon keeps the steps in its build cache, some hundred MB, until it bounds it.
func BenchmarkBuild(b *testing.B) {
	eachEngine(b, func(b *testing.B, p *program) {
		eng, err := engine.Open(b.Context(), engine.Options{Name: p.engine, CacheDir: cache.Dir()})
		if err != nil {
			b.Fatal(err)
		}
		defer eng.Close()
		n := 0
		build := func() time.Duration {
			n++
			lock := filepath.Join(p.dir, fmt.Sprintf("%d.lock", n))
			rows := p.changed(b)
			began := time.Now()
			p.call(b, cache.Dir(), "build", "-d", rows, "--lock-file", lock)
			took := time.Since(began)
			removeBuilt(b, eng, lock)
			return took
		}
		build()
		var times []time.Duration
		for b.Loop() {
			times = append(times, build())
		}
		sandboxtest.ReportMedian(b, times)
	})
}

// there are packages of every base: which of them an environment names changes its
// layers from the first on, and installs nothing.
var there = []string{"bash", "coreutils", "dash", "diffutils", "findutils", "grep", "gzip", "hostname", "libc-bin", "login", "mount", "perl-base", "sed", "tar", "util-linux"}

// changed writes rows whose layers nobody has built: an engine that keeps the steps of
// images that are gone must not be the faster for it.
func (p *program) changed(b *testing.B) string {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "demo.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	var names []string
	for _, name := range there {
		if rand.IntN(2) == 0 {
			names = append(names, fmt.Sprintf("%q", name))
		}
	}
	const before = `"apt":[`
	changed := bytes.ReplaceAll(text, []byte(before), []byte(before+strings.Join(append(names, `"base-files",`), ",")))
	if bytes.Equal(text, changed) {
		b.Fatal("the rows name no packages")
	}
	path := filepath.Join(p.dir, "changed.jsonl")
	if err := os.WriteFile(path, changed, 0o644); err != nil {
		b.Fatal(err)
	}
	return path
}

// removeBuilt removes the images that a lock file names, but for the bases.
func removeBuilt(b *testing.B, eng *engine.Engine, lock string) {
	b.Helper()
	var doc struct {
		Images map[string]struct{ Kind, Digest string }
	}
	text, err := os.ReadFile(lock)
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		b.Fatal(err)
	}
	for _, kind := range []string{"instance", "env"} { // what stands on another goes first
		for _, image := range doc.Images {
			if image.Kind != kind {
				continue
			}
			if _, err := eng.Images.RemoveImage(context.WithoutCancel(b.Context()), image.Digest); err != nil {
				b.Error(err)
			}
		}
	}
}
