package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIDLists: ids are read as people save them, or the file is refused by name.
func TestIDLists(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\n": "a b", "\ufeffa\r\n b # why\r\n\r\n#c": "a b", "": "", "a": "a",
		"a b": `ids.txt:1: "a b"`, "x\n\na, b\n": `ids.txt:3: "a, b"`,
		"\xff\xfea\x00\n\x00": "no text in UTF-8", "a\x00": "no text in UTF-8",
	} {
		path := filepath.Join(t.TempDir(), "ids.txt")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		ids, err := readIDs(path)
		if err == nil && strings.Join(ids, " ") != want || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%q: %q, %v; want %s", text, ids, err, want)
		}
	}
}

// FuzzIDList: whatever a list holds, ids are single words.
func FuzzIDList(f *testing.F) {
	f.Add([]byte("\ufeffa\r\n#b\nc d"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "ids.txt")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		ids, _ := readIDs(path)
		for _, id := range ids {
			if len(strings.Fields(id)) != 1 || strings.ContainsAny(id, "#\x00") {
				t.Errorf("id %q", id)
			}
		}
	})
}
