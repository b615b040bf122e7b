package oci

import (
	"path/filepath"
	"testing"

	"github.com/evalrun/evalrun/internal/sandbox/oci/ocitest"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

// BenchmarkSandbox is a sandbox from its start to its end, around one command.
func BenchmarkSandbox(b *testing.B) {
	for _, runtime := range ocitest.Runtimes(b) {
		b.Run(filepath.Base(runtime), func(b *testing.B) {
			sandboxtest.Bench(b, openDriver(b, runtime), ocitest.Image)
		})
	}
}
