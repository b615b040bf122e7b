package sandboxtest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

func (s *suite) surroundings(t *testing.T) {
	s.test(t, "Clock", sandbox.Limits{}, clock)
	s.test(t, "Environment", sandbox.Limits{}, environment)
	s.test(t, "User", sandbox.Limits{}, user)
	s.test(t, "Signals", sandbox.Limits{}, s.signals)
	s.test(t, "Devices", sandbox.Limits{}, devices)
	s.test(t, "Proc", sandbox.Limits{}, procFiles)
	s.test(t, "Sys", sandbox.Limits{}, sysFiles)
	s.test(t, "Names", sandbox.Limits{}, names)
	s.test(t, "Terminal", sandbox.Limits{}, terminal)
	t.Run("OtherUser", s.otherUser)
	t.Run("ReadOnly", s.readOnly)
	t.Run("ScratchIsLimited", s.scratchIsLimited)
	t.Run("StayWritable", s.stayWritable)
}

// The clock is the machine's, and nobody sets it.
func clock(t *testing.T, b *box) {
	before := time.Now().Unix()
	out, _ := b.do(t, "date +%s")
	after := time.Now().Unix()
	var now int64
	if _, err := fmt.Sscan(out, &now); err != nil || now < before || now > after {
		t.Errorf("it is %q inside and from %d to %d outside", out, before, after)
	}
	if out, res := b.do(t, "date -s '2001-01-01' 2>&1"); res.ExitCode == 0 || !strings.Contains(out, "cannot set date") {
		t.Errorf("setting the clock gave %d, %q", res.ExitCode, out)
	}
}

// A process has what the image, the sandbox and the command set, what every login
// has, and nothing of ours.
func environment(t *testing.T, b *box) {
	out, _ := b.do(t, "env")
	known := []string{"PATH", "HOME", "HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_", "FROM_SPEC"}
	values := map[string]string{}
	for _, line := range lines(out) {
		name, value, _ := strings.Cut(line, "=")
		values[name] = value
		if !slices.Contains(known, name) {
			t.Errorf("a variable from elsewhere: %s", line)
		}
	}
	if values["HOME"] != "/root" || values["HOSTNAME"] != "testbed" || !strings.Contains(values["PATH"], "/usr/bin") {
		t.Errorf("the environment is %q", values)
	}
	// One that a row sets counts, whatever is in it.
	b.expect(t, "a b\n\"c\"|", `printf %s "$X|$EMPTY"`, func(c *sandbox.Command) { c.Env = []string{"X=a b\n\"c\"", "EMPTY="} })
}

func user(t *testing.T, b *box) {
	b.expect(t, "0 0 0\n0022\n", "echo $(id -u) $(id -g) $(id -G); umask")
	b.expect(t, "644 755\n", "cd /tmp && touch file && mkdir folder && echo $(stat -c %a file folder)")
	b.expect(t, "0 0\n10240 10240\n", "echo $(ulimit -Sc) $(ulimit -Hc); echo $(ulimit -Sn) $(ulimit -Hn)")
}

// otherUser: a user that is not root has no rights of root's, but for files that
// are put in.
func (s *suite) otherUser(t *testing.T) {
	t.Parallel()
	spec := s.spec(sandbox.Limits{})
	spec.User = "65534:65534"
	b := s.startSpec(t, spec)
	b.expect(t, "65534 65534\nroot's\n", "echo $(id -u) $(id -g); cat /evalrun/file", func(c *sandbox.Command) {
		c.Files = []sandbox.File{{Path: "/evalrun/file", Mode: 0o644, Data: []byte("root's\n")}}
	})
	none := strings.Repeat("0", 16)
	b.expect(t, "CapPrm:\t"+none+"\nCapEff:\t"+none+"\n", "grep -E '^Cap(Prm|Eff):' /proc/self/status")
	b.expect(t, "no\nno\nyes\n", "touch /file 2>/dev/null || echo no; echo 2>/dev/null >/evalrun/file || echo no; touch /tmp/file && echo yes")
}

