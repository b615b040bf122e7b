package docker

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

// victim is not a test: it is a run that is killed.
func TestVictim(t *testing.T) {
	dir := os.Getenv("EVALRUN_TEST_VICTIM")
	if dir == "" {
		t.Skip("only as a process of TestKilled's")
	}
	ctx := context.Background()
	c := connect(t)
	if err := c.Lease(filepath.Join(dir, "leases")); err != nil {
		t.Fatal(err)
	}
	fmt.Println("\nrun " + c.owner.String())
	for {
		s, err := c.Start(ctx, sandbox.Spec{
			Image: os.Getenv("EVALRUN_TEST_IMAGE"), Name: "victim", ReadOnly: true, Writable: []string{"/testbed"},
			Limits: sandbox.Limits{Pids: 100, MemoryBytes: 1 << 28, DiskBytes: 1 << 28}, Expiry: time.Now().Add(time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("started")
		s.Exec(ctx, sandbox.Command{Argv: []string{"sh", "-c", "(setsid sleep 1000 &); sleep 0.1"}})
		if err := s.Destroy(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// A run that is killed at any moment leaves no container, volume, network or file that the
// next one does not find.
func TestKilled(t *testing.T) {
	image := dockertest.Image(t)
	c := connect(t)
	ctx := context.Background()
	networks := func() (names []string) {
		t.Helper()
		list, err := c.api.NetworkList(ctx, network.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range list {
			names = append(names, n.Name)
		}
		slices.Sort(names)
		return names
	}
	before := networks()
	rounds, found := 8, 0
	if testing.Short() {
		rounds = 3
	}
	for i := range rounds {
		dir := t.TempDir()
		owner := killVictim(t, dir, image, i%3 == 0)
		volumes := sweepAll(t, c, owner)
		for _, name := range volumes {
			found++
			if _, err := c.api.VolumeInspect(ctx, name); err == nil {
				t.Errorf("round %d: volume %s is left", i, name)
			}
		}
		next := connect(t)
		if err := next.Lease(filepath.Join(dir, "leases")); err != nil {
			t.Fatal(err)
		}
		if left := next.leases.of(owner); len(left) > 0 {
			t.Errorf("round %d: the leases %v are left", i, left)
		}
		if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
			t.Errorf("round %d: temporary files %v are left, %v", i, left, err)
		}
	}
	if found == 0 {
		t.Error("no killed run has left anything, so that nothing was swept")
	}
	for _, name := range networks() {
		if !slices.Contains(before, name) && strings.Contains(name, "evalrun") {
			t.Errorf("network %s is left", name)
		}
	}
}

// killVictim runs TestVictim, kills it while its first sandbox starts or, after begun, while
// a later one is at work, and returns what its containers are labelled with.
func killVictim(t *testing.T, dir, image string, begun bool) (owner string) {
	t.Helper()
	temp := filepath.Join(dir, "tmp")
	if err := os.Mkdir(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestVictim$")
	cmd.Env = append(os.Environ(), "EVALRUN_TEST_VICTIM="+dir, "EVALRUN_TEST_IMAGE="+image, "TMPDIR="+temp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if run, ok := strings.CutPrefix(lines.Text(), "run "); ok {
			if owner = run; !begun {
				break
			}
		}
		if lines.Text() == "started" {
			break
		}
	}
	time.Sleep(rand.N(600 * time.Millisecond))
	cmd.Process.Kill()
	cmd.Wait()
	if owner == "" {
		t.Fatal("the run never began")
	}
	return owner
}

// sweepAll sweeps until the containers of an owner are gone, and returns the volumes they
// had. The daemon may be about to make one whose maker is dead by now.
func sweepAll(t *testing.T, c *Client, owner string) (volumes []string) {
	t.Helper()
	ctx := context.Background()
	none := 0
	for began := time.Now(); none < 3; time.Sleep(300 * time.Millisecond) {
		list, err := c.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelOwner+"="+owner))})
		if err != nil {
			t.Fatal(err)
		}
		for _, ct := range list {
			for _, m := range ct.Mounts {
				if m.Name != "" {
					volumes = append(volumes, m.Name)
				}
			}
		}
		if none++; len(list) > 0 {
			none = 0
		}
		if _, err := c.Sweep(ctx); err != nil {
			t.Fatalf("Sweep: %v", err)
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("containers of the killed run are left: %v", list)
		}
	}
	return volumes
}
