package redteam_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/sandbox"
)

// host starts sandboxes and remembers what each has on this machine. Other tests
// run beside these, so what is compared has to be the suite's own.
type host struct {
	sandbox.Driver
	socket string // of a daemon on this machine, "" for none
	boxes  string // the folder of the embedded engine's sandboxes, "" for none
	before map[string]string

	mu     sync.Mutex
	count  int
	traces []trace
	found  []found // of the embedded engine
	failed error
	left   []string // what was still there once a sandbox had gone

	namespaces int // that were held
}

// trace is what one container has on this machine.
type trace struct {
	id     string
	merged string // where its root is mounted
}

// watched is a sandbox whose network namespace is held while it is there: the
// kernel gives the name of one that has gone to the next.
type watched struct {
	witness
	h  *host
	ns *os.File
}

// witness is what a sandbox of these engines can do.
type witness interface {
	sandbox.Sandbox
	Changed(ctx context.Context) ([]sandbox.Change, error)
}

// label marks the containers of this process of the suite.
const label = "evalrun.redteam"

var process = fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())

func watchHost(t testing.TB, driver sandbox.Driver, name string) *host {
	t.Helper()
	h := &host{Driver: driver, socket: "/var/run/docker.sock", before: settings()}
	if name == engine.Embedded {
		h.socket, h.boxes = "", filepath.Join(cache.Dir(), "sandboxes")
	} else if name != engine.Docker {
		h.socket = ""
		t.Log("of this engine's sandboxes only settings and files of this machine are compared")
	} else if at := os.Getenv("DOCKER_HOST"); at != "" {
		var local bool
		if h.socket, local = strings.CutPrefix(at, "unix://"); !local {
			h.socket = ""
			t.Log("the engine is on another machine, whose processes and mounts are not compared")
		}
	}
	return h
}

// Start implements sandbox.Driver.
func (h *host) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	h.mu.Lock()
	h.count++
	name := fmt.Sprintf("%s-%d", process, h.count)
	h.mu.Unlock()
	labels := map[string]string{label: name}
	for k, v := range spec.Labels {
		labels[k] = v
	}
	spec.Labels = labels
	box, err := h.Driver.Start(ctx, spec)
	of, ok := box.(witness)
	switch {
	case err != nil || !ok:
		return box, err
	case h.boxes != "":
		return &watched{of, h, h.noteEmbedded(name)}, nil
	case h.socket != "":
		return &watched{of, h, h.note(ctx, name)}, nil
	}
	return box, nil
}

// Destroy implements sandbox.Sandbox.
func (w *watched) Destroy(ctx context.Context) error {
	if err := w.witness.Destroy(ctx); err != nil || w.ns == nil {
		return err
	}
	defer w.ns.Close()
	var left []string
	for range 50 {
		if left = inNamespace(w.ns); len(left) == 0 {
			w.ns = nil
			return nil
		}
		time.Sleep(100 * time.Millisecond) // what was killed may take a moment to go
	}
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	w.h.left = append(w.h.left, left...)
	w.ns = nil
	return nil
}

// inNamespace are the processes and mounts of a network namespace.
func inNamespace(ns *os.File) []string {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", ns.Fd()))
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		if of, err := os.Readlink(p + "/ns/net"); err == nil && of == name {
			left = append(left, p+" in network namespace "+name)
		}
	}
	if mounts, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(mounts), name) {
		left = append(left, "a mount of network namespace "+name)
	}
	return left
}

