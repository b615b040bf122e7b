package cgroup

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/internal/sandbox"
)

const someID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCgroup(t *testing.T) {
	v1 := "12:pids:/docker/" + someID + "\n11:cpu,cpuacct:/docker/" + someID + "\n4:memory:/docker/" + someID + "\n1:name=systemd:/docker/" + someID + "\n0::/\n"
	v2 := "0::/system.slice/docker-" + someID + ".scope\n"
	scope := "system.slice/docker-" + someID + ".scope/"
	want := sandbox.Usage{PeakMemoryBytes: 1 << 20, OOMKills: 2, Pids: 3, CPUSeconds: 1.5, ThrottledSeconds: 0.25}
	tests := []struct {
		name  string
		table string
		files map[string]string
		want  sandbox.Usage
		none  bool
	}{
		{name: "v1", table: v1, want: want, files: map[string]string{
			"pids/docker/" + someID + "/pids.current":                "3\n",
			"cpuacct/docker/" + someID + "/cpuacct.usage":            "1500000000\n",
			"cpu/docker/" + someID + "/cpu.stat":                     "nr_periods 7\nnr_throttled 1\nthrottled_time 250000000\n",
			"memory/docker/" + someID + "/memory.oom_control":        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
			"memory/docker/" + someID + "/memory.max_usage_in_bytes": "1048576\n",
		}},
		{name: "v2", table: v2, want: want, files: map[string]string{
			scope + "pids.current":   "3\n",
			scope + "cpu.stat":       "usage_usec 1500000\nuser_usec 1\nnr_throttled 1\nthrottled_usec 250000\n",
			scope + "memory.events":  "low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\noom_group_kill 0\n",
			scope + "memory.current": "4096\n",
			scope + "memory.peak":    "1048576\n",
		}},
		{name: "v2 of an older kernel", table: v2, want: want, files: map[string]string{
			scope + "pids.current":   "3\n",
			scope + "cpu.stat":       "usage_usec 1500000\nthrottled_usec 250000\n",
			scope + "memory.events":  "oom_kill 2\n",
			scope + "memory.current": "1048576\n",
		}},
		{name: "another process", table: "12:pids:/docker/f00\n4:memory:/docker/f00\n0::/\n", none: true},
		{name: "no container", table: "0::/user.slice\n", none: true},
		{name: "empty", none: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, tt.files)
			g, err := Find(tt.table, root, someID)
			if (err != nil) != tt.none {
				t.Fatalf("%+v, %v", g, err)
			}
			if tt.none {
				return
			}
			got, err := g.Usage()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := os.RemoveAll(root); err != nil {
				t.Fatal(err)
			}
			if got, err := g.Usage(); err == nil {
				t.Errorf("of a container that has ended: %+v", got)
			}
		})
	}
}

// What is held is what processes have and files in memory, not the files that are kept
// while there is room; it is looked at while a command runs, also a short one.
func TestHeld(t *testing.T) {
	v1, v2 := "1:memory,cpu,cpuacct,pids:/"+someID+"\n", "0::/"+someID+"\n"
	for _, tt := range []struct {
		name, table, file, text string
		want                    int64
	}{
		{"v1", v1, "memory/" + someID + "/memory.stat", "cache 9000\nrss 1\nshmem 1\ntotal_cache 9000\ntotal_rss 4096\ntotal_rss_huge 7\ntotal_shmem 512\n", 4608},
		{"v1 of an older kernel", v1, "memory/" + someID + "/memory.stat", "total_cache 9000\ntotal_rss 4096\n", 4096},
		{"v2", v2, someID + "/memory.stat", "anon 4096\nfile 9000\nanon_thp 7\nshmem 512\nfile_mapped 3\n", 4608},
		{"gone", v2, someID + "/cpu.stat", "", 0},
		{"not a number", v2, someID + "/memory.stat", "anon many\nshmem 512\n", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, map[string]string{tt.file: tt.text})
			g, err := Find(tt.table, root, someID)
			if err != nil {
				t.Fatal(err)
			}
			if got := g.Held(); got != tt.want {
				t.Errorf("%d bytes, want %d", got, tt.want)
			}
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				looks, began := []time.Duration{}, time.Now()
				g.WatchHeld(ctx, func(bytes int64) {
					looks = append(looks, time.Since(began))
					if bytes != tt.want {
						t.Errorf("%d bytes, want %d", bytes, tt.want)
					}
				})
				if n := len(looks); n < 10 || n > 15 || looks[0] > 100*time.Millisecond {
					t.Errorf("looked after %s", looks)
				}
			})
		})
	}
}
