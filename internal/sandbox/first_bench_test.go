package sandbox

import "testing"

func BenchmarkFirst(b *testing.B) {
	f := NewFirst(sleeper(b, "cat"))
	for b.Loop() {
		f.Changed()
	}
}