// readOnly: nothing can be written but what is meant for it.
func (s *suite) readOnly(t *testing.T) {
	t.Parallel()
	spec := s.spec(sandbox.Limits{})
	spec.ReadOnly = true
	b := s.startSpec(t, spec)
	b.expect(t, "no\nno\nno\n", "for f in /file /etc/hosts /testbed/file; do echo x 2>/dev/null >$f || echo no; done")
	for _, dir := range sandbox.Scratch {
		b.expect(t, "1777\nput in\n", "stat -c %a "+dir+"; cat "+dir+"/a/file", func(c *sandbox.Command) {
			c.Files = []sandbox.File{{Path: dir + "/a/file", Mode: 0o644, Data: []byte("put in\n")}}
		})
	}
	_, res := b.do(t, "true", func(c *sandbox.Command) { c.Files = []sandbox.File{{Path: "/testbed/file", Data: []byte("x")}} })
	if res.ExitCode != sandbox.FilesFailed || !res.FilesFailed {
		t.Errorf("a file for a folder that cannot be written: exit code %d, want %d", res.ExitCode, sandbox.FilesFailed)
	}
	b.usable(t)
}

// scratchIsLimited: what is kept in memory is limited like what is written, and counts as
// memory.
func (s *suite) scratchIsLimited(t *testing.T) {
	t.Parallel()
	spec := s.spec(sandbox.Limits{DiskBytes: 8 << 20, MemoryBytes: 1 << 30})
	spec.ReadOnly = true
	b := s.startSpec(t, spec)
	for _, dir := range []string{"/tmp", "/var/tmp", "/run"} {
		b.expect(t, "full\n", "for i in 1 2 3; do head -c 3000000 /dev/zero 2>/dev/null >"+dir+"/$i || echo full; done")
	}
	spec = s.spec(sandbox.Limits{MemoryBytes: 64 << 20})
	spec.ReadOnly = true
	b = s.startSpec(t, spec)
	_, res, err := b.try(b.ctx, "for d in /tmp /var/tmp /run; do head -c 40000000 /dev/zero >$d/file || exit 1; done; sleep 60")
	if err != nil || res.ExitCode == 0 {
		t.Errorf("120 MB in memory with a limit of 64 MiB: %+v, %v", res, err)
	}
	usage, err := b.Usage(b.ctx)
	if err != nil {
		t.Error(err)
	}
	// Killing who has written gives nothing back. Where the first process goes, too, so
	// does what the kernel has counted.
	if usage.OOMKills < 1 {
		if _, _, err := b.try(b.ctx, "true"); !errors.Is(err, sandbox.ErrDead) {
			t.Errorf("%+v; want at least one kill, or a dead sandbox: %v", usage, err)
		}
	}
}

// stayWritable: some folders stay as the image has them, and may be the user's own.
func (s *suite) stayWritable(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"", "1000:100"} {
		t.Run("user "+user, func(t *testing.T) {
			t.Parallel()
			folders := []string{"/testbed", "/bin", "/made/of nothing"}
			spec := s.spec(sandbox.Limits{DiskBytes: 64 << 20})
			spec.ReadOnly, spec.Writable, spec.Owned, spec.User = true, folders, folders, user
			b := s.startSpec(t, spec)
			for _, dir := range folders {
				b.expect(t, "written\n", `echo written >"$1/new" && cat "$1/new"`, func(c *sandbox.Command) {
					c.Argv = append(c.Argv, "sh", dir)
					c.Files = []sandbox.File{{Path: dir + "/put", Mode: 0o644, Data: []byte("put in\n")}}
				})
				for name, want := range map[string]string{"new": "written\n", "put": "put in\n"} {
					if got, err := b.Read(b.ctx, dir+"/"+name, 100); err != nil || string(got) != want {
						t.Errorf("Read(%s/%s): %q, %v", dir, name, got, err)
					}
				}
			}
			b.expect(t, "no\nno\n", "for f in /file /etc/file; do echo x 2>/dev/null >$f || echo no; done")
			owner := "0:0"
			if user != "" {
				owner = user
			}
			b.expect(t, owner+"\n"+owner+"\n", "stat -c %u:%g /testbed /bin/cat")
			// The image's part does not count, what is written does.
			b.usable(t)
			_, res := b.do(t, "i=0; while [ $i -lt 100 ]; do head -c 1000000 /dev/zero >/testbed/$i; i=$((i + 1)); done; sleep 60")
			if !res.DiskFull {
				t.Errorf("100 MB written with a limit of 64 MiB: %+v", res)
			}
		})
	}
}

