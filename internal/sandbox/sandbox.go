// Package sandbox says what a sandbox is: an isolated place made from an image,
// without network, in which commands run under limits and from which their
// output and exit status come back.
//
// It must not know what a patch, a test or a verdict is. Engines (docker, later
// others) implement Driver; the conformance suite in sandboxtest says what they
// owe.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/evalrun/evalrun/internal/cause"
)

// Driver starts sandboxes on one engine.
type Driver interface {
	// Start makes a sandbox and waits until commands can run in it. The caller
	// must Destroy it, also after ctx is done.
	Start(ctx context.Context, spec Spec) (Sandbox, error)
	// Sweep destroys what earlier runs left behind: sandboxes whose labels say
	// they are evalrun's and whose owner process is gone or, where that cannot be
	// told, whose expiry has passed. It returns how many it destroyed.
	Sweep(ctx context.Context) (int, error)
}

// Sandbox is one running sandbox. Its methods are safe for concurrent use.
type Sandbox interface {
	// Exec runs a command and waits for it. A command that ran, however it
	// ended, is a Result and a nil error; an error means that the engine failed
	// or the sandbox can take no more commands (*EngineError, in the latter case
	// around ErrDead), or that ctx was done: then every process of the sandbox is
	// killed. What the command started and left behind goes on.
	Exec(ctx context.Context, cmd Command) (Result, error)
	// Read returns a regular file's content, at most limit bytes of it; it works
	// on a dead sandbox too. A file that is not there is fs.ErrNotExist.
	Read(ctx context.Context, path string, limit int64) ([]byte, error)
	// Usage reads what the sandbox has used so far.
	Usage(ctx context.Context) (Usage, error)
	// Destroy kills every process and removes the sandbox. It may be called
	// more than once, and again after it failed.
	Destroy(ctx context.Context) error
}

// Spec describes a sandbox before it starts.
type Spec struct {
	Image        string            // reference or digest, already present on the engine
	Name         string            // hint for people; engines make it unique and valid
	Labels       map[string]string // added to the engine's own
	Env          []string          // NAME=value
	Capabilities []string          // kept besides the small default set, for example SYS_ADMIN
	User         string            // UID or UID:GID of commands; default root
	// ReadOnly keeps commands from writing anywhere but below the Scratch folders,
	// which are kept in memory, and the Writable ones. Files can be put only there,
	// and Read does not see what is below Scratch.
	ReadOnly bool
	Writable []string // folders that stay as the image has them, ReadOnly or not; those that are missing are made
	Owned    []string // folders given to User with all that is in them; with ReadOnly they must be Writable
	Limits   Limits
	Expiry   time.Time // when another process may sweep it, unless it knows that ours lives
}

// Scratch are the folders that can be written in every sandbox.
var Scratch = []string{"/tmp", "/var/tmp", "/run", "/dev/shm"}

// Limits bound one sandbox. Zero means no limit.
type Limits struct {
	CPUs        float64 // processors
	MemoryBytes int64   // memory and swap together
	Pids        int64
	DiskBytes   int64 // written to the root file system, where the engine can measure it

	// What a sandbox is sure of when others want more than there is; 0 is the
	// engine's own choice. Both are at most the limit.
	CPUsGuaranteed        float64
	MemoryGuaranteedBytes int64
}

// CPUShares are the guaranteed processors in the kernel's unit, of which one
// processor has 1024; 0 is none.
func (l Limits) CPUShares() int64 {
	if l.CPUsGuaranteed <= 0 {
		return 0
	}
	n := l.CPUsGuaranteed
	if l.CPUs > 0 {
		n = min(n, l.CPUs)
	}
	return min(max(int64(n*1024), 2), 262144)
}

// MemoryReservation is the guaranteed memory, within the limit.
func (l Limits) MemoryReservation() int64 {
	if l.MemoryBytes > 0 {
		return min(l.MemoryGuaranteedBytes, l.MemoryBytes)
	}
	return l.MemoryGuaranteedBytes
}

// ScratchBytes is what each of the Scratch folders of a ReadOnly sandbox may hold: it
// takes memory, and holds what is written. 0 is no limit.
func (l Limits) ScratchBytes() int64 {
	if l.MemoryBytes > 0 && l.DiskBytes > 0 {
		return min(l.MemoryBytes, l.DiskBytes)
	}
	return max(l.MemoryBytes, l.DiskBytes)
}

// Command is one process to run in a sandbox.
type Command struct {
	Argv  []string
	Env   []string // added to the sandbox's
	Dir   string   // default /testbed
	Stdin []byte   // none leaves standard input empty
	// Files are written before the command starts, as root, folders created as
	// needed; not together with Stdin. Where that fails the command does not run,
	// and the result is FilesFailed with the reason in Output.
	Files []File
	// Alone ends every process that others have left in the sandbox, before Files are
	// written.
	Alone   bool
	Output  io.Writer     // standard output and error in the order written, as one stream; nil discards
	Timeout time.Duration // 0 means none; on expiry every process of the sandbox is killed
}

// FilesFailed is the exit code of a command whose files could not be written.
const FilesFailed = 125

// Result is how a command ended.
type Result struct {
	ExitCode int  // 0..255; 128+n for signal n; -1 when the sandbox died or was killed under it
	TimedOut bool // Timeout expired; the sandbox is dead
	DiskFull bool // Limits.DiskBytes was passed; the sandbox is dead
	// FilesFailed tells an exit code of FilesFailed that is ours from one of the
	// command's own.
	FilesFailed bool
	Elapsed     time.Duration // start to end of the process
}

// File is a file to put into a sandbox.
type File struct {
	Path string // absolute
	Mode int64  // permission bits
	Data []byte
}

// Change is a file that differs from the image, as seen from outside.
type Change struct {
	Kind ChangeKind
	// Path is absolute. It ends with a slash for a folder of the image that is gone,
	// was made again, or that something else stands in the place of: everything in it
	// is another.
	Path string
	// Stamp is another after every write to the file, also of what was there.
	Stamp string
}

// ChangeKind is what became of a file.
type ChangeKind byte

const (
	Added   ChangeKind = 'A'
	Changed ChangeKind = 'C'
	Deleted ChangeKind = 'D'
)

// Usage is what a sandbox has used.
type Usage struct {
	PeakMemoryBytes int64 // as the kernel counts, with files that it keeps as long as there is room
	// HeldMemoryBytes is the most that could not have been given back, as found while
	// commands ran: what processes had for themselves, and files in memory. 0 is not known.
	HeldMemoryBytes  int64
	OOMKills         int
	DiskBytes        int64 // the most that was found written, where it was measured
	Pids             int64 // processes and threads there are now
	CPUSeconds       float64
	ThrottledSeconds float64
}

// ErrDead is wrapped by errors about a sandbox that ended by itself, was ended
// by something other than its engine, or in which what ran before leaves no way
// to start a process.
var ErrDead = errors.New("the sandbox is dead")

// ErrHostFull is wrapped by errors about the disk that all sandboxes share: it has
// no room left, whoever took it.
var ErrHostFull = cause.As(cause.Disk, errors.New("the disk that sandboxes write to is full"))

// EngineError is a failure of the engine or the host, never of what ran inside.
type EngineError struct {
	Op  string // what was attempted, for example "start container"
	Err error
}

func (e *EngineError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }
func (e *EngineError) Unwrap() error { return e.Err }
