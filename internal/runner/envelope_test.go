package runner_test

import (
	"testing"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
	"github.com/evalrun/evalrun/internal/schedule"
)

// What an attempt is expected to need of memory is what earlier ones could not have given
// back, not what the kernel has kept of the files they read.
func TestMemoryThatIsNeeded(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct{ peak, held, want int64 }{
		{peak: 1000 * mib, held: 400 * mib, want: 500 * mib},
		{peak: 420 * mib, held: 400 * mib, want: 420 * mib},
		{peak: 1000 * mib, want: 1000 * mib},
		{held: 400 * mib, want: 500 * mib},
	} {
		k := newKit(t)
		k.options.History = schedule.NewHistory()
		k.phases["test.sh"] = takes(7e9, prints(passing, 0))
		k.fake.OnUsage = func(*sandboxtest.FakeSandbox) (sandbox.Usage, error) {
			return sandbox.Usage{PeakMemoryBytes: tt.peak, HeldMemoryBytes: tt.held}, nil
		}
		a := k.one(t, job("a"))
		if a.Usage.PeakMemoryBytes != tt.peak || a.Usage.HeldMemoryBytes != tt.held {
			t.Errorf("the record says %+v", a.Usage)
		}
		if got := k.options.History.Estimate("a", "owner/name").Needs.MemoryBytes; got < tt.want-mib || got > tt.want+mib {
			t.Errorf("of a peak of %d MiB, %d held, %d MiB are expected, want %d", tt.peak/mib, tt.held/mib, got/mib, tt.want/mib)
		}
	}
}
