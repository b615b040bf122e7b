package provenance

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/reports"
)

// TestSums: every file is in the list, which sha256sum reads, and comes back.
func TestSums(t *testing.T) {
	layout := reports.Layout{Root: t.TempDir()}
	dir := layout.RunDir("r")
	for _, name := range []string{"run.json", "m/a/patch.diff", "m/a/odd \\ \n name", ".lock", "x/y/z/stray"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("abc"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(layout.Root, "m.r.json"), []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("run.json", filepath.Join(dir, "m", "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSums(layout, "r"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is none yet: %v", err)
	}
	record := &reports.RunRecord{RunID: "r", Models: []string{"m", "gone"}}
	s, err := Sum(t.Context(), layout, record)
	if err != nil {
		t.Fatal(err)
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-4
	want := Sums{Files: map[string]string{"run.json": abc, "m/a/patch.diff": abc, "m/a/odd \\ \n name": abc, "x/y/z/stray": abc},
		Summaries: map[string]string{"m.r.json": abc}, Odd: []string{"m/link"}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	if err := s.Write(layout, "r"); err != nil {
		t.Fatal(err)
	}
	want.Odd = nil
	back, err := ReadSums(layout, "r")
	if diff := cmp.Diff(want, back); err != nil || diff != "" {
		t.Errorf("read back: %v %s", err, diff)
	}
	if _, err := exec.LookPath("sha256sum"); err != nil {
		t.Skip("no sha256sum here")
	}
	cmd := exec.Command("sha256sum", "-c", "--strict", SumsFile)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 4 {
		t.Errorf("sha256sum says %s, %v", out, err)
	}
}

func TestSumsThatCannotBeRead(t *testing.T) {
	layout := reports.Layout{Root: t.TempDir()}
	if err := os.MkdirAll(layout.RunDir("r"), 0o755); err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("a", 64) + "  run.json\n"
	for text, want := range map[string]string{
		"x": "SHA256SUMS:1:", line + "\n": "SHA256SUMS:2:", line + line: "SHA256SUMS:2: \"run.json\" is there twice",
		strings.ToUpper(line): "SHA256SUMS:1:", "# summary x\n": "SHA256SUMS:1:", strings.Repeat("b", 2<<20): "SHA256SUMS:1:",
		strings.TrimSpace(line): "written by somebody else", strings.Repeat("c", 64) + "  z\n" + line: "written by somebody else",
	} {
		if err := os.WriteFile(filepath.Join(layout.RunDir("r"), SumsFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSums(layout, "r"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %s", text, err, want)
		}
	}
}

// FuzzSum: a name comes back from its line, whatever it is.
func FuzzSum(f *testing.F) {
	f.Add("a\\n\n\\")
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" {
			return
		}
		sum := strings.Repeat("0", 64)
		line, _ := strings.CutSuffix(string(Sums{Files: map[string]string{name: sum}}.encode()), "\n")
		if strings.ContainsAny(line, "\n\r") {
			t.Fatalf("%q has more than one line: %q", name, line)
		}
		if got, gotSum, err := parseSum(line); err != nil || got != name || gotSum != sum {
			t.Errorf("%q comes back as %q, %v", name, got, err)
		}
	})
}
