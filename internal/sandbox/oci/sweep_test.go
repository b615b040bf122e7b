package oci

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/oci/ocitest"
)

// leftBehind lists what there is on this machine of sandboxes whose name holds an
// id: processes, mounts and control groups.
func leftBehind(t testing.TB, id string) []string {
	t.Helper()
	var found []string
	cmdlines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range cmdlines {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(id)) {
			found = append(found, "process: "+string(bytes.ReplaceAll(text, []byte{0}, []byte(" "))))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, id) {
			found = append(found, "mount: "+line)
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/evalrun/*", "/sys/fs/cgroup/*/evalrun/*"} {
		dirs, _ := filepath.Glob(pattern)
		for _, dir := range dirs {
			var fs unix.Statfs_t
			if unix.Statfs(dir, &fs) == nil && fs.Type != unix.TMPFS_MAGIC && strings.Contains(dir, id) {
				found = append(found, "control group: "+dir)
			}
		}
	}
	return found
}

// victim is not a test: it is a run that is killed.
func TestVictim(t *testing.T) {
	dir := os.Getenv("EVALRUN_TEST_VICTIM")
	if dir == "" {
		t.Skip("only as a process of TestKilled's")
	}
	ctx := context.Background()
	d, err := New(ctx, Options{Dir: dir, Runtime: os.Getenv("EVALRUN_TEST_RUNTIME"), Images: oneImage(os.Getenv("EVALRUN_TEST_ROOT"))})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("\nrun " + filepath.Base(d.state.run))
	for {
		s, err := d.Start(ctx, sandbox.Spec{Image: ocitest.Image, Limits: sandbox.Limits{Pids: 100, MemoryBytes: 1 << 28}, Expiry: time.Now().Add(time.Hour)})
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

// A run that is killed at any moment leaves nothing that the next one does not
// find; what runs in its sandboxes ends with it.
func TestKilled(t *testing.T) {
	for _, runtime := range ocitest.Runtimes(t) {
		t.Run(filepath.Base(runtime), func(t *testing.T) { killed(t, runtime) })
	}
}

func killed(t *testing.T, runtime string) {
	d := openDriver(t, runtime)
	root := string(d.images.(oneImage))
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	for i := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestVictim$")
		cmd.Env = append(os.Environ(), "EVALRUN_TEST_VICTIM="+d.state.dir, "EVALRUN_TEST_RUNTIME="+runtime, "EVALRUN_TEST_ROOT="+root)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		id := ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if run, ok := strings.CutPrefix(lines.Text(), "run "); ok {
				id = run
				if i%3 > 0 {
					break // while its first sandbox starts
				}
			}
			if lines.Text() == "started" {
				break // while a command runs
			}
		}
		time.Sleep(time.Duration(i) * 15 * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		if id == "" {
			t.Fatal("the run never began")
		}
		// A process that was just being made has the lock too, for a moment.
		for began := time.Now(); exists(filepath.Join(d.state.dir, "runs", id)); time.Sleep(10 * time.Millisecond) {
			if _, err := d.Sweep(context.Background()); err != nil {
				t.Fatalf("Sweep: %v", err)
			}
			if time.Since(began) > 30*time.Second {
				t.Fatalf("round %d: the folder of the killed run is left", i)
			}
		}
		if left := leftBehind(t, id); len(left) > 0 {
			t.Errorf("round %d: left behind: %q", i, left)
		}
	}
}

// Those who look for leftovers are in nobody's way.
func TestLookersDoNotDisturb(t *testing.T) {
	dir := t.TempDir()
	done := make(chan struct{})
	var looking sync.WaitGroup
	for range 4 {
		looking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					HasLeftovers(dir)
				}
			}
		})
	}
	for range 100 {
		s, err := openState(dir)
		if err == nil {
			err = s.close()
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	looking.Wait()
}

// What another process still uses stays, also after the time it was expected to take.
func TestSweepOthers(t *testing.T) {
	runtime := ocitest.Runtimes(t)[0]
	ours := openDriver(t, runtime)
	ctx := context.Background()
	theirs, err := New(ctx, Options{Dir: ours.state.dir, Runtime: runtime, Images: ours.images})
	if err != nil {
		t.Fatal(err)
	}
	start := func(expiry time.Time) sandbox.Sandbox {
		s, err := theirs.Start(ctx, sandbox.Spec{Image: ocitest.Image, Expiry: expiry})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for what, box := range map[string]sandbox.Sandbox{"fresh": start(time.Now().Add(time.Hour)), "expired": start(time.Now().Add(-time.Hour))} {
		if n, err := ours.Sweep(ctx); n != 0 || err != nil {
			t.Errorf("Sweep: %d, %v; want none, as its process lives", n, err)
		}
		if res, err := box.Exec(ctx, sandbox.Command{Argv: []string{"true"}}); err != nil || res.ExitCode != 0 {
			t.Errorf("%s: a sandbox in use: %+v, %v", what, res, err)
		}
	}
	if err := theirs.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if left := leftBehind(t, filepath.Base(theirs.state.run)); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
