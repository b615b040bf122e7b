package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	units "github.com/docker/go-units"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// podmanProcesses is a number of processes of one user that Podman's service may
// set: it lowers its own limit to this.
const podmanProcesses = 32768

// forPodman asks for what Docker does by default and Podman does otherwise.
func forPodman(host *container.HostConfig) {
	// It would raise this to the greatest there is, which not every root may do.
	// Sandboxes have a limit of their own.
	host.Ulimits = append(host.Ulimits, &units.Ulimit{Name: "nproc", Soft: podmanProcesses, Hard: podmanProcesses})
}

// podmanNotRunning is in what Podman says of a container that has ended.
const podmanNotRunning = "container state improper"

// podmanNotStarted reports whether Podman says that a process could not be
// started, which it does in the process's own output. One that says so itself and
// exits with 127 is taken for one that could not: it gains nothing by that.
func podmanNotStarted(said string) bool {
	return strings.HasPrefix(said, "Error: ") && strings.Contains(said, "OCI runtime")
}

// podmanPatience is how often a container in which nothing runs any more is asked
// after: Podman learns of its end late.
const podmanPatience = 60

// podmanWrapper is a wrapper that takes away what Podman adds: two variables nobody
// asked for, and a line of its own in the output of a process that does not read its
// input to the end.
func podmanWrapper(wrapper string, env []string, cmd sandbox.Command) string {
	asked := func(variable string) bool {
		return slices.Contains(env, variable) || slices.Contains(cmd.Env, variable)
	}
	var unset string
	for _, v := range []struct{ name, value string }{{"TERM", "xterm"}, {"container", "podman"}} {
		if !asked(v.name + "=" + v.value) {
			unset += fmt.Sprintf("[ \"$%[1]s\" != %[2]s ] || unset %[1]s\n", v.name, v.value)
		}
	}
	if len(cmd.Stdin) > 0 {
		wrapper = "\"$@\" 2>&1\ncode=$?\ncat >/dev/null\nexit $code"
	}
	return unset + wrapper
}
