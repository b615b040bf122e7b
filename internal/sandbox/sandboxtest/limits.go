package sandboxtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

func (s *suite) limits(t *testing.T) {
	s.test(t, "ForkBomb", sandbox.Limits{Pids: 64, CPUs: 1}, s.forkBomb)
	s.test(t, "FullOfProcesses", sandbox.Limits{Pids: 40}, fullOfProcesses)
	s.test(t, "MemoryBomb", sandbox.Limits{MemoryBytes: 64 << 20}, memoryBomb)
	s.test(t, "MemoryBombOfChild", sandbox.Limits{MemoryBytes: 64 << 20}, memoryBombOfChild)
	s.test(t, "Disk", sandbox.Limits{DiskBytes: 64 << 20}, disk)
	s.test(t, "OneBigFile", sandbox.Limits{DiskBytes: 64 << 20}, oneBigFile)
	s.test(t, "Processor", sandbox.Limits{CPUs: 0.1}, processor)
}

func (s *suite) forkBomb(t *testing.T, b *box) {
	_, _, err := b.try(b.ctx, `bash -c 'bomb() { bomb | bomb & }; bomb' & for i in $(seq 60); do sleep 0.05; done; kill -KILL -1`, within(20*time.Second))
	if err != nil {
		t.Fatalf("a fork bomb is no failure of the engine: %v", err)
	}
	// Whatever is left of it, the engine goes on.
	s.start(t, sandbox.Limits{}).usable(t)
}

// What fills its sandbox with processes is to blame, not the engine; and the
// sandbox outlives it.
func fullOfProcesses(t *testing.T, b *box) {
	b.do(t, "for i in $(seq 100); do sleep 1000 & done")
	for range 3 {
		if _, res, err := b.try(b.ctx, "true"); err != nil && !errors.Is(err, sandbox.ErrDead) {
			t.Errorf("%+v, %v: an engine failure that is not ErrDead", res, err)
		}
	}
	usage, err := b.Usage(b.ctx)
	if err != nil || usage.Pids < 30 || usage.Pids > 40 {
		t.Errorf("%d processes, error %v; want close to the limit of 40", usage.Pids, err)
	}
}

func memoryBomb(t *testing.T, b *box) {
	out, res := b.do(t, "exec /evalrun/probe eat 512", withProbe(t))
	if res.ExitCode != 128+9 || strings.Contains(out, "ate") {
		t.Errorf("exit code %d, output %q; want it to be killed", res.ExitCode, out)
	}
	countsOOM(t, b)
}

func memoryBombOfChild(t *testing.T, b *box) {
	out, res := b.do(t, "/evalrun/probe eat 512; echo the child gave $?", withProbe(t))
	if res.ExitCode != 0 || !strings.HasSuffix(out, "the child gave 137\n") {
		t.Errorf("exit code %d, output %q; want only the child to be killed", res.ExitCode, out)
	}
	countsOOM(t, b)
}

func countsOOM(t *testing.T, b *box) {
	t.Helper()
	// At once: a verdict may rest on it.
	usage, err := b.Usage(b.ctx)
	if err != nil || usage.OOMKills < 1 || usage.PeakMemoryBytes < 32<<20 || usage.PeakMemoryBytes > 65<<20 {
		t.Errorf("%+v, error %v; want at least one kill and a peak close to 64 MiB", usage, err)
	}
	b.usable(t)
}

func disk(t *testing.T, b *box) {
	_, res := b.do(t, "mkdir /full; for i in $(seq 40); do head -c 10000000 /dev/zero >/full/$i; done; sleep 1000")
	if !res.DiskFull || res.ExitCode != -1 || res.TimedOut {
		t.Errorf("%+v, want DiskFull", res)
	}
	_, _, err := b.try(b.ctx, "true")
	dead(t, err)
}

func oneBigFile(t *testing.T, b *box) {
	out, res := b.do(t, "head -c 200000000 /dev/zero >/big; echo $?; wc -c </big")
	if !res.DiskFull && !strings.HasSuffix(out, "\n67108864\n") {
		t.Errorf("%+v, output %q; want the file to end at the limit", res, out)
	}
}

func processor(t *testing.T, b *box) {
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan struct{})
	go func() {
		b.try(ctx, "while :; do :; done")
		close(ended)
	}()
	defer func() { cancel(); <-ended }()
	var usage sandbox.Usage
	for b.ctx.Err() == nil {
		var err error
		if usage, err = b.Usage(b.ctx); err != nil {
			t.Fatal(err)
		}
		if usage.CPUSeconds > 0 && usage.ThrottledSeconds > 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%+v; want processor time, and some of it held back", usage)
}
