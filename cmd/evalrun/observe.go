package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/evalrun/evalrun/internal/observe"
	"github.com/evalrun/evalrun/reports"
)

// logFile tells once that it cannot be written, which a logger keeps to itself. A run
// without its log is a run.
type logFile struct {
	file *os.File
	say  func(string)
	once sync.Once
}

func (l *logFile) Write(p []byte) (int, error) {
	n, err := l.file.Write(p)
	if err != nil {
		l.once.Do(func() { l.say(fmt.Sprintf("warning: --log-file: %v; the log lacks what comes now", err)) })
	}
	return n, err
}

// observeFlags say who else is told what a run does.
type observeFlags struct {
	LogFile    string     `placeholder:"FILE" help:"Log of the run, a JSON object a line (default: evalrun.log in the run's folder); none keeps none."`
	LogLevel   slog.Level `placeholder:"LEVEL" default:"info" help:"What is logged: debug, info, warn or error."`
	StatusAddr string     `placeholder:"ADDR" help:"Serve a status page, /status.json and Prometheus' /metrics at a port of this machine (9464), or at HOST:PORT."`
}

// check refuses an address before anything is done.
func (f observeFlags) check() error {
	if f.StatusAddr == "" {
		return nil
	}
	if _, err := observe.Address(f.StatusAddr); err != nil {
		return fmt.Errorf("--status-addr: %w", err)
	}
	return nil
}

// watch begins to log, serve and trace a run. stop ends all of it, with what ended
// the run. say tells people of a log that cannot be written.
func (f observeFlags) watch(e *env, layout reports.Layout, o observe.Options, say func(string)) (w *observe.Watch, stop func(error), err error) {
	var closers []func() error
	defer func() {
		if err != nil {
			for _, c := range closers {
				err = errors.Join(err, c())
			}
		}
	}()
	if f.LogFile != "none" {
		path := f.LogFile
		if path == "" {
			path = filepath.Join(layout.RunDir(o.RunID), "evalrun.log")
		}
		// A pipe that nobody reads is an error then, and not waited for.
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o644)
		if err != nil {
			return nil, nil, fmt.Errorf("--log-file: %w", err)
		}
		closers = append(closers, file.Close)
		o.Log = slog.New(slog.NewJSONHandler(&logFile{file: file, say: say}, &slog.HandlerOptions{Level: f.LogLevel}))
	}
	w = observe.New(o)
	if f.StatusAddr != "" {
		url, stop, err := w.Serve(e.ctx, f.StatusAddr)
		if err != nil {
			return nil, nil, fmt.Errorf("--status-addr: %w", err)
		}
		closers = append([]func() error{func() error { stop(); return nil }}, closers...)
		fmt.Fprintf(e.stderr, "status: %s\n", url)
	}
	flush, err := w.Trace(e.ctx, version)
	if err != nil {
		return nil, nil, err
	}
	closers = append([]func() error{flush}, closers...)
	return w, func(runErr error) {
		w.End(runErr)
		for _, c := range closers {
			// What nobody hears of is no reason for a run to fail.
			if err := c(); err != nil {
				fmt.Fprintf(e.stderr, "warning: %s\n", reports.SafeText(err.Error()))
			}
		}
	}, nil
}
