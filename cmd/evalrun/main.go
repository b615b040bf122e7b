// Command evalrun grades patches written by coding agents: SWE-bench and every
// benchmark shaped like it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/room"
	"github.com/evalrun/evalrun/internal/rootless"
	"github.com/evalrun/evalrun/reports"
)

// version is set by the Makefile.
var version = "dev"

// Exit codes. They are part of the interface and listed in --help.
const (
	exitFine          = 0
	exitFailed        = 1
	exitUsage         = 2
	exitNotEvaluated  = 3
	exitInterrupted   = 130
	exitCodesHelp     = "Exit codes: 0 fine, 1 a check failed (gate, report verify, dataset lint, leaderboard check, demo --check), 2 wrong usage or input, 3 not everything could be evaluated, 130 interrupted."
	memoryLimit       = 80 << 20 // soft: above it the collector works harder
	descriptionOfTool = "Grades patches written by coding agents: images base -> env -> instance, containers without network, FAIL_TO_PASS and PASS_TO_PASS."
)

type cli struct {
	Run         runCmd         `cmd:"" help:"Grade predictions on a dataset."`
	Plan        planCmd        `cmd:"" help:"Predict what a run takes: time, disk, images to pull and to build; runs nothing."`
	Build       buildCmd       `cmd:"" help:"Build or pull the images of a dataset and run nothing."`
	Report      reportCmd      `cmd:"" help:"Show results again from their files, with intervals; verify them."`
	Compare     compareCmd     `cmd:"" help:"Say how two or more systems differ on the same instances, and how sure that is."`
	Gate        gateCmd        `cmd:"" help:"Decide for CI whether results are good enough."`
	Leaderboard leaderboardCmd `cmd:"" help:"Make a board of many systems; make and check submissions."`
	Grade       gradeCmd       `cmd:"" help:"Grade stored logs again, or compare two rule sets on them; runs nothing."`
	Parse       parseCmd       `cmd:"" help:"Read one log and print the status of each test as JSON."`
	Demo        demoCmd        `cmd:"" help:"Grade the bundled demo dataset; needs no registry and no repositories."`
	Dataset     datasetCmd     `cmd:"" help:"Look at datasets."`
	Doctor      doctorCmd      `cmd:"" help:"Say what this machine has, what is missing, and how to get it."`
	Clean       cleanCmd       `cmd:"" help:"Remove sandboxes that earlier runs left behind, and images with --images."`
	Cache       cacheCmd       `cmd:"" help:"Show and trim what is kept to save time."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// exitError ends the program with a code of its own; the message is already shown
// when Err is nil.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

// env is what commands are run with.
type env struct {
	ctx    context.Context
	stdout io.Writer
	stderr io.Writer

	// openEngine stands for engine.Open in tests; nil for the engines there are.
	openEngine func(context.Context, engine.Options) (*engine.Engine, error)
	// disk says in tests what is left of the disk of a folder; nil asks the machine.
	disk func(folder string) (room.Disk, error)
}

func main() {
	if err := rootless.Init(); err != nil {
		fmt.Fprintln(os.Stderr, "evalrun:", err)
		os.Exit(exitNotEvaluated)
	}
	os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr))
}

func realMain(args []string, stdout, stderr io.Writer) int {
	return mainWith(args, &env{stdout: stdout, stderr: stderr})
}

// mainWith runs the program with everything of e but its context.
func mainWith(args []string, e *env) (code int) {
	stdout, stderr := e.stdout, e.stderr
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	ctx, stop := interruptible(stderr)
	defer stop()
	defer func() {
		// kong ends --help through Exit; any other panic is a fault of ours.
		switch p := recover().(type) {
		case nil:
		case exitPanic:
			code = int(p)
		default:
			panic(p)
		}
	}()
	var c cli
	parser, err := kong.New(&c,
		kong.Name("evalrun"), kong.Description(descriptionOfTool+"\n\n"+exitCodesHelp),
		kong.Writers(stdout, stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.Exit(func(c int) { panic(exitPanic(c)) }),
	)
	if err != nil {
		fmt.Fprintln(stderr, "evalrun:", err)
		return exitUsage
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(stderr, "evalrun:", reports.SafeLines(err.Error()))
		fmt.Fprintln(stderr, "Run `evalrun --help`, or `evalrun COMMAND --help` for examples.")
		return exitUsage
	}
	// Before anything is read or locked, which would happen twice.
	command := kctx.Selected().Target.Addr().Interface()
	if c, ok := command.(interface{ needsNamespace(context.Context) bool }); ok && c.needsNamespace(ctx) {
		stop() // the one started again gets the signals
		code, err := rootless.Run(context.Background())
		if err == nil {
			return code
		}
		if _, looks := command.(*doctorCmd); !looks {
			return exitCode(ctx, &exitError{exitNotEvaluated, err}, stderr)
		}
		// It says what is missing, this among it.
		ctx, stop = interruptible(stderr)
		defer stop()
	}
	e.ctx = ctx
	return exitCode(ctx, kctx.Run(e), stderr)
}

type exitPanic int

func exitCode(ctx context.Context, err error, stderr io.Writer) int {
	if err == nil {
		return exitFine
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.err != nil {
			fmt.Fprintln(stderr, "evalrun:", reports.SafeLines(exit.err.Error()))
		}
		return exit.code
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "evalrun: interrupted")
		return exitInterrupted
	}
	fmt.Fprintln(stderr, "evalrun:", reports.SafeLines(err.Error()))
	return exitUsage
}

// interruptible returns a context that ends at the first Ctrl-C or SIGTERM. The
// second one ends the program at once: an engine that hangs must not hold it.
func interruptible(stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		var asked time.Time
		for {
			select {
			case s := <-signals:
				// timeout(1), and some terminals, send one interrupt twice.
				const once = 500 * time.Millisecond
				if !asked.IsZero() && time.Since(asked) < once {
					continue
				}
				if !asked.IsZero() {
					fmt.Fprintln(stderr, "\nevalrun: stopped at once; containers may be left: `evalrun clean` removes them")
					os.Exit(exitInterrupted)
				}
				fmt.Fprintf(stderr, "\nevalrun: %s: stopping, and removing what runs (this takes a moment; once more to stop at once)\n", s)
				asked = time.Now()
				cancel(errInterrupted)
			case <-done:
				return
			}
		}
	}()
	return ctx, sync.OnceFunc(func() { signal.Stop(signals); close(done); cancel(nil) })
}

var errInterrupted = errors.New("interrupted")

type versionCmd struct{}

func (versionCmd) Run(e *env) error {
	_, err := fmt.Fprintln(e.stdout, "evalrun", version)
	return err
}
