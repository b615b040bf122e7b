package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
	"github.com/evalrun/evalrun/reports"
)

// sent is the digest of all that is sent into sandboxes for the jobs of the test below, at
// a revision.
var sent = map[int64]string{
	2: "8a03b09060285328f1eaf29c7d1f9c2fa8c3740801470d0cdd846da991c42d34",
}

// chance is what scripts make up, and nobody can foresee.
var chance = regexp.MustCompile(`[0-9a-f]{32}|\[evalrun [0-9a-f]{8}\]`)

// recorder writes down what sandboxes are asked for. It answers as if all went well.
type recorder struct{ text strings.Builder }

func (r *recorder) note(what string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(&r.text, "%s %s\n", what, chance.ReplaceAll(data, []byte("N")))
}

func (r *recorder) engine() *sandboxtest.Fake {
	return &sandboxtest.Fake{
		OnStart: func(_ context.Context, spec sandbox.Spec) error {
			spec.Expiry = time.Time{}
			r.note("start", spec)
			return nil
		},
		OnExec: r.exec,
		OnRead: func(_ context.Context, _ *sandboxtest.FakeSandbox, name string) ([]byte, error) {
			r.note("read", name)
			if path.Base(name) == "build.xml" {
				return []byte(`<project default="x"></project>`), nil
			}
			return []byte(grading.LogEnd + "\n"), nil
		},
	}
}

// texts are files as they can be read.
func texts(files []sandbox.File) []string {
	var list []string
	for _, f := range files {
		list = append(list, fmt.Sprintf("%s %o\n%s", f.Path, f.Mode, f.Data))
	}
	return list
}

func (r *recorder) exec(_ context.Context, _ *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
	out := cmd.Output
	r.note("run", []any{cmd.Argv, cmd.Env, cmd.Dir, cmd.Alone, string(cmd.Stdin), texts(cmd.Files)})
	for _, f := range cmd.Files {
		nonce := regexp.MustCompile(`(?m)^nonce=(\w+)$`).FindSubmatch(f.Data)
		switch path.Base(f.Path) {
		case "apply.sh":
			fmt.Fprintf(out, "%[1]s try 1 1 0 -\n%[1]s applied 1 1\n", nonce[1])
		case "restore.sh", "protect.sh":
			fmt.Fprintf(out, "%[1]s path absent dGVzdHMvdGVzdF94LnB5\n%[1]s try 1 1 0 -\n%[1]s applied 1 1\n", nonce[1])
		case "snapshot.sh", "changes.sh":
			fmt.Fprintf(out, "%[1]s tree 0123456789abcdef0123456789abcdef01234567\n%[1]s done\n", nonce[1])
		case "test.sh", "eval.sh":
			io.WriteString(out, ">>>>> Start Test Output\nPASSED tests/test_x.py::test_new\nPASSED tests/test_x.py::test_old\n=== 2 passed in 0.10s ===\n>>>>> End Test Output\n")
		}
	}
	return sandbox.Result{}, nil
}

