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
	exitCodesHelp     = "Exit codes: 0 fine, 1 a gate or comparison says no, 2 wrong usage or input, 3 not everything could be evaluated, 130 interrupted."
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

func realMain(args []string, stdout, stderr io.Writer) int {
	debug.SetMemoryLimit(memoryLimit)
	ctx, stop := interruptible(stderr)
	defer stop()
	code := exitFine
	var c cli
	parser, err := kong.New(&c,
		kong.Name("evalrun"), kong.Description(descriptionOfTool+"\n\n"+exitCodesHelp),
		kong.Writers(stdout, stderr), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.Exit(func(c int) { panic(exitPanic(c)) }),
		kong.Vars{"version": version},
	)
	if err != nil {
		fmt.Fprintln(stderr, "evalrun:", err)
		return exitUsage
	}
	defer func() {
		// kong ends --help through Exit.
		if p, ok := recover().(exitPanic); ok {
			code = int(p)
		}
	}()
	func() {
		defer func() {
			if p := recover(); p != nil {
				e, ok := p.(exitPanic)
				if !ok {
					panic(p)
				}
				code = int(e)
			}
		}()
		kctx, err := parser.Parse(args)
		if err != nil {
			fmt.Fprintln(stderr, "evalrun:", err)
			fmt.Fprintln(stderr, "Run `evalrun --help`, or `evalrun COMMAND --help` for examples.")
			code = exitUsage
			return
		}
		code = exitCode(ctx, kctx.Run(&env{ctx: ctx, stdout: stdout, stderr: stderr}), stderr)
	}()
	return code
}

type exitPanic int

func exitCode(ctx context.Context, err error, stderr io.Writer) int {
	if err == nil {
		return exitFine
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.err != nil {
			fmt.Fprintln(stderr, "evalrun:", reports.SafeText(exit.err.Error()))
		}
		return exit.code
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "evalrun: interrupted")
		return exitInterrupted
	}
	fmt.Fprintln(stderr, "evalrun:", err)
	return exitUsage
}

// interruptible returns a context that ends at the first Ctrl-C or SIGTERM.
func interruptible(stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			fmt.Fprintf(stderr, "\nevalrun: %s: stopping, and removing what runs (this takes a moment)\n", s)
			cancel(errInterrupted)
		case <-done:
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
