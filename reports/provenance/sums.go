package provenance

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/reports"
)

// SumsFile is the name of the list of a run's files, in its folder.
const SumsFile = "SHA256SUMS"

// summaryMark is in front of the official summaries, which lie elsewhere: a comment
// to sha256sum.
const summaryMark = "# summary "

// Sums are the SHA-256 of every file of a run. Unlike the statement they differ from
// run to run, as times and resources do: they find that a file was changed, not that
// a result is another.
type Sums struct {
	Files     map[string]string // by path below the run's folder, with slashes
	Summaries map[string]string // official summaries by file name, wherever they lie
	// Odd are entries of the folder that are neither files nor folders.
	Odd []string
}

// Sum hashes every file of a run.
func Sum(ctx context.Context, layout reports.Layout, record *reports.RunRecord) (Sums, error) {
	s := Sums{Files: map[string]string{}, Summaries: map[string]string{}}
	dir := layout.RunDir(record.RunID)
	var paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
		name, err := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case name == SumsFile, name == ".lock": // the list itself, and what only says who works on the run
		case !d.Type().IsRegular():
			s.Odd = append(s.Odd, name)
		default:
			paths = append(paths, name)
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	hashes := make([]string, len(paths))
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for i, name := range paths {
		g.Go(func() (err error) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			hashes[i], err = HashFile(filepath.Join(dir, filepath.FromSlash(name)))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return s, err
	}
	for i, name := range paths {
		s.Files[name] = hashes[i]
	}
	for _, model := range record.Models {
		path := layout.SummaryFile(record.RunID, model)
		sum, err := HashFile(path)
		if err != nil {
			return s, err
		}
		if sum != "" {
			s.Summaries[filepath.Base(path)] = sum
		}
	}
	return s, nil
}

// Write writes the list into the run's folder, in the form of sha256sum.
func (s Sums) Write(layout reports.Layout, run string) error {
	if err := cache.WriteFile(filepath.Join(layout.RunDir(run), SumsFile), s.encode(), 0o666); err != nil {
		return fmt.Errorf("run %q: write %s: %w", run, SumsFile, err)
	}
	return nil
}

// escapes are those of sha256sum, which puts a backslash in front of the whole line.
var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)

func (s Sums) encode() []byte {
	var out bytes.Buffer
	line := func(prefix, name, sum string) {
		if spelt := escapes.Replace(name); spelt != name && prefix == "" {
			prefix, name = `\`, spelt
		}
		fmt.Fprintf(&out, "%s%s  %s\n", prefix, sum, name)
	}
	for _, name := range sorted(s.Summaries) {
		line(summaryMark, name, s.Summaries[name])
	}
	for _, name := range sorted(s.Files) {
		line("", name, s.Files[name])
	}
	return out.Bytes()
}

func sorted(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ReadSums reads the list back. The error wraps fs.ErrNotExist where there is none.
func ReadSums(layout reports.Layout, run string) (Sums, error) {
	path := filepath.Join(layout.RunDir(run), SumsFile)
	s := Sums{Files: map[string]string{}, Summaries: map[string]string{}}
	data, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	n := 0
	for text := range strings.Lines(string(data)) {
		n++
		into, text := s.Files, strings.TrimSuffix(text, "\n")
		if rest, ok := strings.CutPrefix(text, summaryMark); ok {
			into, text = s.Summaries, rest
		}
		name, sum, err := parseSum(text)
		if _, twice := into[name]; err == nil && twice {
			err = fmt.Errorf("%q is there twice", name)
		}
		if err != nil {
			return s, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		into[name] = sum
	}
	if !bytes.Equal(data, s.encode()) {
		return s, fmt.Errorf("%s has been written by somebody else: its lines are not in their order, or not whole", path)
	}
	return s, nil
}

func parseSum(line string) (name, sum string, err error) {
	rest, escaped := strings.CutPrefix(line, `\`)
	sum, name, ok := strings.Cut(rest, "  ")
	if !ok || len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" || name == "" {
		return "", "", errors.New("want a SHA-256, two blanks and a path")
	}
	if escaped {
		name = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r").Replace(name)
	}
	return name, sum, nil
}
