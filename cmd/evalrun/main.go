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
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/evalrun/evalrun/reports"
)

// version is set by the Makefile.
var version = "dev"

// Exit codes. They are part of the interface and listed in --help.
const (
	exitFine          = 0
	exitUsage         = 2
	exitNotEvaluated  = 3
	exitInterrupted   = 130
	exitCodesHelp     = "Exit codes: 0 fine, 1 an outcome of the demo is not the expected one (demo --check), 2 wrong usage or input, 3 not everything could be evaluated, 130 interrupted."
	memoryLimit       = 96 << 20 // soft: above it the collector works harder
	descriptionOfTool = "Grades patches written by coding agents: images base -> env -> instance, containers without network, FAIL_TO_PASS and PASS_TO_PASS."
)

type cli struct {
	Run     runCmd     `cmd:"" help:"Grade predictions on a dataset."`
	Build   buildCmd   `cmd:"" help:"Build or pull the images of a dataset and run nothing."`
	Report  reportCmd  `cmd:"" help:"Show a run again from its files."`
	Demo    demoCmd    `cmd:"" help:"Grade the bundled demo dataset; needs no registry and no repositories."`
	Dataset datasetCmd `cmd:"" help:"Look at datasets."`
	Doctor  doctorCmd  `cmd:"" help:"Say what this machine has, what is missing, and how to get it."`
	Clean   cleanCmd   `cmd:"" help:"Remove containers that earlier runs left behind, and images with --images."`
	Version versionCmd `cmd:"" help:"Print the version."`
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
}

func main() { os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr)) }

func realMain(args []string, stdout, stderr io.Writer) (code int) {
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
	return exitCode(ctx, kctx.Run(&env{ctx: ctx, stdout: stdout, stderr: stderr}), stderr)
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
		for first := true; ; first = false {
			select {
			case s := <-signals:
				if !first {
					fmt.Fprintln(stderr, "\nevalrun: stopped at once; containers may be left: `evalrun clean` removes them")
					os.Exit(exitInterrupted)
				}
				fmt.Fprintf(stderr, "\nevalrun: %s: stopping, and removing what runs (this takes a moment; once more to stop at once)\n", s)
				cancel(errInterrupted)
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel(nil) }
}

var errInterrupted = errors.New("interrupted")

type versionCmd struct{}

func (versionCmd) Run(e *env) error {
	_, err := fmt.Fprintln(e.stdout, "evalrun", version)
	return err
}
