package docker

import (
	"os/exec"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

// BenchmarkSandbox is a sandbox from its start to its end, around one command.
func BenchmarkSandbox(b *testing.B) {
	image := dockertest.Image(b)
	sandboxtest.Bench(b, connect(b), image)
}

// BenchmarkDockerRun is what a shell script would do instead.
func BenchmarkDockerRun(b *testing.B) {
	image := dockertest.Image(b)
	docker, err := exec.LookPath("docker")
	if err != nil {
		b.Skip("the docker command is not here: ", err)
	}
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		if out, err := exec.Command(docker, "run", "--rm", "--network", "none", image, "true").CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		times = append(times, time.Since(began))
	}
	sandboxtest.ReportMedian(b, times)
}
