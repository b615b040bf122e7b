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
	ownHarness = regexp.MustCompile(`\bharness\s*=\s*false`)
	testedToo  = regexp.MustCompile(`^\s*test\s*=\s*true`)
	addedOne   = regexp.MustCompile(`(?m)^\+.*\bharness\s*=\s*false`)
)

// lookForHarness keeps cargo from being asked for a report where a test program may
// be one that libtest is not in: it need not know the argument, and a run that fails
// of it would be held against the patch. It looks before any code of the model runs,
// so that none can talk its way out of the report; a patch that brings such a program
// is suspicious for that alone.
func (t *trial) lookForHarness(ctx context.Context) {
	if t.structured != grading.CargoLog {
		return
	}
	why := ""
	out := &bounded{max: ourOutput}
	_, err := t.box.Exec(ctx, sandbox.Command{
		Argv:   []string{"grep", "-rHE", "--include=Cargo.toml", `^[[:space:]]*(\[|test[[:space:]]*=)|harness`, workDir},
		Output: out, Timeout: changesTimeout,
	})
	e := &t.job.Recipe.Evaluation
	switch manifest := harnessOfItsOwn(out.String(), benches(e.Test)); {
	case err != nil:
		why = "its manifests cannot be read: " + err.Error()
	case manifest != "":
		why = strings.TrimPrefix(manifest, workDir+"/") + " has a test program with harness = false"
	case addedOne.MatchString(e.TestPatch):
		why = "the test patch adds a test program with harness = false"
	case addedOne.MatchString(t.patch.Text):
		why = "the patch adds a test program with harness = false"
	default:
		return
	}
	t.structured = grading.NoStructured
	t.warn("cargo was not asked for a report besides its log: %s", why)
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
