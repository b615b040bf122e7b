package docker

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// What a sandbox begins with is not of its writing: where nobody can tell how much that
// is, there is no sandbox, whose writing it would be taken for.
func TestUnmeasuredStart(t *testing.T) {
	spec := sandbox.Spec{
		Image: "x", ReadOnly: true, Writable: []string{"/testbed"}, Limits: sandbox.Limits{DiskBytes: 1 << 20}, Expiry: time.Now().Add(time.Hour),
	}
	for name, tt := range map[string]struct {
		measure http.HandlerFunc
		limits  sandbox.Limits
		starts  bool
	}{
		"measured":   {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"SizeRw":4194304}`)) }, spec.Limits, true},
		"a failure":  {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"message":"boom"}`, 500) }, spec.Limits, false},
		"no size":    {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"Id":"0123"}`)) }, spec.Limits, false},
		"unknown":    {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"SizeRw":-1}`)) }, spec.Limits, false},
		"no answer":  {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, spec.Limits, false},
		"no limit":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"message":"boom"}`, 500) }, sandbox.Limits{}, true},
		"no volume":  {volume(filepath.Join(t.TempDir(), "gone")), spec.Limits, false},
		"its volume": {volume(t.TempDir()), spec.Limits, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.Mkdir(filepath.Join(root, "volumes"), 0o755); err != nil {
				t.Fatal(err)
			}
			c, removals := liar(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/info"):
					fmt.Fprintf(w, `{"DockerRootDir":%q}`, root)
				case r.URL.Query().Get("size") != "":
					tt.measure(w, r)
				case strings.HasSuffix(r.URL.Path, "/create"):
					w.Write([]byte(`{"Id":"0123"}`))
				default:
					w.WriteHeader(http.StatusNoContent)
				}
			})
			c.patience = time.Second
			spec := spec
			spec.Limits = tt.limits
			box, err := c.Start(t.Context(), spec)
			if !tt.starts {
				if box != nil || !isEngineError(err) || removals.Load() == 0 {
					t.Errorf("%v, %v, with %d removals; want an *EngineError and no container", box, err, removals.Load())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s := box.(*Sandbox); s.limits != tt.limits || name == "measured" && s.copied != 4<<20 {
				t.Errorf("limits %+v, %d bytes are not of its writing", s.limits, s.copied)
			}
		})
	}
}

// volume is a container with one.
func volume(dir string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"SizeRw":0,"Mounts":[{"Type":"volume","Source":%q}]}`, dir)
	}
}

// Volumes that cannot be measured are among what is not enforced.
func TestUnenforcedVolumes(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "volumes"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		root string
		seen bool
	}{
		"here":      {root, true},
		"none yet":  {t.TempDir(), true},
		"elsewhere": {filepath.Join(root, "gone"), false},
		"not told":  {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := liar(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"DockerRootDir":%q}`, tt.root) })
			said := strings.Join(c.Unenforced(Info{}), "\n")
			if !strings.Contains(said, "disk: measured") || strings.Contains(said, "volumes") == tt.seen {
				t.Errorf("said to be unenforced is %q", said)
			}
		})
	}
}

// What is kept in memory has a limit: the smaller of that of memory and that of what is
// written.
func TestScratchSize(t *testing.T) {
	for limits, want := range map[sandbox.Limits]string{
		{}:                                     "",
		{MemoryBytes: 100}:                     ",size=100",
		{MemoryBytes: 100, DiskBytes: 99}:      ",size=99",
		{MemoryBytes: 100, DiskBytes: 1 << 30}: ",size=100",
	} {
		_, host := (&Client{}).containerConfig(sandbox.Spec{ReadOnly: true, Limits: limits}, false)
		if got := host.Tmpfs["/tmp"]; len(host.Tmpfs) != 3 || got != "rw,nosuid,nodev,exec,mode=1777"+want {
			t.Errorf("%+v: %v", limits, host.Tmpfs)
		}
	}
}
