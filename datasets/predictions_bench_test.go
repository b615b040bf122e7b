package datasets

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// writePredictions writes lines of a model for some instances, with patches of about
// as many bytes, no two alike; and returns the path.
func writePredictions(tb testing.TB, lines, instances, patchBytes int) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "preds.jsonl")
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	w := bufio.NewWriter(f)
	const code = `+        self.assertEqual(value, \"expected\")\n`
	text := strings.Repeat(code, patchBytes/(len(code)-3))
	for i := range lines {
		fmt.Fprintf(w, `{"instance_id":"name__name-%05d","model_name_or_path":"m","model_patch":"diff --git a/%d b/%d\n%s"}`+"\n", i%instances, i, i, text)
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	return path
}

// kept is the heap that what is made holds.
func kept[T any](tb testing.TB, make func() T) (T, int64) {
	tb.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	made := make()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return made, int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// TestPredictionsNeedNoMemoryForPatches: with a spool, what a prediction takes of
// memory does not depend on its patch.
func TestPredictionsNeedNoMemoryForPatches(t *testing.T) {
	const lines, perLine = 10_000, 32
	for _, patch := range []int{100, 10_000} {
		path := writePredictions(t, lines, 500, patch)
		spool := NewSpool(t.TempDir())
		sets, heap := kept(t, func() []PredictionSet {
			sets, _, err := LoadPredictions(path, nil, PredictionOptions{Attempts: lines, Spool: spool})
			if err != nil {
				t.Fatal(err)
			}
			return sets
		})
		t.Logf("patches of %d bytes: %d bytes of memory a line", patch, heap/lines)
		if heap > lines*perLine {
			t.Errorf("patches of %d bytes: %d bytes of memory a line, want at most %d", patch, heap/lines, perLine)
		}
		if n := sets[0].Predictions.Len(); n != lines {
			t.Errorf("%d predictions of %d lines", n, lines)
		}
	}
}

// BenchmarkPredictions: how fast lines of patches of 2 KB are read, and what they leave
// in memory: with a spool, where all are in memory, and where none is wanted.
// BENCH_LINES sets how many there are.
func BenchmarkPredictions(b *testing.B) {
	const instances = 500
	lines := 10_000
	if text := os.Getenv("BENCH_LINES"); text != "" {
		if _, err := fmt.Sscan(text, &lines); err != nil {
			b.Fatal(err)
		}
	}
	path := writePredictions(b, lines, instances, 2000)
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	spool := NewSpool(b.TempDir())
	for name, opts := range map[string]PredictionOptions{
		"spool": {Spool: spool}, "memory": {}, "unwanted": {Selected: func(string) bool { return false }},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(info.Size())
			opts.Attempts = lines
			for b.Loop() {
				sets, heap := kept(b, func() []PredictionSet {
					sets, _, err := LoadPredictions(path, nil, opts)
					if err != nil {
						b.Fatal(err)
					}
					return sets
				})
				if n := sets[0].Predictions.Len(); n != lines {
					b.Fatalf("%d predictions of %d lines", n, lines)
				}
				b.ReportMetric(float64(heap)/float64(lines), "B/line")
			}
		})
	}
}
