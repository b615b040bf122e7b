package grading

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// GradleScript is an initialization script that makes every test task of a build
// write its JUnit reports below a folder, each into one named after the task's
// project. It comes last, whatever the build says of reports, and changes nothing
// where Gradle does not know these names. A report without tests says that it was
// begun: Gradle 4.4 calls a build a success whose tests have left the process.
func GradleScript(folder string) []byte {
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(folder)
	return []byte(`gradle.taskGraph.whenReady { graph ->
  def folder = '` + quoted + `'
  graph.allTasks.findAll { it instanceof org.gradle.api.tasks.testing.Test }.each { task ->
    try {
      def xml = task.reports.junitXml
      def dir = new File(folder + task.project.projectDir.absolutePath + '/' + task.name)
      try {
        xml.required.set(true)
        xml.outputLocation.set(dir)
      } catch (MissingPropertyException older) { // than Gradle 6.1
        xml.enabled = true
        xml.destination = dir
      }
      new File(folder).mkdirs()
      new File(folder, 'TEST-begun.xml').text = '<testsuite/>'
    } catch (Exception e) { }
  }
}
`)
}

// readGradle reads one of Gradle's reports. Each run of a test is an entry of its
// own, so that they can be counted: names that parameters make may be alike.
func readGradle(r io.Reader) (Structured, error) {
	found, runs := Structured{}, map[string]int{}
	err := junitCases(r, func(class, name string, status Status) {
		key := class + " > " + firstLine(name)
		if runs[key]++; runs[key] > 1 {
			found[fmt.Sprintf("%s\n%d", key, runs[key])] = status
			return
		}
		found[key] = status
	})
	return found, err
}

// gradlePlain are names of tests that log and report write alike, but for the
// package. Others are made of what tests and classes are called for people.
var gradlePlain = regexp.MustCompile(`^[\w.$]+ > \w+(?:\(\))?$`)

// crossGradle compares by name where the report knows the class, and else counts. What
// is plain in the log need not be in the report: by their versions, Gradles give one of
// them what a test is called for people. So a name alone is no contradiction where the
// report has as many tests of the class that have passed.
func crossGradle(want Expectation, report Report, cases Structured) []Doubt {
	byName, classes := gradleNames(cases)
	inLog, all := gradlePassed(report)
	var doubts []Doubt
	told := true
	for id := range want.passedIn(report) {
		class, _, _ := strings.Cut(id, " > ")
		passed, known := classes[class]
		switch got, ok := byName[id]; {
		case ok && got != Passed:
			doubts = append(doubts, reportedAs(id, got))
		case !ok && gradlePlain.MatchString(id) && known && inLog[class] > passed:
			doubts = append(doubts, unreported(id))
		case !ok:
			told = false
		}
		if len(doubts) == maxDoubts {
			break
		}
	}
	if told || len(doubts) > 0 {
		return doubts
	}
	return moreThan(cases, all)
}

// gradlePassed counts the tests that have passed in a log, by class and all. Tests print
// lines that end alike; and what runs tests is told of in the same way, if asked for.
func gradlePassed(report Report) (byClass map[string]int, all int) {
	byClass = map[string]int{}
	for name, status := range report.Statuses.All() {
		class, _, ok := strings.Cut(name, " > ")
		if ok && status == Passed && !strings.HasPrefix(class, "Gradle Test Run ") {
			byClass[class]++
			all++
		}
	}
	return byClass, all
}

// gradleNames are the names in a report as logs may have them, with the package and
// without, and how many tests of each class have passed.
func gradleNames(cases Structured) (Structured, map[string]int) {
	byName, classes := Structured{}, map[string]int{}
	for key, status := range cases {
		name, _, _ := strings.Cut(key, "\n")
		class, test, _ := strings.Cut(name, " > ")
		simple := class[strings.LastIndexByte(class, '.')+1:]
		for _, c := range slices.Compact([]string{class, simple}) {
			byName.addRun(c+" > "+test, status)
			if status == Passed {
				classes[c]++
			} else {
				classes[c] += 0 // it is known
			}
		}
	}
	return byName, classes
}
