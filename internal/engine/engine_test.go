package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

const closedOff = `interfaces lo
routes 0
v4 Connection refused
v6 Connection refused
out4 Network is unreachable
out6 Network is unreachable
metadata Network is unreachable
dns none
`

func TestJudgeProbe(t *testing.T) {
	tests := []struct {
		name     string
		old, new string // what is different
		want     string
		err      string
	}{
		{name: "closed off", want: "none (verified)"},
		{name: "no IPv6", old: "v6 Connection refused", new: "v6 Cannot assign requested address", want: "none (verified; no IPv6 loopback)"},
		{name: "a kernel without IPv6", old: "v6 Connection refused\nout4 Network is unreachable\nout6 Network is unreachable",
			new: "v6 Address family not supported by protocol\nout4 Network is unreachable\nout6 Address family not supported by protocol", want: "none (verified; no IPv6 loopback)"},
		{name: "no tool for names", old: "dns none", new: "dns untested", want: "none (verified)"},
		{name: "no loopback", old: "v4 Connection refused", new: "v4 Network is unreachable", err: "loopback does not work: Network is unreachable"},
		{name: "an interface", old: "interfaces lo", new: "interfaces lo eth0", err: "interfaces besides loopback: lo eth0"},
		{name: "no interface", old: "interfaces lo", new: "interfaces", err: "interfaces besides loopback"},
		{name: "a route", old: "routes 0", new: "routes 1", err: "1 routes"},
		{name: "the way out is open", old: "out4 Network is unreachable", new: "out4 connected", err: "out4: connected"},
		{name: "the way out is only slow", old: "out4 Network is unreachable", new: "out4 Connection timed out", err: "out4: Connection timed out"},
		{name: "IPv6 is open", old: "out6 Network is unreachable", new: "out6 connected", err: "out6: connected"},
		{name: "metadata", old: "metadata Network is unreachable", new: "metadata Connection refused", err: "metadata: Connection refused"},
		{name: "names", old: "dns none", new: "dns answers", err: "names are resolved"},
		{name: "two things", old: "routes 0\nv4 Connection refused", new: "routes 2\nv4 connected", err: "2 routes"},
		{name: "cut off", old: "metadata Network is unreachable\ndns none\n", new: "", err: "metadata: "},
		{name: "nothing", old: closedOff, new: "", err: "not cut off"},
		{name: "something else", old: closedOff, new: "bash: command not found", err: "not cut off"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := judgeProbe(strings.Replace(closedOff, tt.old, tt.new, 1))
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// The probe's answers come from a real sandbox, and its sandbox goes.
func TestProbeNetwork(t *testing.T) {
	image := dockertest.Image(t)
	e, err := Open(context.Background(), Options{Name: Auto})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if got, err := e.ProbeNetwork(context.Background(), image); err != nil || !strings.HasPrefix(got, "none (verified") {
		t.Errorf("%q, %v", got, err)
	}
	if e.Name != "docker" || e.Why == "" || e.Info.Version == "" || len(e.Unenforced()) == 0 {
		t.Errorf("%+v", e)
	}
	if err := e.Images.(*docker.Client).HasBuildKit(context.Background()); err != nil {
		t.Error(err)
	}
}

// An engine that fails is not taken for one that is open, and the other way round.
func TestProbeFailures(t *testing.T) {
	fake := &sandboxtest.Fake{}
	e := &Engine{Sandbox: fake}
	fake.OnStart = func(context.Context, sandbox.Spec) error { return sandboxtest.Trouble("cannot start") }
	if _, err := e.ProbeNetwork(context.Background(), "image"); err == nil || !strings.Contains(err.Error(), "cannot start") {
		t.Errorf("an engine that does not start: %v", err)
	}
	fake.OnStart = nil
	fake.OnExec = func(context.Context, *sandboxtest.FakeSandbox, sandbox.Command) (sandbox.Result, error) {
		return sandbox.Result{ExitCode: 127}, nil
	}
	if _, err := e.ProbeNetwork(context.Background(), "image"); err == nil || !strings.Contains(err.Error(), "exit status 127") {
		t.Errorf("an image without bash: %v", err)
	}
	if fake.Live() != 0 {
		t.Errorf("%d sandboxes are left", fake.Live())
	}
}

func TestOpenUnknown(t *testing.T) {
	if _, err := Open(context.Background(), Options{Name: "podman-compose"}); err == nil || !strings.Contains(err.Error(), `"podman-compose"`) {
		t.Errorf("an engine that does not exist: %v", err)
	}
}
