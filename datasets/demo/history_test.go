package demo

import (
	"strings"
	"testing"
)

func TestParseHistory(t *testing.T) {
	h, err := parseHistory("x", []byte(`About this file.

-- 1/commit --
date: 2024-01-02T03:04:05Z

First

Why.
-- 1/a/b.txt --
one
-- 2/commit --
date: 2024-01-03T03:04:05Z
tag: v1

Second
`))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"commit refs/heads/main", "mark :1",
		"author Demo Author <demo@example.com> 1704164645 +0000",
		"committer Demo Author <demo@example.com> 1704164645 +0000",
		"data 12", "First\n\nWhy.\n", "M 100644 inline a/b.txt", "data 4", "one\n",
		"commit refs/heads/main", "mark :2",
		"author Demo Author <demo@example.com> 1704251045 +0000",
		"committer Demo Author <demo@example.com> 1704251045 +0000",
		"data 7", "Second\n",
		"tag v1", "from :2", "tagger Demo Author <demo@example.com> 1704251045 +0000",
		"data 11", "Release v1\n",
		"done", "",
	}, "\n")
	if got := string(h.fastImport()); got != want {
		t.Errorf("stream:\n%s\nwant:\n%s", got, want)
	}
}

func TestParseHistoryFaults(t *testing.T) {
	const commit = "-- 1/commit --\ndate: 2024-01-02T03:04:05Z\n\nFirst\n"
	for _, test := range []struct{ name, source, want string }{
		{"nothing", "", "no commits"},
		{"section without commit", "-- a.txt --\n", `section "a.txt": want commit/path`},
		{"section without name", commit + "-- --\n", "section without a name"},
		{"file before its commit", "-- 1/a.txt --\n" + commit, `section "1/a.txt": it must follow section "1/commit"`},
		{"file of another commit", commit + "-- 2/a.txt --\n", `section "2/a.txt": it must follow section "2/commit"`},
		{"no message", "-- 1/commit --\ndate: 2024-01-02T03:04:05Z\n", "no message"},
		{"no date", "-- 1/commit --\ntag: v1\n\nFirst\n", "no date"},
		{"bad date", "-- 1/commit --\ndate: yesterday\n\nFirst\n", `cannot parse "yesterday"`},
		{"unknown header", "-- 1/commit --\nauthor: me\n\nFirst\n", `unknown header line "author: me"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := parseHistory("x", []byte(test.source))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q in it", err, test.want)
			}
		})
	}
}

func FuzzParseHistory(f *testing.F) {
	f.Add([]byte("-- 1/commit --\ndate: 2024-01-02T03:04:05Z\ntag: v1\n\nFirst\n-- 1/a.txt --\none\n"))
	f.Add([]byte("-- 1/commit --\n\n"))
	f.Add([]byte("-- --"))
	f.Fuzz(func(t *testing.T, source []byte) {
		h, err := parseHistory("x", source)
		if err != nil {
			return
		}
		if got := strings.Count(string(h.fastImport()), "\nmark :"); got < len(h.commits) {
			t.Errorf("%d commits in the stream, %d in the history", got, len(h.commits))
		}
	})
}
