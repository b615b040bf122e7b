package dockertest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// tools are what tests and our own scripts call inside.
var tools = []string{
	"bash", "sh", "git", "patch", "tar", "sed", "grep", "find", "xargs", "setsid", "mkfifo",
	"[", "base64", "basename", "cat", "chmod", "chown", "cmp", "cp", "cut", "date", "dd", "dirname", "env", "false", "head", "id", "ln", "ls", "mkdir",
	"mktemp", "mv", "printf", "pwd", "rm", "rmdir", "seq", "sha256sum", "sleep", "sort", "stat", "tail", "test", "touch", "tr", "true",
	"uname", "uniq", "wc", "yes",
}

var library = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// rootFS is the tar of a small root file system: this machine's own tools with
// the libraries they load, and the checkout of a small repository in /testbed.
// It is the same for the same machine.
func rootFS() ([]byte, error) {
	var buf bytes.Buffer
	w := &writer{Writer: tar.NewWriter(&buf), seen: map[string]bool{}}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		w.link(dir, "usr/"+dir)
	}
	for _, dir := range []string{"dev", "etc", "proc", "root", "sys", "testbed", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "var"} {
		w.dir(dir, 0o755)
	}
	w.dir("tmp", 0o1777)
	w.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"))
	w.file("etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n"))
	for _, tool := range tools {
		if err := w.tool(tool); err != nil {
			return nil, err
		}
	}
	if err := w.repository(); err != nil {
		return nil, err
	}
	// The end of a tar is written when it is closed.
	if err := w.Close(); w.err == nil {
		w.err = err
	}
	return buf.Bytes(), w.err
}

// writer is a tar writer that keeps its first error.
type writer struct {
	*tar.Writer
	seen map[string]bool
	err  error
}

var epoch = time.Unix(1700000000, 0)

func (w *writer) put(h *tar.Header, data []byte) {
	if w.err != nil {
		return
	}
	h.ModTime, h.Size = epoch, int64(len(data))
	if w.err = w.WriteHeader(h); w.err == nil {
		_, w.err = w.Write(data)
	}
}

func (w *writer) dir(name string, mode int64) {
	w.put(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, nil)
}

func (w *writer) link(name, to string) {
	w.put(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}, nil)
}

func (w *writer) file(name string, mode int64, data []byte) {
	if !w.seen[name] {
		w.seen[name] = true
		w.put(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode}, data)
	}
}

// tool adds a program of this machine and the libraries it loads.
func (w *writer) tool(name string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("the test image needs %s: %w", name, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	w.file("usr/bin/"+name, 0o755, data)
	out, err := exec.Command("ldd", path).CombinedOutput()
	if err != nil {
		if bytes.Contains(out, []byte("not a dynamic executable")) {
			return nil
		}
		return fmt.Errorf("ldd %s: %w\n%s", path, err, out)
	}
	for _, m := range library.FindAllStringSubmatch(string(out), -1) {
		data, err := os.ReadFile(m[1])
		if err != nil {
			return err
		}
		inside := strings.TrimPrefix(filepath.Clean(m[1]), "/")
		if !strings.HasPrefix(inside, "usr/") {
			inside = "usr/" + inside
		}
		w.file(inside, 0o755, data)
	}
	return nil
}

// repository adds the checkout.
func (w *writer) repository() error {
	dir, err := os.MkdirTemp("", "evalrun-repository-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for name, text := range Checkout {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	// The last two leave an index without times and inodes of this machine.
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "base"}, {"rm", "-rqf", "--cached", "."}, {"read-tree", "HEAD"}} {
		if err := git(dir, args...); err != nil {
			return err
		}
	}
	var paths []string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path != dir {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(paths)
	for _, path := range paths {
		name, _ := filepath.Rel(dir, path)
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.IsDir() {
			w.dir("testbed/"+name, 0o755)
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		w.file("testbed/"+name, 0o644, data)
	}
	return nil
}

// git runs git on this machine, the same whoever runs it and whenever.
func git(dir string, args ...string) error {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TEMPLATE_DIR=",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org", "GIT_COMMITTER_DATE=1700000000 +0000",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
