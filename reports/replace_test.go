package reports

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestWhatIsNotOursStays: only what carries our mark is replaced without being asked,
// and what is no file never is.
func TestWhatIsNotOursStays(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"ours": "<MARK>…", "empty": "", "foreign": "notes", "late": strings.Repeat(" ", 5000) + "<MARK>"} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("ours"), at("link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct{ plain, forced string }{
		"nothing": {"", ""}, "ours": {"", ""}, "empty": {"", ""}, "foreign": {"--force", ""}, "late": {"--force", ""}, "link": {"link", ""},
		"pipe": {"no file", "no file"}, ".": {"folder", "folder"}, "../../../../../../../../dev/null": {"no file", "no file"}, "ours/below": {"not a directory", "not a directory"},
	} {
		for force, want := range map[bool]string{false: want.plain, true: want.forced} {
			err := MayReplace(at(name), "<MARK>", force)
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Clean(at(name)))) {
				t.Errorf("%s, force %v: %v; want %q", name, force, err, want)
			}
		}
	}
}
