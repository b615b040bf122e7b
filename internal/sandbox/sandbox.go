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
)

// Driver starts sandboxes on one engine.
type Driver interface {
	// Start makes a sandbox and waits until commands can run in it. The caller
	// must Destroy it, also after ctx is done.
	Start(ctx context.Context, spec Spec) (Sandbox, error)
	// Sweep destroys what earlier runs left behind: sandboxes whose labels say
	// they are evalrun's and whose owner process is gone or whose expiry has
	// passed. It returns how many it destroyed.
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
	Limits       Limits
	Expiry       time.Time // when another process may sweep it
}

// Limits bound one sandbox. Zero means no limit.
type Limits struct {
	CPUs        float64 // processors
	MemoryBytes int64   // memory and swap together
	Pids        int64
	DiskBytes   int64 // written to the root file system, where the engine can measure it
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
	Files   []File
	Output  io.Writer     // standard output and error in the order written, as one stream; nil discards
	Timeout time.Duration // 0 means none; on expiry every process of the sandbox is killed
}

// FilesFailed is the exit code of a command whose files could not be written.
const FilesFailed = 125

// Result is how a command ended.
type Result struct {
	ExitCode int           // 0..255; 128+n for signal n; -1 when the sandbox died or was killed under it
	TimedOut bool          // Timeout expired; the sandbox is dead
	DiskFull bool          // Limits.DiskBytes was passed; the sandbox is dead
	Elapsed  time.Duration // start to end of the process
}

// File is a file to put into a sandbox.
type File struct {
	Path string // absolute
	Mode int64  // permission bits
	Data []byte
}

// Usage is what a sandbox has used.
type Usage struct {
	PeakMemoryBytes  int64
	OOMKills         int
	Pids             int64 // processes and threads there are now
	CPUSeconds       float64
	ThrottledSeconds float64
}

// ErrDead is wrapped by errors about a sandbox that ended by itself, was ended
// by something other than its engine, or in which what ran before leaves no way
// to start a process.
var ErrDead = errors.New("the sandbox is dead")

// EngineError is a failure of the engine or the host, never of what ran inside.
type EngineError struct {
	Op  string // what was attempted, for example "start container"
	Err error
}

func (e *EngineError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }
func (e *EngineError) Unwrap() error { return e.Err }