// attempts makes attempts that are as different as can be, each with a second opinion.
func (r *recorder) attempts(t *testing.T) {
	const patch = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new\n"
	const tests = "diff --git a/tests/test_x.py b/tests/test_x.py\nnew file mode 100644\n--- /dev/null\n+++ b/tests/test_x.py\n@@ -0,0 +1 @@\n+hidden test\n"
	const whole = "run the tests\n: '>>>>> End Test Output'\n"
	plain := Limits{Sandbox: sandbox.Limits{CPUs: 1, MemoryBytes: 1 << 30, Pids: 100, DiskBytes: 1 << 30}, Timeout: time.Hour, OutputBytes: 1 << 20}
	bound := plain
	bound.ReadOnly, bound.User = true, "1000:1000"
	for _, of := range []struct {
		name   string
		limits Limits
		e      datasets.Evaluation
	}{
		{"all phases", plain, datasets.Evaluation{Prelude: "export A=b", Setup: "set up", Build: "build", Test: "run the tests", TestPatch: tests, ResetFiles: []string{"tests/old.py"}}},
		{"tests alone", plain, datasets.Evaluation{Test: "run the tests", TestPatch: tests}},
		{"set-up and no test files", plain, datasets.Evaluation{Setup: "set up", Test: "run the tests"}},
		{"whole", plain, datasets.Evaluation{Whole: true, Script: whole}},
		{"bound", bound, datasets.Evaluation{Test: "run the tests", TestPatch: tests, Capabilities: []string{"SYS_ADMIN"}}},
	} {
		r.text.WriteString("== " + of.name + "\n")
		of.e.LogParser = "parse_log_pytest"
		text := patch
		job := Job{
			Instance: &datasets.Instance{ID: "a__b-1", Repo: "a/b", BaseCommit: "0123456789abcdef0123456789abcdef01234567",
				FailToPass: []string{"tests/test_x.py::test_new"}, PassToPass: []string{"tests/test_x.py::test_old"}},
			Recipe: &datasets.Recipe{Evaluation: of.e}, Prediction: &datasets.Prediction{InstanceID: "a__b-1", Model: "m", Patch: &text},
		}
		attempts, err := New(Options{
			RunID: "run", Layout: reports.Layout{Root: t.TempDir()}, Driver: r.engine(), Images: oneImage{}, Observer: nobody{}, Workers: 1, Builders: 1,
			Rules: grading.DefaultRules, Verify: VerifyAll, Limits: of.limits, RowCapabilities: true,
			Network: func(context.Context, Image) (string, error) { return "none (verified)", nil },
		}).Run(t.Context(), []Job{job})
		if err != nil || attempts[0].Trust.SecondOpinion == nil {
			t.Fatalf("%s: %s %s, %v: there was no second opinion", of.name, attempts[0].Outcome, attempts[0].Reason, err)
		}
	}
}

// reportsAsked asks each runner for a report as a second opinion does.
func reportsAsked(t *testing.T) (asked []string) {
	for kind, command := range map[grading.StructuredKind]string{
		grading.PytestJUnit: "pytest -rA", grading.GoJSON: "go test -v ./...", grading.JestJSON: "npx jest --verbose", grading.VitestJSON: "npx vitest run",
		grading.PHPUnitJUnit: "vendor/bin/phpunit --testdox", grading.RSpecJSON: "bundle exec rspec", grading.CargoLog: "cargo test --no-fail-fast",
		grading.MavenJUnit: "mvn test -B", grading.GradleJUnit: "./gradlew test", grading.AntJUnit: "ant test", grading.KarmaJSON: "npx karma start", grading.MochaJSON: "npx mocha",
	} {
		one := recorder{}
		box, err := one.engine().Start(t.Context(), sandbox.Spec{Name: string(kind)})
		if err != nil {
			t.Fatal(err)
		}
		tr := &trial{structured: kind, box: box, a: &reports.Attempt{}, image: Image{Env: []string{"PYTEST_ADDOPTS=-q"}}}
		tr.job.Recipe = &datasets.Recipe{Evaluation: datasets.Evaluation{Test: command}}
		tr.beforeReport(t.Context())
		env, script, files := tr.askReport("test", command)
		one.note("asked", []any{env, script, texts(files)})
		if tr.structured != kind {
			t.Errorf("%s: it is not asked for: %v", kind, tr.a.Warnings)
		}
		if kind != grading.GoJSON { // which is in the log
			if err := tr.collect(t.Context()); err != nil {
				t.Error(err)
			}
		}
		asked = append(asked, "== "+string(kind)+"\n"+one.text.String())
	}
	slices.Sort(asked)
	return asked
}

// What is sent into a sandbox determines what its log says, though no key says so by
// itself.
func TestRevisionFollowsWhatIsSent(t *testing.T) {
	r := &recorder{}
	r.attempts(t)
	digest := sha256.Sum256([]byte(r.text.String() + strings.Join(reportsAsked(t), "")))
	if got := hex.EncodeToString(digest[:]); got != sent[trialRevision] {
		t.Errorf("the digest of what is sent into sandboxes is %s. If what runs there, or what is asked of it, has changed, raise trialRevision and add the digest here; if only words have, change the digest", got)
	}
}

type nobody struct{}

func (nobody) Worker(int, string)    {}
func (nobody) Done(*reports.Attempt) {}

type oneImage struct{}

func (oneImage) Image(context.Context, *datasets.Instance) (Image, error) {
	return Image{Ref: "image", Digest: "sha256:image", Env: []string{"A=b", "LANG=C"}, AddEnv: []string{"LANG=C"}}, nil
}

func (oneImage) There(context.Context, *datasets.Instance) (Image, bool, error) {
	return Image{}, false, nil
}
