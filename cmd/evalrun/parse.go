package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/grading/logparse"
	"github.com/evalrun/evalrun/internal/regrade"
	"github.com/evalrun/evalrun/reports"
)

type parseCmd struct {
	File     string `arg:"" help:"Log to read; - is standard input."`
	Parser   string `placeholder:"NAME" help:"Log parser, as in the column log_parser: parse_log_pytest_v2, or pytest_v2."`
	Repo     string `placeholder:"OWNER/NAME" help:"Use the parser of this repository."`
	Instance string `short:"i" placeholder:"ID" help:"Instance the log is of: a few parsers want to know, and its repository is used when nothing else is given."`
	Version  string `placeholder:"VERSION" help:"The row's version: two parsers (lighthouse, next) go by it."`
	Rules    string `default:"swebench-5" help:"Rules whose parsers are used: swebench-5, swebench-4.1 or strict."`
}

func (parseCmd) Help() string {
	return `Prints one JSON object: parser, found, bad_codes, status_map (in the order of the log),
exit_code. A log in the official format is read between its markers. Text without any
marker is taken for what the tests printed and read whole, as it is. Why a log is not
found is said on standard error; the exit code is 0 all the same.

Examples:
  evalrun parse --parser parse_log_gotest test_output.txt
  evalrun parse --repo sympy/sympy test_output.txt | jq .found
  go test -v ./... | evalrun parse --parser gotest -
  evalrun parse -i psf__requests-2317 --rules swebench-4.1 test_output.txt
`
}

// Run reads one log.
func (c *parseCmd) Run(e *env) error {
	rules, err := grading.ParseRules(c.Rules)
	if err != nil {
		return err
	}
	parser, repo, err := c.parser()
	if err != nil {
		return err
	}
	if info, err := os.Stat(c.File); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder; give the path of a log", c.File)
	}
	open, done, err := logSource(e.ctx, c.File)
	if err != nil {
		return err
	}
	defer done()
	parsed, err := regrade.Parse(rules, open, parser, logparse.Context{Repo: repo, Version: c.Version, InstanceID: c.Instance})
	if err != nil {
		return err
	}
	if parsed.Reason != "" {
		fmt.Fprintln(e.stderr, "evalrun:", reports.SafeText(parsed.Reason))
	}
	enc := json.NewEncoder(e.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(parsed)
}

func (c *parseCmd) parser() (name, repo string, err error) {
	repo = c.Repo
	if repo == "" {
		repo = regrade.RepoOf(c.Instance)
	}
	if c.Parser != "" {
		for _, name := range []string{c.Parser, "parse_log_" + c.Parser} {
			if logparse.Known(name) {
				return name, repo, nil
			}
		}
		return "", "", fmt.Errorf("--parser %s: no log parser has this name; there are: %v", c.Parser, logparse.Names())
	}
	if repo == "" {
		return "", "", errors.New("say how the log is to be read: --parser NAME or --repo OWNER/NAME")
	}
	name, ok := logparse.ForRepo(repo)
	if !ok {
		return "", "", fmt.Errorf("no log parser is known for the repository %s; give --parser NAME", repo)
	}
	return name, repo, nil
}

// logSource opens a file that can be read more than once.
func logSource(ctx context.Context, path string) (open grading.Source, done func(), err error) {
	path, done, err = spooled(ctx, path)
	return func() (io.ReadCloser, error) { return os.Open(path) }, done, err
}

// spooled is the path of a log, or of a copy of what comes through a pipe ("-" is
// standard input), which done removes: a log is read more than once, and may be
// too long to be held in memory. Folders are left as they are.
func spooled(ctx context.Context, path string) (regular string, done func(), err error) {
	done = func() {}
	if path == "" {
		return "", done, errors.New("give the path of a log, or - for standard input")
	}
	if path != "-" {
		info, err := os.Stat(path)
		if err != nil || info.IsDir() || info.Mode().IsRegular() {
			return path, done, err
		}
	}
	spool, err := os.CreateTemp("", "evalrun-log-*")
	if err != nil {
		return "", done, err
	}
	copied := make(chan error, 1)
	go func() { // a pipe that nobody writes to keeps it; then the process ends under it
		in := os.Stdin
		if path != "-" {
			var err error
			if in, err = os.Open(path); err != nil {
				copied <- err
				return
			}
			defer in.Close()
		}
		_, err := io.Copy(spool, in)
		copied <- err
	}()
	select {
	case err = <-copied:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err = errors.Join(err, spool.Close()); err != nil {
		os.Remove(spool.Name())
		return "", done, fmt.Errorf("read %s: %w", path, err)
	}
	return spool.Name(), func() { os.Remove(spool.Name()) }, nil
}