// note takes down what a container has while it is there, and returns its network
// namespace.
func (h *host) note(ctx context.Context, name string) *os.File {
	var list []struct {
		ID string `json:"Id"`
	}
	var one struct {
		State       struct{ Pid int }
		GraphDriver struct{ Data map[string]string }
	}
	err := h.get(ctx, containers(name), &list)
	if err == nil && len(list) == 1 {
		err = h.get(ctx, "/containers/"+list[0].ID+"/json", &one)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil || len(list) != 1 {
		if ctx.Err() == nil {
			h.failed = fmt.Errorf("container %s: %d of that name: %w", name, len(list), err)
		}
		return nil
	}
	h.traces = append(h.traces, trace{id: list[0].ID, merged: one.GraphDriver.Data["MergedDir"]})
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", one.State.Pid))
	if err != nil {
		return nil // not root, or the container has died by itself
	}
	h.namespaces++
	return ns
}

func containers(name string) string {
	return "/containers/json?all=1&filters=" + url.QueryEscape(fmt.Sprintf(`{"label":["%s=%s"]}`, label, name))
}

func (h *host) get(ctx context.Context, path string, into any) error {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", h.socket)
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// settings are what a way out would change on this machine.
func settings() map[string]string {
	have := map[string]string{}
	for _, name := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sys/kernel/sysrq", "/proc/sys/kernel/panic",
		"/proc/sys/vm/overcommit_memory", "/proc/sys/fs/suid_dumpable", "/sys/kernel/uevent_helper", "/etc/ld.so.preload", "/etc/crontab",
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			text = []byte(err.Error())
		}
		have[name] = string(text)
	}
	for _, dir := range []string{"/", "/tmp", "/root", "/usr/bin", "/etc/profile.d", "/etc/cron.d"} {
		found, _ := filepath.Glob(filepath.Join(dir, "*evalrun-redteam*"))
		have[dir] = strings.Join(found, " ")
	}
	return have
}

// same reports what the sandboxes have left on this machine.
func (h *host) same(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(h.before, settings()); diff != "" {
		t.Errorf("this machine is not as it was (-before +after):\n%s", diff)
	}
	if h.failed != nil {
		t.Error(h.failed)
	}
	if h.socket == "" && h.boxes == "" {
		return
	}
	if len(h.traces)+len(h.found) == 0 || h.namespaces == 0 && os.Geteuid() == 0 {
		t.Fatal("no container was seen, so that nothing was compared")
	}
	if len(h.left) > 0 {
		t.Errorf("left over:\n%s", strings.Join(h.left, "\n"))
	}
	for try := 0; ; try++ {
		left := h.remainsEmbedded()
		if h.socket != "" {
			left = append(left, h.remains(t.Context())...)
		}
		if len(left) == 0 {
			return
		}
		if try == 20 {
			t.Fatalf("%d sandboxes were started, and of these is left:\n%s", len(h.traces)+len(h.found), strings.Join(left, "\n"))
		}
		time.Sleep(250 * time.Millisecond) // the kernel takes namespaces down later
	}
}

// remains are what the containers have left.
func (h *host) remains(ctx context.Context) []string {
	var left []string
	say := func(format string, args ...any) { left = append(left, fmt.Sprintf(format, args...)) }
	var list []struct {
		ID     string `json:"Id"`
		Labels map[string]string
	}
	if err := h.get(ctx, "/containers/json?all=1", &list); err != nil {
		say("%v", err)
	}
	for _, c := range list {
		if strings.HasPrefix(c.Labels[label], process) {
			say("container %s", c.ID)
		}
	}
	ids := map[string]bool{}
	for _, tr := range h.traces {
		ids[tr.id] = true
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		group, _ := os.ReadFile(p + "/cgroup")
		for _, word := range strings.FieldsFunc(string(group), func(r rune) bool { return strings.ContainsRune("/\n-.", r) }) {
			if ids[word] {
				say("%s in a control group of container %s", p, word)
			}
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, tr := range h.traces {
		if strings.Contains(string(mounts), tr.id) || tr.merged != "" && strings.Contains(string(mounts), tr.merged) {
			say("mounts of container %s", tr.id)
		}
		for _, pattern := range []string{"/sys/fs/cgroup/*/docker/" + tr.id, "/sys/fs/cgroup/docker/" + tr.id, "/sys/fs/cgroup/system.slice/docker-" + tr.id + ".scope"} {
			if found, _ := filepath.Glob(pattern); len(found) > 0 {
				say("control groups %q", found)
			}
		}
	}
	return left
}
