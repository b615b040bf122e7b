// Package engine pairs something that builds images with something that runs
// sandboxes from them, and finds out what this machine offers.
//
// It must not know instances, patches or verdicts.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalrun/evalrun/images/builder"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/docker"
)

// Engine is a builder and a sandbox that share an image store.
type Engine struct {
	Name    string
	Info    docker.Info
	Images  Store
	Sandbox sandbox.Driver
	Close   func() error
}

// Store is the engine's image store and solver.
type Store interface {
	builder.Engine
	ImageEnv(ctx context.Context, ref string) ([]string, error)
	RepoDigest(ctx context.Context, ref string) string
	RemoveImages(ctx context.Context) (int, error)
}

// Open connects to an engine. "docker" is the one there is; "auto" finds it.
func Open(ctx context.Context, name string) (*Engine, error) {
	if name != "docker" && name != "auto" {
		return nil, fmt.Errorf("engine %q: want docker or auto", name)
	}
	c, err := docker.Connect(ctx)
	if err != nil {
		return nil, err
	}
	info, err := c.Info(ctx)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &Engine{Name: "docker", Info: info, Images: c, Sandbox: c, Close: c.Close}, nil
}

// Platform is what the engine's containers run on, as in "linux/amd64".
func (e *Engine) Platform() string {
	arch := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[e.Info.Architecture]
	return "linux/" + cmp.Or(arch, e.Info.Architecture)
}

// Unenforced are limits the engine cannot hold, in words.
func (e *Engine) Unenforced() []string { return docker.Unenforced(e.Info) }

// probe asks from inside what a sandbox can reach. Each line is one fact.
const probe = `
ifs=; while IFS=: read -r name rest; do [ -n "$rest" ] && ifs="$ifs $name"; done < /proc/net/dev
echo "interfaces" $ifs
routes=-1; while read -r _; do routes=$((routes + 1)); done < /proc/net/route
echo "routes $routes"
reach() { local said; said=$( (exec 3<>"/dev/tcp/$1/$2") 2>&1 && echo connected); said=${said%%$'\n'*}; echo "${said##*: }"; }
echo "v4 $(reach 127.0.0.1 9)"
echo "v6 $(reach ::1 9)"
echo "out4 $(reach 192.0.2.1 53)"
echo "out6 $(reach 2001:db8::1 53)"
echo "metadata $(reach 169.254.169.254 80)"
if ! command -v getent >/dev/null; then echo "dns untested"; elif getent hosts example.org >/dev/null 2>&1; then echo "dns answers"; else echo "dns none"; fi
`

// ProbeNetwork starts one sandbox of the image and proves from inside that
// there is no way out and that loopback works. It returns the words for the
// report, and an error when something can be reached.
func (e *Engine) ProbeNetwork(ctx context.Context, image string) (words string, err error) {
	box, err := e.Sandbox.Start(ctx, sandbox.Spec{
		Image: image, Name: "probe", Labels: map[string]string{"evalrun.run": "probe"}, Expiry: time.Now().Add(10 * time.Minute),
		Limits: sandbox.Limits{CPUs: 1, MemoryBytes: 256 << 20, Pids: 64},
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, box.Destroy(context.WithoutCancel(ctx))) }()
	var out strings.Builder
	res, err := box.Exec(ctx, sandbox.Command{
		Argv: []string{"/bin/bash", "-c", probe}, Dir: "/", Env: []string{"LC_ALL=C"}, Output: &out, Timeout: time.Minute,
	})
	if err != nil {
		return "", err
	}
	if res.ExitCode != 0 {
		return "", fmt.Errorf("network probe: exit status %d: %s", res.ExitCode, strings.TrimSpace(out.String()))
	}
	return judgeProbe(out.String())
}

// noWayOut is what the kernel says when it has nowhere to send a packet to; the
// last two where it does without IPv6.
var noWayOut = []string{"Network is unreachable", "Address family not supported by protocol", "Cannot assign requested address"}

func judgeProbe(text string) (string, error) {
	facts := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		name, value, _ := strings.Cut(line, " ")
		facts[name] = strings.TrimSpace(value)
	}
	var open []string
	if facts["interfaces"] != "lo" {
		open = append(open, "interfaces besides loopback: "+facts["interfaces"])
	}
	if facts["routes"] != "0" {
		open = append(open, facts["routes"]+" routes")
	}
	for _, name := range []string{"out4", "out6", "metadata"} {
		if !slices.Contains(noWayOut, facts[name]) {
			open = append(open, name+": "+facts[name])
		}
	}
	// Without a tool to ask with, that there is no route has to do.
	if facts["dns"] != "none" && facts["dns"] != "untested" {
		open = append(open, "names are resolved")
	}
	if len(open) > 0 {
		return "", fmt.Errorf("network probe: the sandbox is not cut off: %s", strings.Join(open, "; "))
	}
	// A refused connection is an answer: the interface is up and nobody listens.
	switch {
	case facts["v4"] != "Connection refused":
		return "", fmt.Errorf("network probe: loopback does not work: %s", facts["v4"])
	case facts["v6"] != "Connection refused":
		return "none (verified; no IPv6 loopback)", nil
	}
	return "none (verified)", nil
}
