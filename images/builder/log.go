package builder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/buildkit/client"

	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/internal/mirror"
)

// tailLines is how much of a failed step's output an error carries.
const tailLines = 25

// buildLog writes what a build prints to a file and remembers the end of each step.
type buildLog struct {
	path   string
	file   *os.File
	steps  map[string]*step // by vertex digest
	failed *step
}

type step struct {
	name    string
	started bool
	ended   bool
	lines   []string
	partial string
}

func (l *buildLog) Close() { l.file.Close() }

// write takes a status update and returns the name of a step that just began.
func (l *buildLog) write(s *client.SolveStatus) (began string) {
	for _, v := range s.Vertexes {
		st, ok := l.steps[string(v.Digest)]
		if !ok {
			st = &step{name: v.Name}
			l.steps[string(v.Digest)] = st
		}
		if v.Started != nil && !st.started {
			st.started = true
			began = v.Name
			fmt.Fprintf(l.file, "=> %s\n", v.Name)
		}
		if v.Completed != nil && !st.ended {
			st.ended = true
			how := "done"
			if v.Cached {
				how = "cached"
			}
			if v.Error != "" {
				how = "failed: " + shorten(errors.New(v.Error)).Error()
			}
			if v.Error != "" && !strings.Contains(v.Error, "context canceled") && l.failed == nil {
				l.failed = st
			}
			fmt.Fprintf(l.file, "<= %s: %s\n", v.Name, how)
		}
	}
	for _, entry := range s.Logs {
		l.file.Write(entry.Data)
		if st, ok := l.steps[string(entry.Vertex)]; ok {
			st.add(string(entry.Data))
		}
	}
	return began
}

func (s *step) add(text string) {
	lines := strings.Split(s.partial+text, "\n")
	s.partial = lines[len(lines)-1]
	s.lines = append(s.lines, lines[:len(lines)-1]...)
	if extra := len(s.lines) - tailLines; extra > 0 {
		s.lines = append(s.lines[:0], s.lines[extra:]...)
	}
}

func (l *buildLog) failedStep() string {
	if l.failed == nil {
		return ""
	}
	return l.failed.name
}

func (l *buildLog) tail() string {
	if l.failed == nil {
		return ""
	}
	lines := l.failed.lines
	if l.failed.partial != "" {
		lines = append(lines, l.failed.partial)
	}
	for i, line := range lines {
		if len(line) > 300 {
			line = line[:300] + "..."
		}
		lines[i] = "  | " + line
	}
	return strings.Join(lines, "\n")
}

// prepareContext fills a Dockerfile's build context.
func prepareContext(ctx context.Context, dir string, spec images.InstanceSpec) error {
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(spec.Dockerfile), 0o644); err != nil {
		return err
	}
	repository := filepath.Join(dir, "repository")
	if err := os.Mkdir(repository, 0o755); err != nil {
		return err
	}
	if _, err := mirror.Cut(ctx, spec.Mirror, spec.BaseCommit, repository); err != nil {
		return err
	}
	return mirror.AddSubmodules(ctx, repository, spec.Submodules)
}
