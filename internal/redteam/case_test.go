package redteam_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/internal/redteam"
)

func TestRead(t *testing.T) {
	patch := "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
	dir := fstest.MapFS{"trick.diff": {Data: []byte("Instance: textkit-1\nTries: to win\nExpected: flagged\nSetup: true\nSeconds: 5\nUnsafe: yes\nNeeds: root\n" + patch)}, "README.md": {}}
	got, err := redteam.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []redteam.Case{{Name: "trick", Instance: "textkit-1", Tries: "to win", Expected: redteam.Flagged, Setup: "true", Seconds: 5, Unsafe: true, Root: true, Patch: patch}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	head := "Instance: x\nTries: y\nExpected: flagged\n"
	for text, want := range map[string]string{
		head:                                    "diff --git",
		"Tries: y\nExpected: flagged\n" + patch: "must have",
		"Instance: x\nTries: y\nExpected: maybe\n" + patch: `not "maybe"`,
		head + "Seconds: soon\n" + patch:                   `not "soon"`,
		head + "Hint: x\n" + patch:                         "unknown key",
		head + "no colon\n" + patch:                        "want \"Key: value\"",
		patch:                                              "must have",
	} {
		_, err := redteam.Read(fstest.MapFS{"a.diff": {Data: []byte(text)}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "a.diff: ") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("Instance: textkit-1\nTries: to win\nExpected: flagged\ndiff --git a/x b/x\n")
	f.Fuzz(func(t *testing.T, text string) {
		cases, err := redteam.Read(fstest.MapFS{"a.diff": {Data: []byte(text)}})
		if err != nil {
			return
		}
		if c := cases[0]; !strings.HasSuffix(text, c.Patch) || !strings.HasPrefix(c.Patch, "diff --git ") || c.Instance == "" {
			t.Errorf("%+v", c)
		}
	})
}
