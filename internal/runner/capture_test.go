package runner

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is kept of a phase is exactly its head and its tail, whatever pieces it
// was written in, and the region says where.
func TestCaptureProperty(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		c, err := newCapture(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		for phase := range 3 {
			c.line("between")
			want.WriteString("between\n")
			limit := int64(random.IntN(400))
			data := make([]byte, random.IntN(1000))
			for i := range data {
				data[i] = byte('a' + random.IntN(26))
			}
			out := c.phase(limit)
			for rest := data; len(rest) > 0; {
				n := random.IntN(len(rest)) + 1
				if random.IntN(3) > 0 {
					n = min(n, 7)
				}
				if wrote, err := out.Write(rest[:n]); wrote != n || err != nil {
					t.Fatalf("Write: %d, %v", wrote, err)
				}
				rest = rest[n:]
			}
			kept := expected(data, limit)
			start := int64(want.Len())
			want.WriteString(kept)
			r := out.end()
			out.Write([]byte("late")) // what comes after the end is not kept
			if got := (region{start, int64(want.Len()), int64(len(data)), int64(len(data)) > limit}); r != got {
				t.Fatalf("round %d, phase %d: region %+v, want %+v", round, phase, r, got)
			}
			section, err := c.section(r)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(section); string(got) != kept || err != nil {
				t.Fatalf("round %d, phase %d: %d of %d bytes under a limit of %d: %q, want %q", round, phase, len(got), len(data), limit, got, kept)
			}
		}
		if err := c.close(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(c.file.Name()); !bytes.Equal(got, want.Bytes()) || err != nil {
			t.Fatalf("round %d: the file differs: %v", round, err)
		}
	}
}

// expected says it once more, in the simplest way.
func expected(data []byte, limit int64) string {
	if int64(len(data)) <= limit {
		return string(data)
	}
	tail := min(int64(tailKeep), limit/4)
	head := limit - tail
	dropped := int64(len(data)) - limit
	return string(data[:head]) + fmt.Sprintf("\n[evalrun: %d bytes of output left out here]\n", dropped) + string(data[int64(len(data))-tail:])
}

func TestCaptureStartLine(t *testing.T) {
	c, err := newCapture(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "no newline", "", "with newline\n", "\n"} {
		c.write([]byte(text))
		c.startLine()
	}
	c.close()
	if got, _ := os.ReadFile(c.file.Name()); string(got) != "no newline\nwith newline\n\n" {
		t.Errorf("%q", got)
	}
}

// A log that cannot be written is told once, and does not hold up what prints.
func TestCaptureBroken(t *testing.T) {
	c, err := newCapture(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	out := c.phase(1000)
	c.file.Close()
	for range 3 {
		if n, err := out.Write([]byte("text")); n != 4 || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
	}
	r := out.end()
	if r.bytes != 12 {
		t.Errorf("%d bytes were printed, want 12", r.bytes)
	}
	if _, err := c.section(r); err == nil {
		t.Error("the region can be read")
	}
	if err := c.close(); err == nil {
		t.Error("close does not tell of the failure")
	}
}

func TestExitCodeRecorded(t *testing.T) {
	in := "a\n: '>>>>> End Test Output'\nb\n: '>>>>> End Test Output'\n"
	want := "a\nSWEBENCH_TEST_EXIT_CODE=$?\n: '>>>>> End Test Output'\necho \">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE\"\nb\n: '>>>>> End Test Output'\n"
	if got := exitCodeRecorded(in); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := exitCodeRecorded("no marker\n"); got != "no marker\n" {
		t.Errorf("%q", got)
	}
}

func BenchmarkCapture(b *testing.B) {
	c, err := newCapture(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.close()
	out := c.phase(16 << 20)
	chunk := []byte(strings.Repeat("0123456789abcdef", 2048))
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		out.Write(chunk)
	}
}
