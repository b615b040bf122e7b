package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

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
