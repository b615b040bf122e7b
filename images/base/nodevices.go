package base

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/internal/rootless"
)

// withoutDevices offers the solver a copy of the tar without device nodes, where
// nobody may make any: root of a user namespace. Containers get their devices from
// the runtime, so the layer is the same to them; the digest stays that of the whole.
func (fs RootFS) withoutDevices() (RootFS, error) {
	if !rootless.Inside() {
		return fs, nil
	}
	dir := filepath.Join(fs.Dir, "without-devices")
	to := filepath.Join(dir, RootFSFile)
	if _, err := os.Stat(to); err == nil {
		fs.Dir = dir
		return fs, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fs, err
	}
	from, err := os.Open(filepath.Join(fs.Dir, RootFSFile))
	if err != nil {
		return fs, err
	}
	defer from.Close()
	part := to + ".part"
	defer os.Remove(part)
	f, err := os.Create(part)
	if err != nil {
		return fs, err
	}
	err = errors.Join(dropDevices(f, from), f.Close())
	if err == nil {
		err = cache.Replace(part, to)
	}
	if err != nil {
		return fs, fmt.Errorf("root file system without devices: %w", err)
	}
	fs.Dir = dir
	return fs, nil
}

// dropDevices copies a tar, which may be compressed, without its device nodes.
func dropDevices(w io.Writer, r io.Reader) error {
	plain, err := decompressed(r)
	if err != nil {
		return err
	}
	in, out := tar.NewReader(plain), tar.NewWriter(w)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
			continue
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}

func decompressed(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	magic, _ := b.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstd.NewReader(b)
	}
	return b, nil
}
