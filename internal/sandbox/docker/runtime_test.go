package docker

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

// A runtime that the daemon has besides its own is the one that runs the sandbox,
// and one that it has not is told of before anything starts.
func TestOtherRuntime(t *testing.T) {
	runc, err := exec.LookPath("runc")
	if err != nil {
		if runc, err = exec.LookPath("/usr/sbin/runc"); err != nil {
			t.Skip("a second runtime is runc by another name: ", err)
		}
	}
	dir := t.TempDir()
	calls, other := filepath.Join(dir, "calls"), filepath.Join(dir, "other")
	script := "#!/bin/sh\necho \"$@\" >>" + calls + "\nexec " + runc + " \"$@\"\n"
	if err := os.WriteFile(other, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	d := dockertest.StartDaemon(t, "--add-runtime", "other="+other)
	t.Setenv("DOCKER_HOST", d.Host)
	c := connect(t)
	ctx := context.Background()
	err = c.UseRuntime(ctx, "kata")
	if err == nil || !strings.Contains(err.Error(), `"kata"`) || !strings.Contains(err.Error(), "other, runc") {
		t.Errorf("a runtime that is not there: %v, want its name and those there are", err)
	}
	if err := c.UseRuntime(ctx, "other"); err != nil {
		t.Fatal(err)
	}
	if info, err := c.Info(ctx); err != nil || info.Runtime != "other" {
		t.Errorf("Info: runtime %q, %v", info.Runtime, err)
	}
	s, err := c.Start(ctx, sandbox.Spec{Image: d.Image})
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Exec(ctx, sandbox.Command{Argv: []string{"sh", "-c", "exit 7"}})
	if err != nil || res.ExitCode != 7 {
		t.Errorf("%+v, %v", res, err)
	}
	if err := s.Destroy(ctx); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(calls)
	if err != nil || !strings.Contains(string(text), " create ") || !strings.Contains(string(text), " exec ") {
		t.Errorf("the runtime was not asked to create and exec: %v\n%s", err, text)
	}
}
