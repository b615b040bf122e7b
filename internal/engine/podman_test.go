package engine

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/builder"
	"github.com/evalrun/evalrun/internal/sandbox"
)

// startPodman starts a service with a state of the test's own.
func startPodman(t *testing.T) (address string) {
	t.Helper()
	if _, err := exec.LookPath("podman"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root, and podman here: ", err)
	}
	// Not t.TempDir, whose names are too long for a socket.
	dir, err := os.MkdirTemp("", "podman-")
	if err != nil {
		t.Fatal(err)
	}
	runtime := "crun"
	if path, err := exec.LookPath("runc"); err == nil {
		runtime = path // takes control groups of both versions
	}
	socket := filepath.Join(dir, "p.sock")
	podman := []string{"--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "--runtime", runtime, "--cgroup-manager", "cgroupfs", "--events-backend", "file"}
	cmd := exec.Command("podman", append(podman, "system", "service", "-t", "0", "unix://"+socket)...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if out, err := exec.Command("rm", "-rf", "--one-file-system", dir).CombinedOutput(); err != nil {
			t.Logf("podman's folder: %v\n%s", err, out)
		}
	})
	for range 300 {
		if _, err := os.Stat(socket); err == nil {
			return "unix://" + socket
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("podman's service does not start\n%s", &log)
	return ""
}

// What the embedded solver has built runs in Podman, found by its own address or
// where Docker is looked for.
func TestPodman(t *testing.T) {
	address := startPodman(t)
	cacheDir := t.TempDir()
	t.Setenv("DOCKER_HOST", address)
	for _, o := range []Options{{Name: Docker, CacheDir: cacheDir}, {Name: Podman, CacheDir: cacheDir}} {
		t.Setenv("CONTAINER_HOST", address)
		e, err := Open(context.Background(), o)
		if err != nil {
			t.Fatalf("%s: %v", o.Name, err)
		}
		defer e.Close()
		if e.Name != Podman {
			t.Fatalf("%s opened %s", o.Name, e)
		}
		if o.Name == Docker {
			continue
		}
		runInPodman(t, e, cacheDir)
	}
}

func runInPodman(t *testing.T, e *Engine, cacheDir string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	lock, err := images.OpenLock(filepath.Join(t.TempDir(), "images.lock"), false)
	if err != nil {
		t.Fatal(err)
	}
	b := builder.New(builder.Options{Engine: e.Images, CacheDir: cacheDir, Lock: lock, Parallel: 2})
	source := images.Source{Kind: "rootfs", Ref: writeTar(t, t.TempDir())}
	digest, err := b.BaseDigest(ctx, source)
	if err != nil {
		t.Fatal(err)
	}
	gitDir, commit := repository(t)
	img, err := b.Instance(ctx, images.InstanceSpec{
		Env:        images.EnvSpec{Base: images.BaseSpec{Source: source, Digest: digest, Platform: e.Platform()}, Language: "sh"},
		InstanceID: "o__n-1", Repo: "o/n", BaseCommit: commit, Mirror: gitDir,
	})
	if err != nil {
		t.Fatal(err)
	}
	if words, err := e.ProbeNetwork(ctx, img.Ref); err != nil || !strings.HasPrefix(words, "none (verified") {
		t.Errorf("network: %q, %v", words, err)
	}
	box, err := e.Sandbox.Start(ctx, sandbox.Spec{
		Image: img.Digest, Name: "t", ReadOnly: true, Writable: []string{"/testbed"}, Owned: []string{"/testbed"}, User: "1000:1000",
		Limits: sandbox.Limits{MemoryBytes: 256 << 20, Pids: 64, DiskBytes: 1 << 30},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := box.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var out bytes.Buffer
	res, err := box.Exec(ctx, sandbox.Command{Argv: []string{"/bin/sh", "-c", "cat a.txt; exit 3"}, Output: &out})
	if err != nil || res.ExitCode != 3 || out.String() != "content\n" {
		t.Errorf("%+v, %v, %q", res, err, &out)
	}
	sweepPodman(t, e, "localhost/evalrun/loaded:"+strings.TrimPrefix(img.Digest, "sha256:"))
	if said := strings.Join(e.Unenforced(), "\n"); strings.Contains(said, "volumes") {
		t.Errorf("its volumes can be measured: %s", said)
	}
	if _, err := e.Sandbox.Start(ctx, sandbox.Spec{Image: "evalrun/nothing:1", Name: "t"}); err == nil || !strings.Contains(err.Error(), "not in the embedded engine's store") {
		t.Errorf("an image that is not there: %v", err)
	}
}

// What a run on another machine has left in Podman, and is past its time, is removed by
// a run on another engine, and what is alive is not.
func sweepPodman(t *testing.T, live *Engine, image string) {
	t.Helper()
	ctx := context.Background()
	api, err := client.NewClientWithOpts(client.WithHost(os.Getenv("CONTAINER_HOST")), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	labels := map[string]string{"evalrun.owner": "elsewhere-1.1.1", "evalrun.expiry": "1"}
	left, err := api.ContainerCreate(ctx, &container.Config{Image: image, Labels: labels}, nil, nil, nil, "left")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := SweepOthers(ctx, Options{CacheDir: t.TempDir()}, &Engine{Name: Embedded}); n != 1 || err != nil {
		t.Errorf("swept %d, %v; want the one that was left", n, err)
	}
	all, err := api.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil || len(all) != 1 || all[0].ID == left.ID {
		t.Errorf("%d containers are there, %v; want the live one of %s", len(all), err, live)
	}
}
