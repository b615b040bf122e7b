package base

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Everything but the devices comes through as it was.
func TestDropDevices(t *testing.T) {
	entries := []tar.Header{
		{Typeflag: tar.TypeDir, Name: "dev/", Mode: 0o755},
		{Typeflag: tar.TypeChar, Name: "dev/null", Mode: 0o666, Devmajor: 1, Devminor: 3},
		{Typeflag: tar.TypeBlock, Name: "dev/sda", Mode: 0o600, Devmajor: 8},
		{Typeflag: tar.TypeFifo, Name: "run/fifo", Mode: 0o600},
		{Typeflag: tar.TypeSymlink, Name: "bin", Linkname: "usr/bin"},
		{Typeflag: tar.TypeReg, Name: "usr/bin/ping", Mode: 0o4755, Uid: 7, Gid: 9, Size: 4, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "\x01\x00\x00\x02"}},
		{Typeflag: tar.TypeLink, Name: "usr/bin/pong", Linkname: "usr/bin/ping"},
	}
	var whole bytes.Buffer
	w := tar.NewWriter(&whole)
	for i := range entries {
		h := entries[i]
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			io.WriteString(w, "data")
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	gz := gzip.NewWriter(&packed)
	gz.Write(whole.Bytes())
	gz.Close()
	want := []string{"dev/", "run/fifo", "bin", "usr/bin/ping", "usr/bin/pong"}
	for name, input := range map[string][]byte{"plain": whole.Bytes(), "gzip": packed.Bytes()} {
		var out bytes.Buffer
		if err := dropDevices(&out, bytes.NewReader(input)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for r := tar.NewReader(&out); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, h.Name)
			if h.Name == "usr/bin/ping" {
				data, err := io.ReadAll(r)
				if err != nil || string(data) != "data" || h.Mode != 0o4755 || h.Uid != 7 || h.Gid != 9 || len(h.PAXRecords) != 1 {
					t.Errorf("%s: %q, %v, %+v", name, data, err, h)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	if err := dropDevices(io.Discard, bytes.NewReader(whole.Bytes()[:700])); err == nil {
		t.Error("a tar that ends in the middle is taken for whole")
	}
}
