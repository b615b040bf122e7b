package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/internal/sandbox"
)

func files(t *testing.T, list map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range list {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFindUnified(t *testing.T) {
	all := "cpuset cpu io memory pids\n"
	tests := []struct {
		name, own  string
		files      map[string]string
		version    string
		parent     string
		unenforced string
	}{
		{"root of the machine", "/", map[string]string{
			"cgroup.controllers": all, "evalrun/cgroup.controllers": all, "evalrun/memory.swap.max": "max",
		}, "2", "/evalrun", ""},
		{"no swap accounting and no swap", "/", map[string]string{"cgroup.controllers": all, "evalrun/cgroup.controllers": all}, "2", "/evalrun", ""},
		{"a part of them, delegated to a user", "/user.slice/user@1000.service/app.scope", map[string]string{
			"user.slice/user@1000.service/app.scope/cgroup.controllers":         "memory pids\n",
			"user.slice/user@1000.service/app.scope/evalrun/cgroup.controllers": "memory pids\n",
		}, "2", "/user.slice/user@1000.service/app.scope/evalrun", "processors: not limited"},
		{"moved out of the way by an earlier run", "/app.scope/evalrun.main", map[string]string{
			"app.scope/cgroup.controllers": all, "app.scope/evalrun/cgroup.controllers": all,
		}, "2", "/app.scope/evalrun", ""},
		{"nothing mounted", "/", nil, "none", "", "memory: measured every"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := files(t, tt.files)
			g := findUnified(root, "0::"+tt.own+"\n")
			said := strings.Join(g.unenforced(), "\n")
			if g.version != tt.version || g.version == "2" && g.parent != tt.parent || !strings.Contains(said, tt.unenforced) || tt.unenforced == "" && said != "" && !swapping() {
				t.Errorf("%+v, unenforced %q", g, said)
			}
		})
	}
}

func TestFindV1(t *testing.T) {
	table := "9:name=systemd:/x\n8:pids:/\n4:memory:/x\n2:cpu,cpuacct:/\n7:net_cls:/\n0::/\n"
	root := files(t, map[string]string{
		"systemd/x": "", "pids/x": "", "memory/evalrun/memory.memsw.limit_in_bytes": "", "cpu/evalrun/cpu.cfs_quota_us": "", "cpuacct/x": "",
		"unified/cgroup.controllers": "",
	})
	g := findV1(root, table)
	if g.version != "1" || !g.memory || !g.swap || !g.cpu || !g.pids || g.mixed || len(g.folders) != 5 || len(g.unenforced()) > 0 {
		t.Errorf("%+v, unenforced %q", g, g.unenforced())
	}
	if err := os.WriteFile(filepath.Join(root, "unified/cgroup.controllers"), []byte("hugetlb\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if g = findV1(root, table); !g.mixed || (runtime{name: "crun"}).takes(g) == nil || (runtime{name: "runc"}).takes(g) != nil {
		t.Errorf("with a controller of v2: %+v", g)
	}
	if g = findV1(t.TempDir(), table); g.version != "none" || g.resources(sandbox.Limits{MemoryBytes: 1}) != nil {
		t.Errorf("without any: %+v", g)
	}
}

func TestResources(t *testing.T) {
	limits := sandbox.Limits{CPUs: 0.5, MemoryBytes: 1 << 20, Pids: 7}
	all := groups{version: "2", memory: true, swap: true, cpu: true, pids: true}
	r := all.resources(limits)
	if *r.Memory.Limit != 1<<20 || *r.Memory.Swap != 1<<20 || *r.CPU.Quota != 50_000 || *r.CPU.Period != 100_000 || *r.Pids.Limit != 7 {
		t.Errorf("%+v", r)
	}
	if r = all.resources(sandbox.Limits{}); r.Memory != nil || r.CPU != nil || r.Pids != nil {
		t.Errorf("without limits: %+v", r)
	}
	some := groups{version: "2", memory: true}
	if r = some.resources(limits); r.Memory.Swap != nil || r.CPU != nil || r.Pids != nil {
		t.Errorf("with some controllers: %+v", r)
	}
}
