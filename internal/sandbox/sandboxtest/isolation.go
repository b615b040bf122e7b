package sandboxtest

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

func (s *suite) isolation(t *testing.T) {
	s.test(t, "Network", sandbox.Limits{}, network)
	s.test(t, "AbstractSockets", sandbox.Limits{}, s.abstractSockets)
	t.Run("ExtraCapabilities", s.extraCapabilities)
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
	for _, name := range []string{"tcp4", "tcp6", "metadata", "metadata udp", "resolver", "resolver udp", "udp4", "udp6", "multicast", "broadcast"} {
		if !strings.Contains(facts[name], "network is unreachable") {
			t.Errorf("%s: %q, want the network to be unreachable", name, facts[name])
		}
	}
	for _, name := range []string{"raw", "raw6", "packet", "new route"} {
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

// Sockets without a file are as far away as the network: those of this machine,
// and those of other sandboxes.
func (s *suite) abstractSockets(t *testing.T, b *box) {
	name := fmt.Sprintf("evalrun-conformance-%d-%d", os.Getpid(), time.Now().UnixNano())
	l, err := net.Listen("unix", "@"+name+"-host")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b.do(t, "/evalrun/probe listen "+name+"-box >/dev/null 2>&1 & sleep 0.2; until /evalrun/probe connect "+name+"-box; do sleep 0.1; done", withProbe(t))
	for _, other := range []struct {
		b    *box
		name string
	}{{b, name + "-host"}, {s.start(t, sandbox.Limits{}), name + "-box"}} {
		out, res := other.b.do(t, "/evalrun/probe connect "+other.name, withProbe(t))
		if res.ExitCode != 1 || !strings.Contains(out, "refused") {
			t.Errorf("connecting to %s gave %d, %q; want a refusal", other.name, res.ExitCode, out)
		}
	}
}

// A row may ask for more, and gets that and no more.
func (s *suite) extraCapabilities(t *testing.T) {
	t.Parallel()
	spec := s.spec(sandbox.Limits{})
	spec.Capabilities = []string{"SYS_PTRACE"}
	var mask uint64
	if _, err := fmt.Sscanf(s.opts.Capabilities, "%x", &mask); err != nil {
		t.Fatal(err)
	}
	s.startSpec(t, spec).expect(t, fmt.Sprintf("CapEff:\t%016x\n", mask|1<<19), "grep ^CapEff: /proc/self/status")
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
	out, res := b.do(t, "/evalrun/probe attempts", withProbe(t))
	facts := map[string]string{}
	if err := json.Unmarshal([]byte(out), &facts); err != nil || res.ExitCode != 0 || len(facts) < 15 {
		t.Fatalf("exit code %d, %v\n%s", res.ExitCode, err, out)
	}
	for name, said := range facts {
		if !strings.Contains(said, "not permitted") && !strings.Contains(said, "not implemented") && !strings.Contains(said, "permission denied") {
			t.Errorf("%s: %q, want it not to be permitted", name, said)
		}
	}
	// Only what runs in the sandbox is seen: its first process, the shell and cat.
	out, _ = b.do(t, "ls -d /proc/[0-9]*")
	if n := len(lines(out)); n > 5 {
		t.Errorf("%d processes are seen: those of the host", n)
	}
}
