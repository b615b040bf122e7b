package oci

import (
	"slices"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/internal/sandbox"
)

func TestEnvironment(t *testing.T) {
	got := environment([]string{"A=image", "B=image", "PATH=/bin"}, []string{"B=spec", "EMPTY=", "C=x=y"}, []string{"C=command"})
	want := []string{"A=image", "B=spec", "C=command", "EMPTY=", "HOME=/root", "HOSTNAME=testbed", "PATH=/bin"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestProcess(t *testing.T) {
	d := &Driver{}
	p := d.process(sandbox.Spec{Capabilities: []string{"sys_ptrace", "CAP_CHOWN"}, Limits: sandbox.Limits{DiskBytes: 99}}, nil, "/", nil)
	if n := len(p.Capabilities.Effective); n != len(sandbox.Capabilities)+1 || !slices.Contains(p.Capabilities.Effective, "CAP_SYS_PTRACE") || len(p.Capabilities.Inheritable) > 0 {
		t.Errorf("capabilities %v", p.Capabilities)
	}
	if last := p.Rlimits[len(p.Rlimits)-1]; last.Type != "RLIMIT_FSIZE" || last.Hard != 99 {
		t.Errorf("limits %v", p.Rlimits)
	}
	p = d.process(sandbox.Spec{User: "1000:100"}, nil, "/", nil)
	if p.User.UID != 1000 || p.User.GID != 100 || len(p.Capabilities.Effective) > 0 || len(p.Capabilities.Bounding) == 0 {
		t.Errorf("user %+v, capabilities %+v", p.User, p.Capabilities)
	}
}

func TestRuntime(t *testing.T) {
	tests := []struct {
		path, said, name, version string
		unfiltered                bool
	}{
		{"/usr/sbin/runc", "runc version 1.1.5+ds1\ncommit: x\nlibseccomp: 2.5.4\n", "runc", "1.1.5+ds1", false},
		{"/opt/runc", "runc version 1.3.3\nspec: 1.2.1\ngo: go1.26.8\n", "runc", "1.3.3", true},
		{"/opt/mine", "crun version 1.8.1\n+SYSTEMD +CAP +SECCOMP +YAJL\n", "crun", "1.8.1", false},
		{"/opt/mine", "crun version 1.8.1\n+SYSTEMD +CAP\n", "crun", "1.8.1", true},
		{"/usr/bin/runsc", "runsc version release-20260101.0\nspec: 1.1.0-rc.1\n", "runsc", "release-20260101.0", false},
		{"/opt/odd", "odd 5\n", "odd", "odd 5", false},
		{"/opt/silent", "", "silent", "", false},
	}
	for _, tt := range tests {
		if r := newRuntime(tt.path, tt.said); r.name != tt.name || r.version != tt.version || r.path != tt.path || r.unfiltered != tt.unfiltered {
			t.Errorf("%q: %+v", tt.said, r)
		} else if err := r.takes(groups{}); (err != nil) != tt.unfiltered {
			t.Errorf("%q: %v", tt.said, err)
		}
	}
	for name, want := range map[string]string{
		"crun":  "--root /r --cgroup-manager disabled exec --preserve-fds 2 --process p n",
		"runc":  "--root /r --rootless true exec --preserve-fds 2 --process p n",
		"runsc": "--root /r --network=none --overlay2=none --file-access=shared --ignore-cgroups exec --pass-fd 3:3 --pass-fd 4:4 --process p n",
	} {
		r := runtime{name: name}
		if got := strings.Join(append(r.global("/r", false), r.exec("p", "n")...), " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if _, err := findRuntime(t.Context(), "no-such-runtime", groups{}); err == nil || !strings.Contains(err.Error(), "no-such-runtime") {
		t.Errorf("a runtime that is not there: %v", err)
	}
}

func TestReadTask(t *testing.T) {
	status := "Name:\tx\nVmRSS:\t  9999 kB\nRssAnon:\t  1000 kB\nRssFile:\t  500 kB\nRssShmem:\t  24 kB\nThreads:\t7\nVmSwap:\t  1 kB\n"
	stat := "12 (a) b (c)) S 1 12 12 0 -1 4194304 100 0 0 0 150 50 9 9 20 0 1 0 100 1 2\n"
	if got, want := readTask(status, stat), (task{memory: 1001 << 10, shared: 24 << 10, threads: 7, seconds: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Whatever a process calls itself, the rest is read right.
func FuzzReadTask(f *testing.F) {
	f.Add("sh")
	f.Add("a) R 9 9 (b")
	f.Add("\n) (\x00")
	f.Fuzz(func(t *testing.T, name string) {
		stat := "12 (" + name + ") S 1 12 12 0 -1 4194304 100 0 0 0 150 50 9 9 20 0 1 0 100 1 2\n"
		if got := readTask("Threads:\t1\n", stat); got.seconds != 2 || got.threads != 1 {
			t.Errorf("%q: %+v", name, got)
		}
	})
}
