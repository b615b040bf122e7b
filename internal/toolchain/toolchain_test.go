package toolchain

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func archive(t *testing.T, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var buf bytes.Buffer
	zipped := gzip.NewWriter(&buf)
	w := tar.NewWriter(zipped)
	for _, h := range entries {
		body := "content of " + h.Name
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(body))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return &buf
}

func TestUnpackDropsTheFirstFolderAndKeepsExecutables(t *testing.T) {
	dir := t.TempDir()
	in := archive(t,
		tar.Header{Typeflag: tar.TypeReg, Name: "package/bin/node", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeReg, Name: "package/README.md", Mode: 0o600},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "package/link", Linkname: "/etc/passwd"})
	if err := unpack(in, dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "bin", "node"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("bin/node: %v, %v", info, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "link")); !os.IsNotExist(err) {
		t.Errorf("a link of the archive was made: %v", err)
	}
}

func TestUnpackStaysInItsFolder(t *testing.T) {
	parent := t.TempDir()
	in := archive(t, tar.Header{Typeflag: tar.TypeReg, Name: "package/../../escaped", Mode: 0o644})
	err := unpack(in, filepath.Join(parent, "dir"))
	if err == nil {
		t.Error("a name that leaves the folder was accepted")
	}
	if _, err := os.Stat(filepath.Join(parent, "escaped")); err == nil {
		t.Error("a file was written outside the folder")
	}
}

func TestFetchSaysWhatFailed(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	for language, want := range map[string]string{"go": "go 0.0.1:", "cobol": `language "cobol"`} {
		_, err := Fetch(context.Background(), language, "0.0.1", t.TempDir())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want it to say %q", language, err, want)
		}
	}
}

func TestNpmFor(t *testing.T) {
	for version, want := range map[string]string{"20": "10", "18.20.4": "10", "16.20.2": "8", "12.22.12": "6", "odd": "10"} {
		if got := npmFor(version); got != want {
			t.Errorf("npm for node %s: %s, want %s", version, got, want)
		}
	}
}
