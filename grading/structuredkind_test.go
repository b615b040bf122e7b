package grading

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading/logparse"
)

const (
	jestReport = `{"numTotalTests":3,"success":false,"testResults":[{"assertionResults":[
{"ancestorTitles":["outer"],"failureMessages":[],"fullName":"outer adds things","location":null,"status":"passed","title":"adds things"},
{"ancestorTitles":["outer"],"fullName":"outer later","status":"pending","title":"later"},
{"ancestorTitles":["outer","in"],"failureMessages":["Error"],"fullName":"outer in fails\nhere","status":"failed","title":"fails\nhere"},
{"ancestorTitles":["other"],"status":"failed","title":"adds things"}],
"endTime":1,"message":"","name":"/testbed/a.test.js","status":"failed","summary":""}],"wasInterrupted":false}`
	vitestReport = `{"numTotalTestSuites":3,"success":false,"testResults":[{"assertionResults":[
{"ancestorTitles":["","outer"],"fullName":" outer adds","status":"passed","title":"adds","duration":1,"failureMessages":[]},
{"ancestorTitles":["","outer"],"status":"skipped","title":"later","failureMessages":[]},
{"ancestorTitles":["outer","in"],"status":"failed","title":"fails","location":{"line":2,"column":149}},
{"ancestorTitles":[""],"status":"passed","title":"top"}],"startTime":1,"endTime":2,"status":"failed","message":"","name":"/testbed/v.spec.js"}]}`
	rspecReport = `{"version":"3.13.0","examples":[
{"id":"./spec/a_spec.rb[1:1]","description":"adds","full_description":"A adds","status":"passed","file_path":"./spec/a_spec.rb","line_number":3,"run_time":0.1,"pending_message":null},
{"id":"./spec/a_spec.rb[1:2]","description":"adds","full_description":"A b adds","status":"failed","exception":{"class":"E","message":"m","backtrace":null}},
{"id":"./spec/a_spec.rb[1:3]","description":"later","status":"pending"}],
"summary":{"duration":0.1,"example_count":3,"failure_count":1,"pending_count":1,"errors_outside_of_examples_count":0},"summary_line":"3 examples, 1 failure, 1 pending"}`
	phpunitReport = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="" tests="2" assertions="2" errors="0" warnings="0" failures="1" skipped="0" time="0.01">
<testsuite name="App\\Tests\\CalcTest" file="/testbed/tests/CalcTest.php" tests="2">
<testcase name="testAdds" class="App\\Tests\\CalcTest" classname="App.Tests.CalcTest" file="/testbed/tests/CalcTest.php" line="9" assertions="1" time="0.001"/>
<testcase name="testFails with data set &quot;a&quot;" class="App\\Tests\\CalcTest" classname="App.Tests.CalcTest" line="14"><failure type="E">no</failure></testcase>
</testsuite></testsuite></testsuites>`
	// A class with a name for people, and two methods with parameters alike.
	gradlePeople     = `<testsuite name="demo.CalcTest"><testcase name="1 + 1 = 2" classname="demo.CalcTest"/><testcase name="never" classname="demo.CalcTest"/></testsuite>`
	gradleParameters = `<testsuite name="Sums"><testcase name="[1] 1" classname="demo.SumTest"/><testcase name="[1] 1" classname="demo.SumTest"/></testsuite>`
)

func TestReadStructured(t *testing.T) {
	for _, tt := range []struct {
		kind StructuredKind
		text string
		want Structured
	}{
		{JestJSON, jestReport, Structured{"adds things": Passed, "later": Skipped, "fails": Failed}},
		{VitestJSON, vitestReport, Structured{"outer > adds": Passed, "outer > later": Skipped, "outer > in > fails": Failed, "top": Passed}},
		{RSpecJSON, rspecReport, Structured{"./spec/a_spec.rb[1:1] 0": Passed, "./spec/a_spec.rb[1:2] 1": Failed, "./spec/a_spec.rb[1:3] 2": Skipped}},
		{PHPUnitJUnit, phpunitReport, Structured{"App.Tests.CalcTest::testAdds": Passed, `App.Tests.CalcTest::testFails with data set "a"`: Failed}},
	} {
		got, err := ReadStructured(tt.kind, strings.NewReader(tt.text))
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.kind, err, diff)
		}
		if _, err := ReadStructured(tt.kind, strings.NewReader(tt.text[:len(tt.text)-20])); err == nil {
			t.Errorf("%s: cut short, and no error", tt.kind)
		}
		if _, err := ReadStructured(tt.kind, strings.NewReader(strings.Repeat("[", 20000))); err == nil {
			t.Errorf("%s: nested, and no error", tt.kind)
		}
	}
	if _, err := ReadStructured(NoStructured, strings.NewReader("{}")); err == nil {
		t.Error("no kind, and no error")
	}
}

// Logs as the runners write them beside these reports, with the lines of somebody
// else and without.
func TestCrossCheckKinds(t *testing.T) {
	for _, tt := range []struct {
		kind         StructuredKind
		parser, text string
		log          string
		ids          []string
		want         []string
	}{
		{JestJSON, "parse_log_jest", jestReport, "    ✓ adds things (9 ms)\n", []string{"adds things"}, nil},
		{JestJSON, "parse_log_jest", jestReport, "    ✓ adds things (9 ms)\n    ✓ fails\n    ✓ new (1 ms)\n", []string{"adds things", "fails", "new"},
			[]string{"fails passed in the log and is FAILED in the runner's report", "new passed in the log and is not in the runner's report"}},
		{VitestJSON, "parse_log_vitest", vitestReport, " ✓ v.spec.js > outer > adds 3ms\n ✓ v.spec.js (3)\n", []string{"v.spec.js > outer > adds", "v.spec.js (3)"}, nil},
		{VitestJSON, "parse_log_vitest", vitestReport, " ✓ v.spec.js > outer > in > fails\n", []string{"v.spec.js > outer > in > fails"},
			[]string{"v.spec.js > outer > in > fails passed in the log and is FAILED in the runner's report"}},
		{RSpecJSON, "parse_log_rspec_transformed_json", rspecReport, "adds - ./spec/a_spec.rb[1:1] - passed\n", []string{"adds - ./spec/a_spec.rb[1:1]"}, nil},
		{RSpecJSON, "parse_log_rspec_transformed_json", rspecReport, "adds - 1 - passed\nadds - 2 - passed\n", []string{"adds - 1", "adds - 2"},
			[]string{"2 tests have passed in the log, 1 in the runner's report"}},
		{PHPUnitJUnit, "parse_log_phpunit", phpunitReport, "Calc (App\\Tests\\Calc)\n ✔ Adds\n", []string{"Calc > Adds"}, nil},
		{PHPUnitJUnit, "parse_log_phpunit", phpunitReport, "Calc (App\\Tests\\Calc)\n ✔ Adds\n ✔ Fails with data set \"a\"\n", []string{"Calc > Adds"},
			[]string{"2 tests have passed in the log, 1 in the runner's report"}},
		{CargoLog, "parse_log_cargo", sample(t, "cargo-1.95.txt"), "test tests::adds ... ok\ntest result: ok. 1 passed; 0 failed;\n", []string{"tests::adds"}, nil},
		{CargoLog, "parse_log_cargo", sample(t, "cargo-1.95.txt"), "test tests::fails ... ok\ntest forged ... ok\n", []string{"tests::fails", "forged"},
			[]string{"tests::fails passed in the log and is FAILED in the runner's report", "forged passed in the log and is not in the runner's report"}},
		{MavenJUnit, "parse_log_maven", sample(t, "surefire-2.12.4.xml"), "+ mvn test -Dtest=demo.OldTest#old\nBUILD SUCCESS\n+ mvn test -Dtest=OldTest\nBUILD SUCCESS\n+ mvn test -Dtest=Old*\nBUILD SUCCESS\n", []string{"demo.OldTest#old", "OldTest", "Old*"}, nil},
		{MavenJUnit, "parse_log_maven", sample(t, "surefire-3.2.5.xml"), "+ mvn test -Dtest=SumTest#later\nBUILD SUCCESS\n+ mvn test -Dtest=demo.SumTest#none\nBUILD SUCCESS\n", []string{"SumTest#later", "demo.SumTest#none"},
			[]string{"SumTest#later passed in the log and is SKIPPED in the runner's report", "demo.SumTest#none passed in the log and is not in the runner's report"}},
		{GradleJUnit, "parse_log_gradle_custom", sample(t, "gradle-4.4.1.xml"), "demo.SumTest > adds PASSED\nSumTest > adds PASSED\n", []string{"demo.SumTest > adds", "SumTest > adds"}, nil},
		{GradleJUnit, "parse_log_gradle_custom", sample(t, "gradle-4.4.1.xml"), "demo.SumTest > fails PASSED\nSumTest > later PASSED\ndemo.SumTest > forged PASSED\n", []string{"demo.SumTest > fails", "SumTest > later", "demo.SumTest > forged"},
			[]string{"demo.SumTest > fails passed in the log and is FAILED in the runner's report", "SumTest > later passed in the log and is SKIPPED in the runner's report",
				"demo.SumTest > forged passed in the log and is not in the runner's report"}},
		{GradleJUnit, "parse_log_gradle_custom", "<testsuite/>", "demo.SumTest > adds PASSED\n", []string{"demo.SumTest > adds"},
			[]string{"1 tests have passed in the log, 0 in the runner's report"}},
		{GradleJUnit, "parse_log_gradle_custom", gradleParameters, "Sums > adds(int) > [1] 1 PASSED\nSums > takes(int) > [1] 1 PASSED\n    done > well PASSED\n", []string{"Sums > adds(int) > [1] 1"},
			[]string{"3 tests have passed in the log, 2 in the runner's report"}},
		{GradleJUnit, "parse_log_gradle_custom", gradleParameters, "Sums > adds(int) > [1] 1 PASSED\nSums > takes(int) > [1] 1 PASSED\nall PASSED\n", []string{"Sums > adds(int) > [1] 1", "Sums > takes(int) > [1] 1"}, nil},
		// Where a method has a name for people, some Gradles have that in one of the two.
		{GradleJUnit, "parse_log_gradle_custom", gradlePeople, "demo.CalcTest > addsTwo() PASSED\ndemo.CalcTest > never() PASSED\n", []string{"demo.CalcTest > addsTwo()"}, nil},
		{GradleJUnit, "parse_log_gradle_custom", gradlePeople, "Gradle Test Run :test > Gradle Test Executor 1 PASSED\nCalcTest > works PASSED\n", []string{"CalcTest > works"}, nil},
		{GradleJUnit, "parse_log_gradle_custom", gradlePeople, "CalcTest > a PASSED\nCalcTest > b PASSED\nCalcTest > c PASSED\n", []string{"CalcTest > c"},
			[]string{"CalcTest > c passed in the log and is not in the runner's report"}},
		{AntJUnit, "parse_log_ant", sample(t, "ant-1.10.13.xml"), "    [junit] [PASS] adds(demo.SumTest)\n", []string{"adds(demo.SumTest)"}, nil},
		{AntJUnit, "parse_log_ant", sample(t, "ant-1.10.13.xml"), "    [junit] [PASS] fails(demo.SumTest)\n    [junit] [PASS] new(demo.SumTest)\n", []string{"fails(demo.SumTest)", "new(demo.SumTest)"},
			[]string{"fails(demo.SumTest) passed in the log and is FAILED in the runner's report", "new(demo.SumTest) passed in the log and is not in the runner's report"}},
		{KarmaJSON, "parse_log_karma", sample(t, "karma-6.4.4.json"), "Starting browser jsdom\n  sum\n    ✔ adds\n    in\n      ✔ deep > er\n", []string{"sum > adds", "sum > in > deep > er"}, nil},
		{KarmaJSON, "parse_log_karma", sample(t, "karma-6.4.4.json"), "Starting browser jsdom\n  sum\n    ✔ fails\n    ✔ forged\n", []string{"sum > fails", "sum > forged"},
			[]string{"sum > fails passed in the log and is FAILED in the runner's report", "sum > forged passed in the log and is not in the runner's report"}},
		{MochaJSON, "parse_log_tap", sample(t, "mocha-10.8.json"), "ok 1 second\nok 2 sum adds 1\nok 4 sum later # SKIP -\n", []string{"second", "sum adds 1", "sum later # SKIP -"}, nil},
		{MochaJSON, "parse_log_tap", sample(t, "mocha-10.8.json"), "ok 1 sum fails\nok 2 forged\n", []string{"sum fails", "forged"},
			[]string{"sum fails passed in the log and is FAILED in the runner's report", "forged passed in the log and is not in the runner's report"}},
	} {
		want := Expectation{FailToPass: tt.ids}
		report := FromRegion(DefaultRules, tt.log, 0, tt.parser, logparse.Context{}, want)
		if !report.Resolved {
			t.Errorf("%s: %q is not resolved: %s", tt.kind, tt.log, report.Reason)
		}
		cases, err := ReadStructured(tt.kind, strings.NewReader(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range CrossCheckStructured(tt.kind, want, report, cases) {
			got = append(got, d.Detail)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s, log %q (-want +got):\n%s", tt.kind, tt.log, diff)
		}
	}
}

func TestStructuredOf(t *testing.T) {
	for _, tt := range []struct {
		parser, repo string
		want         StructuredKind
	}{
		{"parse_log_pytest_v2", "a/b", PytestJUnit},
		{"parse_log_pytest", "pytest-dev/pytest", NoStructured},
		{"parse_log_gotest", "a/b", GoJSON},
		{"parse_log_phpunit", "a/b", PHPUnitJUnit},
		{"parse_log_cargo", "a/b", CargoLog},
		{"parse_log_maven", "a/b", MavenJUnit},
		{"parse_log_ant", "a/b", AntJUnit},
		{"parse_log_karma", "a/b", KarmaJSON},
		{"parse_log_tap", "a/b", MochaJSON},
		{"parse_log_gradle_custom", "a/b", GradleJUnit},
		{"parse_log_jest_json", "a/b", NoStructured}, // its command prints the report itself
	} {
		if got := StructuredOf(tt.parser, tt.repo); got != tt.want {
			t.Errorf("StructuredOf(%s, %s) = %q, want %q", tt.parser, tt.repo, got, tt.want)
		}
	}
}

// sample is a report that a runner wrote, of the version in its name.
func sample(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "structured", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReadSamples(t *testing.T) {
	both := func(in map[string]Status) Structured {
		out := Structured{}
		for name, status := range in {
			out[name], out["demo."+name] = status, status
		}
		return out
	}
	sum := map[string]Status{
		"SumTest": Failed, "SumTest#adds": Passed, "SumTest#many": Passed, "SumTest#again": Passed, "SumTest#fails": Failed, "SumTest#later": Skipped, "SumTest#deep": Passed,
		"SumTest$Inner": Passed, "SumTest$Inner#deep": Passed,
	}
	for _, tt := range []struct {
		kind StructuredKind
		file string
		want Structured
	}{
		{CargoLog, "cargo-1.95.txt", Structured{"tests::adds": Passed, "tests::later": Skipped, "tests::panics": Passed, "tests::fails": Failed, "outer": Passed, "quits": Passed, "src/lib.rs - add (line 3)": Passed}},
		{MavenJUnit, "surefire-2.12.4.xml", both(map[string]Status{"OldTest": Passed, "OldTest#old": Passed, "OldTest#old2": Passed})},
		{MavenJUnit, "surefire-2.22.2.xml", both(sum)},
		{MavenJUnit, "surefire-3.2.5.xml", both(sum)},
		{GradleJUnit, "gradle-4.4.1.xml", Structured{"demo.SumTest > adds": Passed, "demo.SumTest > fails": Failed, "demo.SumTest > later": Skipped, "demo.SumTest > assumed": Skipped}},
		{AntJUnit, "ant-1.10.13.xml", Structured{"demo.SumTest::adds": Passed, "demo.SumTest::fails": Failed, "demo.SumTest::later": Skipped}},
		{KarmaJSON, "karma-6.4.4.json", Structured{"adds": Passed, "fails": Failed, "later": Skipped, "deep > er": Passed}},
		{MochaJSON, "mocha-10.8.json", Structured{"second": Passed, "sum adds 1": Passed, "sum fails": Failed, "sum later": Skipped, "sum pending too": Skipped, `sum hooks "before all" hook for "never runs"`: Failed}},
	} {
		text := sample(t, tt.file)
		got, err := ReadStructured(tt.kind, strings.NewReader(text))
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.file, err, diff)
		}
		if _, err := ReadStructured(tt.kind, strings.NewReader(text[:len(text)-20])); err == nil {
			t.Errorf("%s: cut short, and no error", tt.file)
		}
		if _, err := ReadStructured(tt.kind, strings.NewReader(strings.Repeat("[", 2<<20))); err == nil {
			t.Errorf("%s: nested, and no error", tt.file)
		}
	}
}

// TestMochaListener lets the module listen to something that looks as mocha does to
// those it loads: no mocha is needed for that.
func TestMochaListener(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	report := filepath.Join(dir, "report.json")
	for name, text := range map[string]string{
		"mocha/lib/runner.js": `const E = require('events'); module.exports = class extends E { run() {
			const test = n => ({ fullTitle: () => n });
			this.emit('pass', test('a b')); this.emit('fail', test('c'), new Error('x')); this.emit('pending', test('d')); if (!process.env.QUIT) this.emit('end'); return 'ran' } };`,
		"mocha/bin.js": `const R = require('./lib/runner.js'); require(process.argv[2]); if (new R().run(() => 0) !== 'ran') process.exit(9);`,
		"listener.cjs": string(MochaListener(report)),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(env string) (Structured, error) {
		c := exec.Command(node, filepath.Join(dir, "mocha/bin.js"), filepath.Join(dir, "listener.cjs"))
		c.Env = append(os.Environ(), env)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		text, err := os.ReadFile(report)
		if err != nil {
			t.Fatal(err)
		}
		return ReadStructured(MochaJSON, strings.NewReader(string(text)))
	}
	got, err := run("QUIT=")
	if diff := cmp.Diff(Structured{"a b": Passed, "c": Failed, "d": Skipped}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := run("QUIT=1"); err == nil || len(got) > 0 {
		t.Errorf("mocha has not come to its end: %v", got)
	}
}

// TestKarmaListener lets karma's events be told in a process that loaded the module.
func TestKarmaListener(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	report := filepath.Join(dir, "report.json")
	if err := os.WriteFile(filepath.Join(dir, "listener.cjs"), KarmaListener(report), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(script string) (Structured, error) {
		c := exec.Command(node, "-e", "const server = new (require('events'))(), spec = r => server.emit('spec_complete', {}, r);"+script)
		c.Env = append(os.Environ(), "NODE_OPTIONS=--require "+filepath.Join(dir, "listener.cjs"))
		if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v: %s", err, out)
		}
		text, err := os.ReadFile(report)
		if err != nil {
			return nil, err
		}
		return ReadStructured(KarmaJSON, strings.NewReader(string(text)))
	}
	if _, err := run(`server.on('x', process.exit); server.emit('run_complete'); server.emit('x', 0)`); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a process without tests writes: %v", err)
	}
	const specs = `spec({ description: 'a', success: true }); spec({ description: 'b' }); spec({ description: 'c', success: true, skipped: true });`
	got, err := run(specs + `server.emit('run_complete')`)
	if diff := cmp.Diff(Structured{"a": Passed, "b": Failed, "c": Skipped}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := run(specs); err == nil || len(got) > 0 {
		t.Errorf("karma has not come to its end: %v", got)
	}
}

func FuzzReadStructured(f *testing.F) {
	kinds := []StructuredKind{JestJSON, VitestJSON, RSpecJSON, PHPUnitJUnit, CargoLog, MavenJUnit, MochaJSON, GradleJUnit, KarmaJSON}
	for i, text := range []string{jestReport, vitestReport, rspecReport, phpunitReport, sample(f, "cargo-1.95.txt"), sample(f, "surefire-2.22.2.xml"), sample(f, "mocha-10.8.json"), sample(f, "gradle-4.4.1.xml"), sample(f, "karma-6.4.4.json")} {
		f.Add(i, text)
	}
	f.Fuzz(func(t *testing.T, i int, text string) {
		cases, err := ReadStructured(kinds[uint(i)%uint(len(kinds))], strings.NewReader(text))
		for name, status := range cases {
			if status == "" {
				t.Fatalf("%q has no status, error %v", name, err)
			}
		}
	})
}
