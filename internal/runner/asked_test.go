package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

// TestAsked follows the second opinion's question to the runner, from what the
// checkout has to what is read. N stands for what nobody can foresee.
func TestAsked(t *testing.T) {
	const gradleLog, cargoLog, antLog = "a.BTest > new PASSED\na.BTest > old PASSED\n", "test new ... ok\ntest old ... ok\ntest result: ok. 2 passed; 0 failed;\n", "[junit] [PASS] new(a.B)\n[junit] [PASS] old(a.B)\n"
	const trouble = "the daemon is away"
	for _, tt := range []struct {
		name         string
		parser, test string
		tests        []string
		log          string
		manifests    string            // as grep finds them
		files        map[string]string // that are in the sandbox
		patch        string
		want         string // the command, or a variable of its environment
		put          []string
		report       string
		outcome      grading.Outcome
		said         string // in a flag, a warning or the reason
	}{
		{name: "gradle", parser: "parse_log_gradle_custom", test: "./gradlew test", tests: []string{"a.BTest > new", "a.BTest > old"}, log: gradleLog,
			files: map[string]string{"/evalrun/N/testbed/test/TEST-a.BTest.xml": `<testsuite><testcase name="new" classname="a.BTest"/></testsuite>`, "/evalrun/N/testbed/x/test/TEST-a.BTest.xml": `<testsuite><testcase name="old" classname="a.BTest"/></testsuite>`},
			want:  "./gradlew test --init-script /evalrun/N.gradle", put: []string{"/evalrun/N.gradle"}, report: "gradle-junit", outcome: grading.Resolved},
		{name: "gradle, contradicted", parser: "parse_log_gradle_custom", test: "./gradlew test", tests: []string{"a.BTest > new", "a.BTest > old"}, log: gradleLog,
			files: map[string]string{"/evalrun/N/TEST-begun.xml": `<testsuite/>`},
			want:  "./gradlew test --init-script /evalrun/N.gradle", put: []string{"/evalrun/N.gradle"}, report: "gradle-junit", outcome: grading.Inconsistent, said: "2 tests have passed in the log, 0 in the runner's report"},
		{name: "gradle, without a report", parser: "parse_log_gradle_custom", test: "./gradlew test", tests: []string{"a.BTest > new", "a.BTest > old"}, log: gradleLog,
			want: "./gradlew test --init-script /evalrun/N.gradle", put: []string{"/evalrun/N.gradle"}, outcome: grading.Resolved, said: "wrote none"},
		{name: "gradle, two commands and one report", parser: "parse_log_gradle_custom", test: "gradle check; gradle test", tests: []string{"a.BTest > new", "a.BTest > old"}, log: gradleLog,
			files: map[string]string{"/evalrun/N/TEST-a.BTest.xml": `<testsuite><testcase name="new" classname="a.BTest"/></testsuite>`},
			want:  "gradle check --init-script /evalrun/N.gradle; gradle test --init-script /evalrun/N.gradle", put: []string{"/evalrun/N.gradle", "/evalrun/N.gradle"}, report: "gradle-junit", outcome: grading.Inconsistent, said: "a.BTest > old passed in the log and is not in the runner's report"},
		{name: "gradle, more reports than are read", parser: "parse_log_gradle_custom", test: "gradle test", tests: []string{"a.BTest > new", "a.BTest > old"}, log: gradleLog,
			files: many(5000, "/evalrun/N/TEST-%04d.xml", `<testsuite/>`),
			want:  "gradle test --init-script /evalrun/N.gradle", put: []string{"/evalrun/N.gradle"}, outcome: grading.Resolved, said: "more reports"},
		{name: "gradle, more of a report than is read", parser: "parse_log_gradle_custom", test: "gradle test", tests: []string{"a.BTest > new", "a.BTest > old"}, log: gradleLog,
			files: many(1, "/evalrun/N/TEST-%04d.xml", `<testsuite><system-out>`+strings.Repeat(" ", 64<<20)),
			want:  "gradle test --init-script /evalrun/N.gradle", put: []string{"/evalrun/N.gradle"}, outcome: grading.Resolved, said: "longer than"},
		{name: "gradle, and an engine in trouble", parser: "parse_log_gradle_custom", test: "gradle test", tests: []string{"a.BTest > new", "a.BTest > old"}, log: gradleLog,
			files: map[string]string{"/evalrun/N/TEST-a.BTest.xml": trouble},
			want:  "gradle test --init-script /evalrun/N.gradle", put: []string{"/evalrun/N.gradle"}, outcome: grading.Resolved, said: "the daemon is away"},
		{name: "cargo", parser: "parse_log_cargo", test: "cargo test", tests: []string{"new", "old"}, log: cargoLog, manifests: "/testbed/Cargo.toml:[[bench]]\n/testbed/Cargo.toml:harness = false\n",
			files: map[string]string{"/evalrun/N.txt": "ok new\nok old\nevalrun-end\n"},
			want:  "cargo test -- --logfile /dev/fd/9", report: "cargo-log", outcome: grading.Resolved},
		{name: "cargo, another harness", parser: "parse_log_cargo", test: "cargo test", tests: []string{"new", "old"}, log: cargoLog, manifests: "/testbed/x/Cargo.toml:[[test]]\n/testbed/x/Cargo.toml:harness = false\n",
			want: "cargo test\n", outcome: grading.Resolved, said: "x/Cargo.toml has a test program with harness = false"},
		{name: "cargo, another harness in the patch", parser: "parse_log_cargo", test: "cargo test", tests: []string{"new", "old"}, log: cargoLog, patch: newFile("x/Cargo.toml", "harness = false"),
			want: "cargo test\n", outcome: grading.Resolved, said: "the patch adds a test program with harness = false"},
		{name: "ant", parser: "parse_log_ant", test: "ant test", tests: []string{"new(a.B)", "old(a.B)"}, log: antLog,
			files: map[string]string{"/testbed/build.xml": `<project default="x">`, "/testbed/TEST-a.B.N.xml": `<testsuite><testcase name="new" classname="a.B"/><testcase name="old" classname="a.B"/></testsuite>`},
			want:  "ant test -f /evalrun/N.ant", put: []string{"/evalrun/N.ant"}, report: "ant-junit", outcome: grading.Resolved},
		{name: "ant, no build file", parser: "parse_log_ant", test: "ant test", tests: []string{"new(a.B)", "old(a.B)"}, log: antLog, want: "ant test\n", outcome: grading.Resolved, said: "was not asked"},
		{name: "ant, in another folder", parser: "parse_log_ant", test: "cd x && ant test", tests: []string{"new(a.B)", "old(a.B)"}, log: antLog, files: map[string]string{"/testbed/build.xml": `<project/>`},
			want: "cd x && ant test\n", outcome: grading.Resolved, said: "another folder"},
		{name: "karma", parser: "parse_log_karma", test: "npx karma start", tests: []string{"s > new", "s > old"}, log: "Starting browser\n  s\n    ✔ new\n    ✔ old\n",
			files: map[string]string{"/evalrun/N.json": `{"tests":[["new","passed"],["old","failed"]],"end":true}`},
			want:  "NODE_OPTIONS=--require /evalrun/N.cjs", put: []string{"/evalrun/N.cjs"}, report: "karma-json", outcome: grading.Inconsistent, said: "s > old passed in the log and is FAILED in the runner's report"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newKit(t)
			k.options.Verify = runner.VerifyAll
			k.phases["test.sh"] = prints(tt.log, 0)
			var asked string
			var put []string
			nonce := regexp.MustCompile(`[0-9a-f]{32}`)
			k.fake.OnExec = func(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
				switch cmd.Argv[0] {
				case "grep":
					io.WriteString(cmd.Output, tt.manifests)
					return sandbox.Result{}, nil
				case "find":
					wanted := nonce.FindString(strings.Join(cmd.Argv, " "))
					for _, name := range slices.Sorted(maps.Keys(tt.files)) {
						name = strings.ReplaceAll(name, "N", wanted)
						if ok, _ := path.Match(strings.ReplaceAll(cmd.Argv[4], "*/", ""), path.Base(name)); ok && strings.HasPrefix(name, cmd.Argv[1]+"/") {
							fmt.Fprintln(cmd.Output, name)
						}
					}
					return sandbox.Result{}, nil
				}
				for _, f := range cmd.Files {
					if f.Path == "/evalrun/test.sh" {
						asked, put = nonce.ReplaceAllString(strings.Join(cmd.Env, "\n")+"\n"+string(f.Data), "N"), nil
						for _, f := range cmd.Files[:len(cmd.Files)-1] {
							put = append(put, nonce.ReplaceAllString(f.Path, "N"))
						}
					}
				}
				return k.exec(ctx, box, cmd)
			}
			k.fake.OnRead = func(_ context.Context, _ *sandboxtest.FakeSandbox, name string) ([]byte, error) {
				text, ok := tt.files[nonce.ReplaceAllString(name, "N")]
				if !ok {
					return nil, fs.ErrNotExist
				}
				if text == trouble {
					return nil, &sandbox.EngineError{Op: "read", Err: errors.New(trouble)}
				}
				return []byte(text), nil
			}
			a := k.one(t, job("a", withPatch(goodPatch+tt.patch), withEvaluation(func(e *datasets.Evaluation) { e.LogParser, e.Test = tt.parser, tt.test }), func(j *runner.Job) {
				j.Instance.FailToPass, j.Instance.PassToPass = tt.tests[:1], tt.tests[1:]
			}))
			if !strings.Contains(asked, tt.want) || !slices.Equal(put, tt.put) {
				t.Errorf("asked %q with %q, want %q with %q", asked, put, tt.want, tt.put)
			}
			if a.Outcome != tt.outcome || a.Trust.SecondOpinion == nil || a.Trust.SecondOpinion.Report != tt.report {
				t.Errorf("%s %q, second opinion %+v, want %s with %q", a.Outcome, a.Reason, a.Trust.SecondOpinion, tt.outcome, tt.report)
			}
			if said := fmt.Sprint(a.Trust.Flagged, a.Warnings, a.Reason); !strings.Contains(said, tt.said) {
				t.Errorf("said %s, want %q", said, tt.said)
			}
		})
	}
}

// many are files with the same text.
func many(n int, name, text string) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf(name, i)] = text
	}
	return files
}
