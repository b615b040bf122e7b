package instance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// steps runs a script of the layer with /opt/evalrun in a folder of the test.
func (b *testbed) steps(opt, functions, script string) (string, error) {
	b.t.Helper()
	script = strings.NewReplacer("/opt/evalrun", opt, "cd /testbed", "cd "+b.dir, "/tmp/", opt+"/").Replace(script)
	env := []string{"BASE=" + b.base, "PATH=" + opt + ":" + os.Getenv("PATH")}
	return run(b.t, b.dir, env, "bash", "-c", "set -euo pipefail\n"+functions+script)
}

// A build step that fails is no hindrance where the tests pass without it, and
// fails the image where they do not.
func TestFailedBuild(t *testing.T) {
	const failing = "echo compiled\nfalse\necho and on\n"
	for _, tt := range []struct {
		name, build, tests string
		refused            bool
		output, deviation  string
	}{
		{name: "it succeeds", build: "echo compiled\n", tests: "exit 1\n", output: "compiled"},
		{name: "the tests pass without it", build: failing, tests: "true\n", output: "compiled", deviation: "a build step failed with exit code 1 while"},
		{name: "the tests fail", build: failing, tests: "echo no module\nexit 4\n", refused: true, output: "no module"},
		{name: "a pipe of the tests fails", build: failing, tests: "false | cat\n", refused: true, output: "exit with 1"},
		{name: "the build leaves the shell", build: "exit 7\n", tests: "true\n", deviation: "with exit code 7 while"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, opt := newTestbed(t), t.TempDir()
			out, err := b.steps(opt, "steps() {\n"+tt.build+"}\n", build)
			if err != nil {
				t.Fatalf("the build step: %v\n%s", err, out)
			}
			if strings.Contains(out, "and on") {
				t.Errorf("the build went on after its failure:\n%s", out)
			}
			after, err := b.steps(opt, "tests() {\n"+tt.tests+"}\n", unbuilt)
			if refused := err != nil; refused != tt.refused {
				t.Errorf("refused: %v, want %v\n%s", err, tt.refused, after)
			}
			if !strings.Contains(out+"\n"+after, tt.output) {
				t.Errorf("output lacks %q:\n%s\n%s", tt.output, out, after)
			}
			if tt.refused && !strings.Contains(after, "compiled") {
				t.Errorf("the end of the build is not shown:\n%s", after)
			}
			noted, _ := os.ReadFile(filepath.Join(opt, "deviations.txt"))
			if !strings.Contains(string(noted), tt.deviation) || tt.deviation == "" && len(noted) > 0 {
				t.Errorf("noted %q, want %q", noted, tt.deviation)
			}
		})
	}
}

// The first test run may write into the checkout; what the install step wrote
// there, a lock file say, is what the tests are to find.
func TestWarmupLeavesWhatWasInstalled(t *testing.T) {
	for _, installed := range []string{"", "pinned\n", "pinned\x00\n"} {
		b := newTestbed(t)
		b.write("lock", "old\n")
		b.git("add", "-A")
		b.git("commit", "-q", "-m", "lock")
		b.base = b.git("rev-parse", "HEAD")
		want := "old\n"
		if installed != "" {
			b.write("lock", installed)
			want = installed
		}
		out, err := b.steps(t.TempDir(), "warmup() {\necho newer > lock\necho 3 > a.txt\ncd /\nexit 1\n}\n", warmup)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for name, want := range map[string]string{"lock": want, "a.txt": "2\n"} {
			got, err := os.ReadFile(filepath.Join(b.dir, name))
			if err != nil || string(got) != want {
				t.Errorf("installed %q: %s is %q, want %q (%v)", installed, name, got, want, err)
			}
		}
	}
}

// Maven fetches what runs tests when it has one to run; a hidden test is none yet.
func TestWarmupOfHiddenTests(t *testing.T) {
	for _, tt := range []struct {
		name, commands string
		want           []string
	}{
		{name: "hidden", commands: "mvnd test -B -pl core -Dtest=HiddenTest#a\nmvnd test -B -pl core -Dtest=HiddenTest#b\n", want: []string{
			"mvnd test -B -pl core -Dtest=HiddenTest#a", "mvnd test -B -pl core -Dtest=FirstTest"}},
		{name: "two modules", commands: "mvn test -pl core -Dtest=FirstTest\nmvn test -pl web -Dtest=WebTest\n", want: []string{
			"mvn test -pl core -Dtest=FirstTest", "mvn test -pl web -Dtest=WebTest"}},
		{name: "there already", commands: "mvn test -Dtest=FirstTest\n", want: []string{"mvn test -Dtest=FirstTest"}},
		{name: "no test to take instead", commands: "mvn test -Dtest=HiddenTest -pl web\ntrue\n", want: []string{"mvn test -Dtest=HiddenTest -pl web"}},
		{name: "whole project", commands: "mvn test -Dtest=HiddenTest\n", want: []string{"mvn test -Dtest=HiddenTest", "mvn test -Dtest=FirstTest"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, opt := newTestbed(t), t.TempDir()
			b.write("core/src/test/java/a/AbstractHelperTest.java", "abstract class AbstractHelperTest {}")
			b.write("core/src/test/java/a/FirstTest.java", "class FirstTest { @Test void a() {} }")
			b.write("core/src/test/java/b/SecondTest.java", "class SecondTest extends TestCase {}")
			b.write("web/src/main/java/a/Main.java", "@Test")
			for _, tool := range []string{"mvn", "mvnd"} {
				script := "#!/bin/sh\necho \"$(basename $0) $*\" >> " + opt + "/calls\ncase $* in *Hidden*) exit 1 ;; esac\n"
				if err := os.WriteFile(filepath.Join(opt, tool), []byte(script), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := b.steps(opt, "warmup() {\n"+tt.commands+"}\n", warmup); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			calls, err := os.ReadFile(filepath.Join(opt, "calls"))
			if got := strings.Split(strings.TrimSpace(string(calls)), "\n"); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("calls %q, want %q (%v)", got, tt.want, err)
			}
		})
	}
}
