package runner

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/grading"
)

// asked is a command whose report is asked for by arguments.
type asked struct {
	names []string
	// only is a word that the command must have to run tests; nil is any.
	only *regexp.Regexp
	args func(command, file string) string // "" where the command asks for something that does not go with it
}

var runners = map[grading.StructuredKind]asked{
	grading.JestJSON: {names: []string{"jest"}, args: func(command, file string) string {
		if strings.Contains(command, "--json") || strings.Contains(command, "--outputFile") {
			return ""
		}
		return "--json --outputFile=" + file
	}},
	grading.VitestJSON: {names: []string{"vitest"}, args: func(command, file string) string {
		if strings.Contains(command, "--outputFile") {
			return ""
		}
		if !strings.Contains(command, "--reporter") {
			return "--reporter=default --reporter=json --outputFile.json=" + file
		}
		return "--reporter=json --outputFile.json=" + file
	}},
	grading.PHPUnitJUnit: {names: []string{"phpunit"}, args: func(command, file string) string {
		if strings.Contains(command, "--log-junit") {
			return ""
		}
		return "--log-junit " + file
	}},
	grading.RSpecJSON: {names: []string{"rspec"}, args: func(command, file string) string {
		if !strings.Contains(command, " --format") && !strings.Contains(command, " -f") {
			return "--format progress --format json --out " + file
		}
		return "--format json --out " + file
	}},
	// Each test program opens its log anew: a pipe keeps what the others wrote.
	grading.CargoLog: {names: []string{"cargo"}, only: regexp.MustCompile(`^(?:test|t)$`), args: func(command, file string) string {
		for _, other := range []string{"--logfile", "--no-run", "--list", "--format", "-Z"} {
			if strings.Contains(command, other) {
				return ""
			}
		}
		end := " -- "
		if slices.Contains(strings.Fields(command), "--") {
			end = " "
		}
		return strings.TrimLeft(end+"--logfile /dev/fd/9 9> >(cat >"+file+"; echo "+grading.LogEnd+" >>"+file+")", " ")
	}},
	// The folder cannot be chosen, and what is behind the name of each report can.
	grading.MavenJUnit: {names: []string{"mvn", "mvnd", "mvnw"}, only: regexp.MustCompile(`^(?:test|verify|install|package|integration-test|surefire:test)$`), args: func(command, file string) string {
		if strings.Contains(command, "reportNameSuffix") || strings.Contains(command, "disableXmlReport") {
			return ""
		}
		return "-Dsurefire.reportNameSuffix=" + baseName(file)
	}},
	// A folder of ours is named in a script of ours.
	grading.GradleJUnit: {names: []string{"gradle", "gradlew"}, only: gradleTests, args: func(command, file string) string {
		if words := strings.Fields(command); slices.Contains(words, "-m") || slices.Contains(words, "--dry-run") {
			return ""
		}
		return "--init-script " + companion(file, ".gradle")
	}},
	// A build file of ours stands before the project's.
	grading.AntJUnit: {names: []string{"ant"}, only: antTests, args: func(command, file string) string {
		for _, other := range []string{"-f", "-file", "-buildfile", "-s", "-find", "-p", "-projecthelp"} {
			if slices.Contains(strings.Fields(command), other) {
				return ""
			}
		}
		return "-f " + companion(file, ".ant")
	}},
	grading.MochaJSON: {names: []string{"mocha", "_mocha"}, args: func(_, file string) string { return "--require " + companion(file, ".cjs") }},
}

// baseName is a report's name without folder and ending.
func baseName(file string) string { return strings.TrimSuffix(path.Base(file), path.Ext(file)) }

// companion is a file of ours beside a report, that makes the runner write it.
func companion(file, ext string) string { return strings.TrimSuffix(file, path.Ext(file)) + ext }

// gradleTests are tasks that run tests, of whatever project.
var gradleTests = regexp.MustCompile(`^:?(?:[\w.-]+:)*(?:test|check|build|\w+Tests?)$`)

// antTests are targets that may run tests.
var antTests = regexp.MustCompile(`^[\w.:]*(?i:test|check)[\w.:-]*$`)

// carriers are commands that run the one behind them, with its arguments.
var carriers = []string{"npx", "yarn", "pnpm", "bundle", "exec", "xvfb-run", "php", "node", "time", "env", "timeout", "nice"}

// carried are words that stand between some carriers and what they run.
var carried = regexp.MustCompile(`^(?:-\S+|[0-9.]+[smhd]?)$`)

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// withReports adds to each command of a script that runs the runner what makes it
// write a report to a new file. False means that there is none for which it is
// certain where its arguments end.
func withReports(kind grading.StructuredKind, script string, file func() string) (string, bool) {
	r, ok := runners[kind]
	if !ok {
		return script, false
	}
	lines := strings.Split(script, "\n")
	found := false
	for i, line := range lines {
		if i > 0 && strings.HasSuffix(lines[i-1], "\\") {
			continue
		}
		var b strings.Builder
		done := 0
		for _, c := range commands(line) {
			command := strings.TrimRight(line[c.start:c.end], " \t")
			if !r.runs(command) {
				continue
			}
			if strings.HasSuffix(command, "\\") || r.args(command, "") == "" {
				return script, false
			}
			end := c.start + len(command)
			b.WriteString(line[done:end] + " " + r.args(command, file()))
			done, found = end, true
		}
		lines[i] = b.String() + line[done:]
	}
	return strings.Join(lines, "\n"), found
}

// runs reports whether a simple command runs the runner, itself or through carriers.
func (r asked) runs(command string) bool {
	words, by := strings.Fields(command), ""
	for i, word := range words {
		switch name := path.Base(word); {
		case slices.Contains(r.names, name):
			return r.only == nil || slices.ContainsFunc(words[i+1:], r.only.MatchString)
		case assignment.MatchString(word):
		case slices.Contains(carriers, word):
			by = word
		case slices.Contains([]string{"timeout", "nice", "xvfb-run", "time"}, by) && carried.MatchString(word):
		default:
			return false
		}
	}
	return false
}

// span is a part of a line.
type span struct{ start, end int }

// commands are the simple commands of a line, each up to the redirections behind it;
// none where quotes do not end on the line.
func commands(line string) []span {
	var all []span
	quote := byte(0)
	start, end := 0, -1 // of the command being read; its end, once something is redirected
	next := func(i int) {
		if end < 0 {
			end = i
		}
		all, start, end = append(all, span{start, end}), i+1, -1
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quote != '\'':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#' && (i == 0 || line[i-1] == ' '):
			next(i)
			return all
		case c == '<' || c == '>' || c == '&' && i+1 < len(line) && line[i+1] == '>':
			if end < 0 {
				if end = i; i > start && line[i-1] >= '0' && line[i-1] <= '9' {
					end-- // the number of what is redirected
				}
			}
			for i+1 < len(line) && strings.IndexByte("<>&|", line[i+1]) >= 0 {
				i++
			}
		case strings.IndexByte("|;&()`", c) >= 0:
			next(i)
		}
	}
	if quote != 0 {
		return nil
	}
	next(len(line))
	return all
}
