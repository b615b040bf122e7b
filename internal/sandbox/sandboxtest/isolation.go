package sandboxtest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/internal/sandbox"
)

func (s *suite) isolation(t *testing.T) {
	s.test(t, "Network", sandbox.Limits{}, network)
	s.test(t, "Mounts", sandbox.Limits{}, mounts)
	s.test(t, "Privileges", sandbox.Limits{}, s.privileges)
	s.test(t, "Kernel", sandbox.Limits{}, kernel)
}

func network(t *testing.T, b *box) {
	out, res := b.do(t, "/evalrun/probe network", withProbe(t))
	facts := map[string]string{}
	if err := json.Unmarshal([]byte(out), &facts); err != nil || res.ExitCode != 0 {
		t.Fatalf("exit code %d, %v\n%s", res.ExitCode, err, out)
	}
	if facts["interfaces"] != "lo " {
		t.Errorf("interfaces %q, want loopback only", facts["interfaces"])
	}
	for _, name := range []string{"tcp4", "tcp6", "metadata", "resolver", "udp4", "udp6"} {
		if !strings.Contains(facts[name], "network is unreachable") {
			t.Errorf("%s: %q, want the network to be unreachable", name, facts[name])
		}
	}
	for _, name := range []string{"raw", "packet"} {
		if !strings.Contains(facts[name], "not permitted") {
			t.Errorf("%s socket: %q, want it not to be permitted", name, facts[name])
		}
	}
	if facts["dns"] == "" {
		t.Error("names are resolved")
	}
	for _, name := range []string{"loopback4", "loopback6", "localhost"} {
		if facts[name] != "" {
			t.Errorf("%s: %s", name, facts[name])
		}
	}
	b.expect(t, "0\n", "tail -n +2 /proc/net/route | wc -l")
}

// mounts: nothing of the host is seen but what the engine itself brings.
func mounts(t *testing.T, b *box) {
	out, _ := b.do(t, "cat /proc/self/mounts")
	own := map[string]bool{"/": true, "/etc/hosts": true, "/etc/hostname": true, "/etc/resolv.conf": true}
	virtual := map[string]bool{
		"proc": true, "tmpfs": true, "devpts": true, "sysfs": true, "cgroup": true, "cgroup2": true, "mqueue": true, "devtmpfs": true, "shm": true,
	}
	for _, line := range lines(out) {
		f := strings.Fields(line)
		if len(f) < 4 || !own[f[1]] && !virtual[f[2]] {
			t.Errorf("a mount of the host: %s", line)
		}
		if len(f) >= 4 && (f[2] == "sysfs" || f[2] == "cgroup" || f[2] == "cgroup2") && !strings.HasPrefix(f[3], "ro") {
			t.Errorf("writable: %s", line)
		}
	}
	b.expect(t, "", "find / -xdev -name 'docker.sock' -o -xdev -name 'containerd.sock' -o -xdev -type b")
	_, res := b.do(t, "echo x >/proc/sys/kernel/hostname")
	if res.ExitCode == 0 {
		t.Error("kernel settings can be written")
	}
}

func (s *suite) privileges(t *testing.T, b *box) {
	want := "NoNewPrivs:\t1\nSeccomp:\t2\n"
	b.expect(t, want, "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status")
	caps := s.opts.Capabilities
	b.expect(t, "CapPrm:\t"+caps+"\nCapEff:\t"+caps+"\nCapBnd:\t"+caps+"\n", "grep -E '^Cap(Prm|Eff|Bnd):' /proc/self/status")
	b.expect(t, "0\n", "id -u")
}

func kernel(t *testing.T, b *box) {
	for _, attempt := range []string{
		"mknod /block b 8 0", "mount -t tmpfs none /tmp", "chroot / true", "dmesg", "echo 1 >/proc/sys/net/ipv4/ip_forward",
		"echo 1 >/proc/sysrq-trigger", "ip link add dummy0 type dummy",
	} {
		if out, res := b.do(t, attempt+" && echo worked"); res.ExitCode == 0 || strings.Contains(out, "worked") {
			t.Errorf("%q worked", attempt)
		}
	}
	// Only what runs in the sandbox is seen: its first process, the shell and cat.
	out, _ := b.do(t, "ls -d /proc/[0-9]*")
	if n := len(lines(out)); n > 5 {
		t.Errorf("%d processes are seen: those of the host", n)
	}
}
