package base

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/images"
)

// RootFS is a root file system on this machine, as a tar in a folder of its own.
type RootFS struct {
	Dir     string // holds RootFSFile
	Digest  string // sha256:... of the tar
	Sources string // text of the suite's sources.list, "" when the base brings its own
}

type rootFSRecord struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	Maker  string `json:"maker"`
}

// Materialize makes the root file system of a source that has to be made on
// this machine (debian, rootfs, oci-layout), or finds it in the cache folder.
// aptMirror replaces the default package mirror when not empty. making is called
// before one is made, which takes a while.
func Materialize(ctx context.Context, source images.Source, dir, aptMirror string, making func()) (RootFS, error) {
	name, err := rootFSName(source)
	if err != nil {
		return RootFS{}, err
	}
	home := filepath.Join(dir, name)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return RootFS{}, err
	}
	// Making one takes half a minute: two runs on one machine must not both do it.
	unlock, err := cache.Lock(ctx, home+".lock")
	if err != nil {
		return RootFS{}, err
	}
	defer unlock()
	if fs, ok := stored(home); ok {
		return fs.withoutDevices()
	}
	making()
	// Of an earlier call that was ended half way.
	removeParts(home)
	defer removeParts(home)
	part := filepath.Join(home, partFile)
	switch source.Kind {
	case "debian":
		err = bootstrap(ctx, source.Ref, home, part, aptMirror)
	case "rootfs":
		err = copyFile(source.Ref, part)
	case "oci-layout":
		err = flatten(source.Ref, part)
	}
	if err != nil {
		return RootFS{}, err
	}
	tar := filepath.Join(home, RootFSFile)
	if err := cache.Replace(part, tar); err != nil {
		return RootFS{}, err
	}
	digest, size, err := digestFile(tar)
	if err != nil {
		return RootFS{}, err
	}
	record, err := json.Marshal(rootFSRecord{Digest: digest, Size: size, Maker: source.Kind})
	if err != nil {
		return RootFS{}, err
	}
	// The record comes last: a tar without one is half made.
	if err := cache.WriteFile(filepath.Join(home, "rootfs.json"), record, 0o644); err != nil {
		return RootFS{}, err
	}
	fs, ok := stored(home)
	if !ok {
		return RootFS{}, fmt.Errorf("base %s: the root file system in %s was changed while it was made", source, home)
	}
	return fs.withoutDevices()
}

// partFile is a root file system that is not whole yet. The ending tells
// mmdebstrap what to make.
const partFile = "part.tar"

func removeParts(home string) {
	os.Remove(filepath.Join(home, partFile))
	trees, _ := filepath.Glob(filepath.Join(home, "tree-*"))
	for _, tree := range trees {
		os.RemoveAll(tree)
	}
}

func rootFSName(source images.Source) (string, error) {
	switch source.Kind {
	case "debian":
		return "debian-" + source.Ref, nil
	case "rootfs", "oci-layout":
		path, tag := source.Ref, ""
		if source.Kind == "oci-layout" {
			path, tag = splitTag(path)
			path = filepath.Join(path, "index.json")
		}
		digest, _, err := digestFile(path)
		if err != nil {
			return "", fmt.Errorf("base %s: %w", source, err)
		}
		return source.Kind + "-" + cache.NewKey("rootfs").String("content", digest).String("tag", tag).Sum()[:16], nil
	}
	return "", fmt.Errorf("base %s is not made on this machine", source)
}

func stored(home string) (RootFS, bool) {
	data, err := os.ReadFile(filepath.Join(home, "rootfs.json"))
	if err != nil {
		return RootFS{}, false
	}
	var r rootFSRecord
	info, statErr := os.Stat(filepath.Join(home, RootFSFile))
	if json.Unmarshal(data, &r) != nil || statErr != nil || info.Size() != r.Size {
		return RootFS{}, false
	}
	fs := RootFS{Dir: home, Digest: r.Digest}
	if sources, err := os.ReadFile(filepath.Join(home, "sources.list")); err == nil {
		fs.Sources = string(sources)
	}
	return fs, true
}

// noDocumentation keeps dpkg from unpacking what no test reads, in this layer
// and those above it.
const noDocumentation = `printf 'path-exclude=/usr/share/%s/*\n' doc man info > "$1/etc/dpkg/dpkg.cfg.d/evalrun"`

// dropDocumentation removes what came before. Java's packages fail without the
// folders of manual pages.
const dropDocumentation = `for d in doc man info; do rm -rf "${1:?}/usr/share/$d"; mkdir "$1/usr/share/$d"; done; ` +
	`for n in 1 2 3 4 5 6 7 8; do mkdir "$1/usr/share/man/man$n"; done`

// bootstrap makes a minimal Debian with mmdebstrap, or debootstrap.
func bootstrap(ctx context.Context, suite, home, tar, aptMirror string) error {
	if _, err := exec.LookPath("mmdebstrap"); err == nil {
		// The mirror is this machine's affair: it is kept beside the tar, and build
		// steps get it as a secret.
		args := []string{
			"--quiet", "--variant=minbase", "--include=ca-certificates,git,patch", "--dpkgopt=force-unsafe-io",
			// Given to mmdebstrap, the excludes would take every package through a slow
			// filter; given to dpkg alone they come too late for the first packages.
			"--essential-hook=" + noDocumentation,
			"--customize-hook=" + dropDocumentation,
			"--customize-hook=cp \"$1/etc/apt/sources.list\" " + images.ShellQuote(filepath.Join(home, "sources.list")),
			"--customize-hook=: > \"$1/etc/apt/sources.list\"; rm -f \"$1/etc/hostname\" \"$1/etc/resolv.conf\"",
			suite, tar,
		}
		if aptMirror != "" {
			args = append(args, aptMirror)
		}
		return runTool(ctx, suite, "mmdebstrap", args...)
	}
	if _, err := exec.LookPath("debootstrap"); err != nil {
		return fmt.Errorf("base debian:%s: neither mmdebstrap nor debootstrap is installed; run `apt-get install mmdebstrap`, or give --base image:REF", suite)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("base debian:%s: debootstrap needs root; install mmdebstrap, which does not, or give --base image:REF", suite)
	}
	tree, err := os.MkdirTemp(home, "tree-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	args := []string{"--variant=minbase", "--include=ca-certificates,git,patch", suite, tree}
	if aptMirror != "" {
		args = append(args, aptMirror)
	}
	if err := runTool(ctx, suite, "debootstrap", args...); err != nil {
		return err
	}
	list := filepath.Join(tree, "etc/apt/sources.list")
	if err := copyFile(list, filepath.Join(home, "sources.list")); err != nil {
		return err
	}
	if err := os.WriteFile(list, nil, 0o644); err != nil {
		return err
	}
	return runTool(ctx, suite, "tar", "-C", tree, "--sort=name", "--numeric-owner", "--one-file-system", "-cf", tar, ".")
}

func runTool(ctx context.Context, suite, tool string, args ...string) error {
	cmd := exec.CommandContext(ctx, tool, args...)
	// The tools start others and mount file systems: they are asked to end, all of
	// them, and given the time to clean up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	// Equal packages give an equal tar, and so an equal key, on every machine.
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000", "LC_ALL=C")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		text := out.String()
		if len(text) > 2000 {
			text = "..." + text[len(text)-2000:]
		}
		return fmt.Errorf("base debian:%s: %s: %w\n%s", suite, tool, err, strings.TrimSpace(text))
	}
	return nil
}

func copyFile(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return writeFile(to, f)
}

func writeFile(path string, r io.Reader) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, r)
	return err
}

func digestFile(path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), n, err
}
