package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

func (s *suite) limits(t *testing.T) {
	bomb := sandbox.Limits{Pids: 64, CPUs: 1}
	if s.opts.Watched {
		// It may take all processes there are before it is seen: alone, then.
		t.Run("ForkBomb", func(t *testing.T) { s.forkBomb(t, s.start(t, bomb)) })
	} else {
		s.test(t, "ForkBomb", bomb, s.forkBomb)
	}
	s.test(t, "FullOfProcesses", sandbox.Limits{Pids: 40}, s.fullOfProcesses)
	s.test(t, "MemoryBomb", sandbox.Limits{MemoryBytes: 64 << 20}, s.memoryBomb)
	s.test(t, "MemoryBombOfChild", sandbox.Limits{MemoryBytes: 64 << 20}, s.memoryBombOfChild)
	s.test(t, "HeldMemory", sandbox.Limits{}, heldMemory)
	s.test(t, "Disk", sandbox.Limits{DiskBytes: 64 << 20}, disk)
	s.test(t, "OneBigFile", sandbox.Limits{DiskBytes: 64 << 20}, oneBigFile)
	if !s.opts.Watched {
		s.test(t, "Processor", sandbox.Limits{CPUs: 0.1}, processor)
		s.test(t, "Guaranteed", sandbox.Limits{CPUs: 2, CPUsGuaranteed: 0.5, MemoryBytes: 128 << 20, MemoryGuaranteedBytes: 32 << 20}, s.guaranteed)
	}
}

func (s *suite) forkBomb(t *testing.T, b *box) {
	_, _, err := b.try(b.ctx, `bash -c 'bomb() { bomb | bomb & }; bomb' & for i in $(seq 60); do sleep 0.05; done; kill -KILL -1`, within(20*time.Second))
	if err != nil {
		t.Fatalf("a fork bomb is no failure of the engine: %v", err)
	}
	if s.opts.Watched {
		s.untilThereIsRoom(t)
	}
	// Whatever is left of it, the engine goes on.
	s.start(t, sandbox.Limits{}).usable(t)
}

// untilThereIsRoom waits until the kernel has taken down the many processes of a bomb
// that only a watchdog limits.
func (s *suite) untilThereIsRoom(t *testing.T) {
	for began := time.Now(); ; time.Sleep(time.Second) {
		b, err := s.driver.Start(t.Context(), s.spec(sandbox.Limits{}))
		if err == nil {
			err = b.Destroy(t.Context())
		}
		if err == nil || time.Since(began) > patience {
			return
		}
		t.Log(err)
	}
}

// What fills its sandbox with processes is to blame, not the engine; and the
// sandbox outlives it.
func (s *suite) fullOfProcesses(t *testing.T, b *box) {
	b.do(t, "for i in $(seq 100); do sleep 1000 & done")
	if s.opts.Watched {
		_, _, err := b.try(b.ctx, "sleep 10")
		if err == nil {
			_, _, err = b.try(b.ctx, "true")
		}
		dead(t, err)
		return
	}
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

func (s *suite) memoryBomb(t *testing.T, b *box) {
	out, res := b.do(t, "exec /evalrun/probe eat 4096", withProbe(t))
	if res.ExitCode != 128+9 || strings.Contains(out, "ate") {
		t.Errorf("exit code %d, output %q; want it to be killed", res.ExitCode, out)
	}
	s.countsOOM(t, b)
}

func (s *suite) memoryBombOfChild(t *testing.T, b *box) {
	out, res := b.do(t, "/evalrun/probe eat 4096; echo the child gave $?", withProbe(t))
	if res.ExitCode != 0 || !strings.HasSuffix(out, "the child gave 137\n") {
		t.Errorf("exit code %d, output %q; want only the child to be killed", res.ExitCode, out)
	}
	s.countsOOM(t, b)
}

func (s *suite) countsOOM(t *testing.T, b *box) {
	t.Helper()
	// At once: a verdict may rest on it.
	usage, err := b.Usage(b.ctx)
	if err != nil || usage.OOMKills < 1 || usage.PeakMemoryBytes < 32<<20 || !s.opts.Watched && usage.PeakMemoryBytes > 65<<20 {
		t.Errorf("%+v, error %v; want at least one kill and a peak close to 64 MiB", usage, err)
	}
	b.usable(t)
}

// What a process held in memory is known when it has ended: no more than a shell makes
// of the 20 MB.
func heldMemory(t *testing.T, b *box) {
	b.do(t, `x=$(head -c 20000000 /dev/zero | tr '\0' x); sleep 3; echo ${#x}`)
	if usage, err := b.Usage(b.ctx); err != nil || usage.HeldMemoryBytes < 20_000_000 || usage.HeldMemoryBytes > 140_000_000 {
		t.Errorf("%+v, error %v; want 20 MB held", usage, err)
	}
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

// What a sandbox is sure of is another thing than what it may have, and is larger
// for one that is to have more. The kernel's own files say it, in either version.
func (s *suite) guaranteed(t *testing.T, b *box) {
	const (
		processors = "cat /sys/fs/cgroup/cpu.weight 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.shares"
		memory     = "cat /sys/fs/cgroup/memory.low 2>/dev/null || cat /sys/fs/cgroup/memory/memory.soft_limit_in_bytes"
	)
	b.expect(t, "33554432\n", memory)
	more := s.start(t, sandbox.Limits{CPUs: 2, CPUsGuaranteed: 4}) // no more than it may have
	var shares [2]int
	for i, b := range []*box{b, more} {
		out, _ := b.do(t, processors)
		if _, err := fmt.Sscan(out, &shares[i]); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
	}
	if shares[0] <= 0 || shares[1] <= shares[0] {
		t.Errorf("half a processor has a share of %d, two have %d", shares[0], shares[1])
	}
}
