package oci

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// within are paths resolved as a process in the sandbox would, whose links lead
// nowhere else.
const within = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS

// open opens a path below root.
func open(root *os.File, name string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat2(int(root.Fd()), name, &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: within})
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		// A rename somewhere may keep the kernel from being sure.
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// openRoot opens a sandbox's root file system.
func openRoot(dir string) (*os.File, error) {
	return os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// readFile reads a regular file below root, at most limit bytes.
func readFile(root *os.File, name string, limit int64) ([]byte, error) {
	name = path.Clean("/" + name)
	// Not to wait for the other side of a pipe that stands where a file should.
	f, err := open(root, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if errors.Is(err, unix.ENOTDIR) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")})
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// writeFile writes a file below root. A link in its place is replaced; folders
// that are missing are made.
func writeFile(root *os.File, f sandbox.File) error {
	name := path.Clean("/" + f.Path)
	dir, err := openFolder(root, path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	base := path.Base(name)
	if err := unix.Unlinkat(int(dir.Fd()), base, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "replace", Path: name, Err: err}
	}
	fd, err := unix.Openat(int(dir.Fd()), base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &fs.PathError{Op: "create", Path: name, Err: err}
	}
	file := os.NewFile(uintptr(fd), name)
	_, err = file.Write(f.Data)
	if mode := unix.Fchmod(fd, uint32(f.Mode)); mode != nil {
		err = errors.Join(err, &fs.PathError{Op: "chmod", Path: name, Err: mode})
	}
	return errors.Join(err, file.Close())
}

// openFolder opens a folder below root and makes it if it is not there.
func openFolder(root *os.File, name string) (*os.File, error) {
	dir, err := open(root, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if !errors.Is(err, fs.ErrNotExist) || name == "/" {
		return dir, err
	}
	parent, err := openFolder(root, path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	base := path.Base(name)
	if err := unix.Mkdirat(int(parent.Fd()), base, 0o755); err != nil {
		return nil, &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	fd, err := unix.Openat(int(parent.Fd()), base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	// Whatever mask this process has.
	if err := unix.Fchmod(fd, 0o755); err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "chmod", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// putFiles writes files into a root, and says which could not be.
func putFiles(root *os.File, files []sandbox.File) error {
	for _, f := range files {
		if err := writeFile(root, f); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	return nil
}

// makeScratch makes the folders that everyone may write to.
func makeScratch(dir string) error {
	root, err := openRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range sandbox.Scratch {
		folder, err := openFolder(root, name)
		if err != nil {
			return err
		}
		if err := errors.Join(folder.Chmod(fs.ModeSticky|0o777), folder.Close()); err != nil {
			return err
		}
	}
	return nil
}

// stayWritable are the mounts that lay folders of the root over itself, so that
// these can be written where the root cannot.
func stayWritable(dir string, names []string) ([]specs.Mount, error) {
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var mounts []specs.Mount
	for _, name := range names {
		folder, err := openFolder(root, name)
		if err != nil {
			return nil, err
		}
		// Wherever links of the image lead, it is in the root.
		real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", folder.Fd()))
		if err = errors.Join(err, folder.Close()); err != nil {
			return nil, err
		}
		mounts = append(mounts, specs.Mount{Destination: name, Type: "bind", Source: real, Options: []string{"bind", "rw", "nosuid", "nodev"}})
	}
	return mounts, nil
}
