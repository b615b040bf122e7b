package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/sandbox"
)

// maxReport is how much of a structured report is read, maxReports how many of a
// runner that writes more than one. Where there is more, what is missing in the rest
// cannot be held against the log.
const (
	maxReport  = 64 << 20
	maxReports = 4096
)

// askReport makes the test runner write a report for programs, besides its log: by
// the environment, or by arguments added to its command. It is asked of second
// opinions only: it can change what a runner prints, and the first log has to be the
// official one.
func (t *trial) askReport(phase, script string) (env []string, asked string, files []sandbox.File) {
	if phase != "test" && phase != "eval" {
		return nil, script, nil
	}
	switch t.structured {
	case grading.NoStructured:
		return nil, script, nil
	case grading.PytestJUnit:
		return []string{t.added("PYTEST_ADDOPTS", "-o junit_family=xunit1 --junitxml="+t.newReport())}, script, nil
	case grading.GoJSON:
		return []string{t.added("GOFLAGS", "-json")}, script, nil
	case grading.KarmaJSON: // it has no option that adds a reporter to those of its configuration
		name := t.newReport()
		listener := sandbox.File{Path: companion(name, ".cjs"), Mode: 0o644, Data: grading.KarmaListener(name)}
		return []string{t.added("NODE_OPTIONS", "--require "+listener.Path)}, script, []sandbox.File{listener}
	}
	ok := false
	if phase == "test" {
		asked, ok = withReports(t.structured, script, t.newReport)
	}
	if !ok {
		t.structured, t.reports = grading.NoStructured, nil
		return nil, script, nil
	}
	for _, name := range t.reports {
		switch t.structured {
		case grading.MochaJSON:
			files = append(files, sandbox.File{Path: companion(name, ".cjs"), Mode: 0o644, Data: grading.MochaListener(name)})
		case grading.GradleJUnit:
			files = append(files, sandbox.File{Path: companion(name, ".gradle"), Mode: 0o644, Data: grading.GradleScript(companion(name, ""))})
		case grading.AntJUnit:
			files = append(files, sandbox.File{Path: companion(name, ".ant"), Mode: 0o644, Data: []byte(strings.ReplaceAll(t.antBuild, antEnding, "."+baseName(name)+".xml"))})
		}
	}
	return nil, asked, files
}

// newReport is a name that nothing that ran before could know.
func (t *trial) newReport() string {
	name := ourDir + "/" + newNonce() + "." + t.structured.Format()
	t.reports = append(t.reports, name)
	return name
}

// collect reads the reports. One that was begun and cannot be read has no cases:
// every test is missed, and that is what the cross-check says. Where there is none
// at all, the runner did not come to its end, or is none that writes one. The error is
// the engine's: then nothing is known.
func (t *trial) collect(ctx context.Context) error {
	switch t.structured {
	case grading.NoStructured:
		return nil
	case grading.GoJSON:
		in, err := t.log.section(t.test)
		if err == nil {
			defer in.Close()
			t.cases, err = grading.GoOutput(in, io.Discard)
		}
		if err != nil {
			t.warn("the report of the test runner cannot be read: %v", err)
		}
		return nil
	}
	t.cases = grading.Structured{}
	any := false
	for _, name := range t.reports {
		files := t.reportFiles(ctx, name)
		if len(files) > maxReports {
			t.notCompared("the test runner wrote more reports besides its log than are read (%d)", maxReports)
			return nil
		}
		for _, path := range files {
			there, err := t.readReport(ctx, path)
			if err != nil || t.structured == grading.NoStructured {
				return err
			}
			any = any || there
		}
	}
	if !any {
		t.notCompared("asked for a report besides its log, the test runner wrote none")
	}
	return nil
}

// notCompared is for reports that say nothing against the log, nor for it.
func (t *trial) notCompared(format string, args ...any) {
	t.structured, t.cases = grading.NoStructured, nil
	t.a.Trust.Flagged = append(t.a.Trust.Flagged, fmt.Sprintf(format, args...))
}

// reportFiles are the files that a report is in.
func (t *trial) reportFiles(ctx context.Context, name string) []string {
	var found []string
	switch t.structured {
	case grading.CargoLog:
		t.awaitEnd(ctx, name)
	case grading.MavenJUnit: // one for each class, in a folder of each module
		found = t.find(ctx, workDir, "*-reports/TEST-*-"+baseName(name)+".xml")
	case grading.GradleJUnit: // one for each class, in a folder of each task
		found = t.find(ctx, companion(name, ""), "*/TEST-*.xml")
	case grading.AntJUnit: // one for each class, wherever the build wants its own
		found = t.find(ctx, workDir, "*/TEST-*."+baseName(name)+".xml")
	}
	if len(found) > 0 {
		return found
	}
	return []string{name}
}

// find lists the files below a folder whose path is of a pattern.
func (t *trial) find(ctx context.Context, folder, pattern string) (found []string) {
	out := &bounded{max: ourOutput}
	_, err := t.box.Exec(ctx, sandbox.Command{
		Argv: []string{"find", folder, "-xdev", "-path", pattern, "-type", "f"}, Output: out, Timeout: changesTimeout,
	})
	if err != nil {
		t.warn("the reports of the test runner cannot be found: %v", err)
	}
	for line := range strings.Lines(out.String()) {
		if path := strings.TrimRight(line, "\n"); strings.HasPrefix(path, folder+"/") && strings.HasSuffix(path, ".xml") && len(found) <= maxReports {
			found = append(found, path)
		}
	}
	return found
}

// awaitEnd waits a while for the last line of what comes through a pipe: the script
// does not wait for who reads it.
func (t *trial) awaitEnd(ctx context.Context, name string) {
	for range 20 {
		data, err := t.box.Read(ctx, name, maxReport)
		if err != nil || bytes.HasSuffix(data, []byte(grading.LogEnd+"\n")) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// readReport reads one file; false means that there is none.
func (t *trial) readReport(ctx context.Context, name string) (there bool, err error) {
	data, err := t.box.Read(ctx, name, maxReport)
	var engine *sandbox.EngineError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.As(err, &engine):
		return false, err
	case err == nil && len(data) == maxReport:
		// Reports have in them what tests print: honest ones may be as long.
		t.notCompared("a report of the test runner besides its log is longer than what is read of one (%d MiB)", maxReport>>20)
		return true, nil
	}
	var cases grading.Structured
	if err == nil {
		cases, err = grading.ReadStructured(t.structured, bytes.NewReader(data))
	}
	if err != nil {
		t.warn("the report of the test runner cannot be read: %v", err)
	}
	t.cases.Merge(cases)
	return true, nil
}

// output opens what the tests printed, as text.
func (t *trial) output(where region) grading.Source {
	return func() (io.ReadCloser, error) {
		in, err := t.log.section(where)
		if err != nil || t.structured != grading.GoJSON {
			return in, err
		}
		out, to := io.Pipe()
		go func() { // ends when everything is read, or out is closed
			_, err := grading.GoOutput(in, to)
			to.CloseWithError(err)
			in.Close()
		}()
		return out, nil
	}
}

// added is a variable of the image's environment with more words in it.
func (t *trial) added(name, words string) string {
	for _, kv := range t.image.Env {
		if have, ok := strings.CutPrefix(kv, name+"="); ok && have != "" {
			words = have + " " + words
		}
	}
	return name + "=" + words
}
