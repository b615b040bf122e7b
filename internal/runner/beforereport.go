package runner

import (
	"context"
	"path"
	"regexp"
	"strings"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/sandbox"
)

var (
	ownHarness    = regexp.MustCompile(`\bharness\s*=\s*false`)
	testedToo     = regexp.MustCompile(`^\s*test\s*=\s*true`)
	changesFolder = regexp.MustCompile(`(?m)(?:^|[\s;&|(])(?:cd|pushd)\s`)
	addedOne      = regexp.MustCompile(`(?m)^\+.*\bharness\s*=\s*false`)
)

// beforeReport reads what of the checkout decides how a report is asked for, before any
// code of the model runs, so that none has a say in it.
func (t *trial) beforeReport(ctx context.Context) {
	why := ""
	switch t.structured {
	case grading.CargoLog:
		why = t.lookForHarness(ctx)
	case grading.AntJUnit:
		build, err := t.box.Read(ctx, workDir+"/build.xml", maxReport)
		if err == nil {
			build, err = grading.AntScript(build, workDir+"/build.xml", antEnding)
		}
		t.antBuild = string(build)
		switch {
		case err != nil:
			why = err.Error()
		case changesFolder.MatchString(t.job.Recipe.Evaluation.Test):
			why = "its command goes to another folder, which may have a build file of its own"
		}
	}
	if why != "" {
		t.structured = grading.NoStructured
		t.warn("the test runner was not asked for a report besides its log: %s", why)
	}
}

// antEnding stands for the ending of reports, which is not known yet.
const antEnding = "@ENDING@"

// lookForHarness says why cargo must not be asked for a report: a test program may be
// one that libtest is not in. It need not know the argument, and a run that fails of it
// would be held against the patch. A patch that brings such a program is suspicious for
// that alone.
func (t *trial) lookForHarness(ctx context.Context) string {
	out := &bounded{max: ourOutput}
	_, err := t.box.Exec(ctx, sandbox.Command{
		Argv:   []string{"grep", "-rHE", "--include=Cargo.toml", `^[[:space:]]*(\[|test[[:space:]]*=)|harness`, workDir},
		Output: out, Timeout: changesTimeout,
	})
	e := &t.job.Recipe.Evaluation
	switch manifest := harnessOfItsOwn(out.String(), benches(e.Test)); {
	case err != nil:
		return "its manifests cannot be read: " + err.Error()
	case manifest != "":
		return strings.TrimPrefix(manifest, workDir+"/") + " has a test program with harness = false"
	case addedOne.MatchString(e.TestPatch):
		return "the test patch adds a test program with harness = false"
	case addedOne.MatchString(t.patch.Text):
		return "the patch adds a test program with harness = false"
	}
	return ""
}

// benches reports whether a test command runs benchmarks, too.
func benches(command string) bool {
	return strings.Contains(command, "--bench") || strings.Contains(command, "--all-targets")
}

// harnessOfItsOwn is the first manifest with a target that cargo test runs and that
// brings a harness of its own. Lines are as grep prints them, with the name of the
// manifest in front.
func harnessOfItsOwn(lines string, benches bool) string {
	var file, section string
	var own, tested bool
	for line := range strings.Lines(lines) {
		dir, text, ok := strings.Cut(line, "/Cargo.toml:")
		if !ok {
			continue
		}
		if header := strings.TrimSpace(text); dir != file || strings.HasPrefix(header, "[") {
			file, section, own, tested = dir, header, false, false
		}
		own = own || ownHarness.MatchString(text)
		tested = tested || testedToo.MatchString(text)
		if own && (benches || tested || !strings.HasPrefix(section, "[[bench]]")) {
			return path.Join(file, "Cargo.toml")
		}
	}
	return ""
}