// No signal is ignored or blocked: what is, is inherited by every test. A daemon
// hands down what it was started with, and make starts programs with the two
// signals ignored that C libraries keep for themselves; they set these up anew
// before they use them.
func (s *suite) signals(t *testing.T, b *box) {
	var reserved uint64
	if s.opts.Daemon {
		reserved = 1<<(32-1) | 1<<(33-1)
	}
	for _, set := range []string{"SigBlk", "SigIgn"} {
		out, _ := b.do(t, "sed -n 's/^"+set+":\t//p' /proc/self/status")
		mask, err := strconv.ParseUint(strings.TrimSpace(out), 16, 64)
		if err != nil || mask&^reserved != 0 {
			t.Errorf("%s is %q, want no signals", set, out)
		}
	}
}

func devices(t *testing.T, b *box) {
	known := []string{
		"console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero",
	}
	out, _ := b.do(t, "ls /dev")
	for _, name := range lines(out) {
		if !slices.Contains(known, name) {
			t.Errorf("a device of the machine's: %s", name)
		}
	}
	b.expect(t, "16\n0\n4\n", "head -c 16 /dev/urandom | wc -c; echo x >/dev/null; head -c 4 /dev/null | wc -c; head -c 4 /dev/zero | wc -c")
	b.expect(t, "1777\nwritten\n", "stat -c %a /dev/shm; echo written >/dev/shm/x && cat /dev/shm/x")
	b.expect(t, "full\n", "echo x 2>/dev/null >/dev/full || echo full")
}

// procFiles: what tells of the machine is hidden, and nothing can be set.
func procFiles(t *testing.T, b *box) {
	b.expect(t, "", "for f in kcore keys timer_list sched_debug latency_stats; do [ ! -e /proc/$f ] || head -c 1 /proc/$f; done 2>/dev/null; true")
	b.expect(t, "", "for d in acpi scsi; do [ ! -e /proc/$d ] || ls -A /proc/$d; done")
	for _, file := range []string{
		"/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/modprobe", "/proc/irq/default_smp_affinity",
	} {
		if _, res := b.do(t, "[ -e "+file+" ] && echo 1 >"+file); res.ExitCode == 0 {
			t.Errorf("%s can be written", file)
		}
	}
	b.expect(t, "1\n", "ls /proc | grep -x 1")
	// The first process is no way out.
	b.expect(t, "testbed\n", "[ \"$(stat -c %d:%i /)\" = \"$(stat -c %d:%i /proc/1/root/)\" ] && cat /proc/1/root/etc/hostname")
}

func sysFiles(t *testing.T, b *box) {
	b.expect(t, "", "find /sys/firmware -type f | head -n 5")
	b.expect(t, "", "ls /sys/class/net | grep -vx lo; true")
	for _, script := range []string{
		"[ -e /sys/fs/cgroup/cgroup.procs ] && mkdir /sys/fs/cgroup/mine", "mkdir /sys/fs/cgroup/memory/mine", "echo 1 >/sys/kernel/mm/ksm/run", "mount -o remount,rw /sys",
		"[ -e /sys/fs/cgroup/cgroup.procs ] && echo max >/sys/fs/cgroup/memory.max", "echo -1 >/sys/fs/cgroup/memory/memory.limit_in_bytes",
	} {
		if _, res := b.do(t, script+" 2>/dev/null"); res.ExitCode == 0 {
			t.Errorf("%q worked", script)
		}
	}
}

func names(t *testing.T, b *box) {
	b.expect(t, "testbed\n", "uname -n")
	b.expect(t, "yes\n", "grep -q '^127.0.0.1.*localhost' /etc/hosts && grep -q '^::1.*localhost' /etc/hosts && echo yes")
	if _, res := b.do(t, "echo other >/proc/sys/kernel/hostname"); res.ExitCode == 0 {
		t.Error("the name of the sandbox can be set")
	}
}

// There is no terminal, and no session of ours to be reached.
func terminal(t *testing.T, b *box) {
	b.expect(t, "none\n", "if [ -t 0 ] || [ -t 1 ] || [ -t 2 ]; then echo one; else echo none; fi")
	if _, res := b.do(t, "(: </dev/tty) 2>/dev/null"); res.ExitCode == 0 {
		t.Error("/dev/tty can be opened")
	}
	// Nothing is open but the three streams.
	out, _ := b.do(t, "", func(c *sandbox.Command) { c.Argv = []string{"ls", "/proc/self/fd"} })
	if got := strings.Join(strings.Fields(out), " "); got != "0 1 2 3" { // 3 is the folder ls reads
		t.Errorf("open files %s, want 0 1 2 and that of ls", got)
	}
}
