// Package toolchain fetches pinned tool chains as packages of registries this
// machine reaches anyway: Go's from the module proxy, Node's from npm's. The
// ordinary clients do the work, so their settings and checks hold.
//
// It must not know images: it gives folders.
package toolchain

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/evalrun/evalrun/cache"
)

// Fetch returns the folder of a tool chain of a language ("go" or "js"). dir is
// where those are kept that have no cache of their own.
func Fetch(ctx context.Context, language, version, dir string) (string, error) {
	switch language {
	case "go":
		return golang(ctx, version)
	case "js":
		return node(ctx, version, dir)
	}
	return "", fmt.Errorf("no pinned tool chain for language %q can be fetched", language)
}

// golang has the go command fetch and verify a tool chain; it comes as a module.
func golang(ctx context.Context, version string) (string, error) {
	module := "golang.org/toolchain@v0.0.1-go" + version + ".linux-" + runtime.GOARCH
	out, err := run(ctx, "", "go", "mod", "download", "-json", module)
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &answer); jsonErr == nil && answer.Dir != "" {
		return answer.Dir, nil
	}
	if answer.Error != "" {
		err = errors.New(answer.Error)
	}
	return "", fmt.Errorf("go %s: %w (the go command fetches tool chains as modules; see `go env GOPROXY`)", version, err)
}

// node puts a folder together from the packages that hold Node's binary and npm.
func node(ctx context.Context, version, dir string) (string, error) {
	home := filepath.Join(dir, "node-"+version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := cache.Lock(ctx, home+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(filepath.Join(home, "bin", "npm")); err == nil {
		return home, nil
	}
	tmp, err := os.MkdirTemp(dir, ".node-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	packages := map[string]string{
		"node-linux-" + npmArch() + "@" + version: tmp,
		"npm@" + npmFor(version):                  filepath.Join(tmp, "lib", "node_modules", "npm"),
	}
	for name, to := range packages {
		if err := unpackNPM(ctx, name, to); err != nil {
			return "", fmt.Errorf("node %s: %w", version, err)
		}
	}
	for _, tool := range []string{"npm", "npx"} {
		if err := os.Symlink("../lib/node_modules/npm/bin/"+tool+"-cli.js", filepath.Join(tmp, "bin", tool)); err != nil {
			return "", err
		}
	}
	if err := os.Rename(tmp, home); err != nil {
		return "", err
	}
	return home, nil
}

func npmArch() string {
	if runtime.GOARCH == "amd64" {
		return "x64"
	}
	return runtime.GOARCH
}

// npmFor is the npm that came with a line of Node.
func npmFor(version string) string {
	major, _, _ := strings.Cut(version, ".")
	switch n, err := strconv.Atoi(major); {
	case err != nil || n >= 18:
		return "10"
	case n >= 16:
		return "8"
	}
	return "6"
}

// unpackNPM fetches a package with npm and unpacks it.
func unpackNPM(ctx context.Context, name, to string) error {
	work, err := os.MkdirTemp("", "evalrun-npm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	out, err := run(ctx, work, "npm", "pack", "--silent", name)
	if err != nil {
		return fmt.Errorf("npm pack %s: %w", name, err)
	}
	lines := strings.Fields(string(out))
	if len(lines) == 0 {
		return fmt.Errorf("npm pack %s: no file came", name)
	}
	f, err := os.Open(filepath.Join(work, filepath.Base(lines[len(lines)-1])))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unpack(f, to); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	return nil
}

// unpack writes the regular files of an npm package below dir, without its
// first folder. Names that would leave dir are refused by os.Root.
func unpack(r io.Reader, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	zipped, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	for tr := tar.NewReader(zipped); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		_, name, ok := strings.Cut(h.Name, "/")
		if h.Typeflag != tar.TypeReg || !ok || name == "" {
			continue
		}
		if err := writeEntry(root, name, h, tr); err != nil {
			return err
		}
	}
}

func writeEntry(root *os.Root, name string, h *tar.Header, r io.Reader) (err error) {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, os.FileMode(h.Mode)&0o755|0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, r)
	return err
}

// run runs a client and returns its output; an error carries what it said.
func run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		if said := strings.TrimSpace(stderr.String()); said != "" {
			return out, fmt.Errorf("%s", said)
		}
	}
	return out, err
}
