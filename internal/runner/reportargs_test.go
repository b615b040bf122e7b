package runner

import (
	"fmt"
	"testing"

	"github.com/evalrun/evalrun/grading"
)

func TestReportArguments(t *testing.T) {
	for _, tt := range []struct {
		kind         grading.StructuredKind
		script, want string // "" where none is asked for
	}{
		{grading.JestJSON, "npx jest --verbose a.test.js", "npx jest --verbose a.test.js --json --outputFile=R1"},
		{grading.JestJSON, `yarn jest packages/x -t "arrow | x" --verbose`, `yarn jest packages/x -t "arrow | x" --verbose --json --outputFile=R1`},
		{grading.JestJSON, `NODE_OPTIONS="--experimental-vm-modules" ./node_modules/.bin/jest --no-color`, `NODE_OPTIONS="--experimental-vm-modules" ./node_modules/.bin/jest --no-color --json --outputFile=R1`},
		{grading.JestJSON, "npx jest a 2>&1 | tee log", "npx jest a --json --outputFile=R1 2>&1 | tee log"},
		{grading.JestJSON, "cd x\nnpx jest a # one\nnpx jest b; true\n", "cd x\nnpx jest a --json --outputFile=R1 # one\nnpx jest b --json --outputFile=R2; true\n"},
		{grading.JestJSON, "npx jest --json | jq .", ""},
		{grading.JestJSON, "npm test", ""},
		{grading.JestJSON, "npm run jest", ""}, // it is another's name there
		{grading.JestJSON, "cat jest", ""},
		{grading.JestJSON, "npx jest a \\\n  -t b", ""},
		{grading.JestJSON, "npx jest -t 'a\nb'", ""},
		{grading.VitestJSON, "npx vitest run --reporter=verbose a", "npx vitest run --reporter=verbose a --reporter=json --outputFile.json=R1"},
		{grading.VitestJSON, "pnpm exec vitest run a", "pnpm exec vitest run a --reporter=default --reporter=json --outputFile.json=R1"},
		{grading.PHPUnitJUnit, "vendor/bin/phpunit --testdox --colors=never tests/A.php --filter 'custom'", "vendor/bin/phpunit --testdox --colors=never tests/A.php --filter 'custom' --log-junit R1"},
		{grading.RSpecJSON, `X=1 bundle exec rspec a_spec.rb --no-color --format json | tail -n +2 | jq -r '.examples[]'`,
			`X=1 bundle exec rspec a_spec.rb --no-color --format json --format json --out R1 | tail -n +2 | jq -r '.examples[]'`},
		{grading.RSpecJSON, "rspec a_spec.rb", "rspec a_spec.rb --format progress --format json --out R1"},
		{grading.JestJSON, `(yarn jest babel-parser -t "arrow" --verbose) | cat`, `(yarn jest babel-parser -t "arrow" --verbose --json --outputFile=R1) | cat`},
		{grading.JestJSON, "npx jest a && (npx jest b; echo jest) &", "npx jest a --json --outputFile=R1 && (npx jest b --json --outputFile=R2; echo jest) &"},
		{grading.JestJSON, "npx jest a > jest 2>&1 < x &> y", "npx jest a --json --outputFile=R1 > jest 2>&1 < x &> y"},
		{grading.JestJSON, "x=`npx jest a`", "x=`npx jest a --json --outputFile=R1`"},
		{grading.JestJSON, "# npx jest a", ""},
		{grading.CargoLog, "(RUSTFLAGS=-Awarnings cargo test --package x 'f52') | cat", "(RUSTFLAGS=-Awarnings cargo test --package x 'f52' -- --logfile /dev/fd/9 9> >(cat >R1; echo evalrun-end >>R1)) | cat"},
		{grading.CargoLog, "cargo test -- a --exact", "cargo test -- a --exact --logfile /dev/fd/9 9> >(cat >R1; echo evalrun-end >>R1)"},
		{grading.CargoLog, "cargo +1.81 build && cargo +1.81 test", "cargo +1.81 build && cargo +1.81 test -- --logfile /dev/fd/9 9> >(cat >R1; echo evalrun-end >>R1)"},
		{grading.CargoLog, "cargo nextest run", ""},
		{grading.CargoLog, "cargo test --no-run", ""},
		{grading.MavenJUnit, "(mvnd test -B -pl m -Dtest=A#b && ./mvnw test -Dtest=B) | cat", "(mvnd test -B -pl m -Dtest=A#b -Dsurefire.reportNameSuffix=R1 && ./mvnw test -Dtest=B -Dsurefire.reportNameSuffix=R2) | cat"},
		{grading.MavenJUnit, "mvn clean compile", ""},
		{grading.MavenJUnit, "mvn test -Dsurefire.reportNameSuffix=x", ""},
		{grading.MochaJSON, "(timeout 10s npx mocha -R tap a.js -g 'timeout') | cat", "(timeout 10s npx mocha -R tap a.js -g 'timeout' --require R1.cjs) | cat"},
		{grading.MochaJSON, `(npx qunit a.js -f "/json|copy/i") | cat`, ""},
		{grading.GradleJUnit, "./gradlew test --tests a.B -Dtests.seed=3", "./gradlew test --tests a.B -Dtests.seed=3 --init-script R1.gradle"},
		{grading.GradleJUnit, "gradle compileTestJava && gradle :core:check; gradle integrationTest 2>&1", "gradle compileTestJava && gradle :core:check --init-script R1.gradle; gradle integrationTest --init-script R2.gradle 2>&1"},
		{grading.GradleJUnit, "gradle --dry-run test", ""},
		{grading.GradleJUnit, "gradle assemble --tests", ""},
		{grading.AntJUnit, "ant test.compile && ant -q test.instance 2>&1", "ant test.compile -f R1.ant && ant -q test.instance -f R2.ant 2>&1"},
		{grading.AntJUnit, "ant dist", ""},
		{grading.AntJUnit, "ant -f other.xml test", ""},
		{grading.PytestJUnit, "pytest", ""},
	} {
		n := 0
		got, ok := withReports(tt.kind, tt.script, func() string { n++; return fmt.Sprintf("R%d", n) })
		if want := tt.want; ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q\ngives %v %q\nwant  %q", tt.kind, tt.script, ok, got, want)
		}
	}
}

func FuzzReportArguments(f *testing.F) {
	f.Add("npx jest a | tee 'x'\n")
	f.Fuzz(func(t *testing.T, script string) {
		got, ok := withReports(grading.JestJSON, script, func() string { return "R" })
		if !ok && got != script || ok && len(got) <= len(script) {
			t.Errorf("%q gives %v %q", script, ok, got)
		}
	})
}
