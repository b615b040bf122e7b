package swebench

import (
	"regexp"
	"strings"

	"github.com/evalrun/evalrun/datasets"
)

// Files of a test patch that are no tests: not given to the test command.
// ("csv" has no dot in the official list either.)
var nonTestExtensions = []string{".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml"}

// The official pattern, which also finds such a line inside a hunk.
var directivePath = regexp.MustCompile(`diff --git a/.* b/(.*)`)

// Directives lists what the tests of a classic Python instance are called on
// the command line: the files its test patch touches or, for Django, their
// modules.
func Directives(inst *datasets.Instance) []string {
	repo := strings.ToLower(inst.Repo)
	if repo == "swe-bench/humaneval" {
		return []string{"test.py"}
	}
	var directives []string
	for _, m := range directivePath.FindAllStringSubmatch(inst.TestPatch, -1) {
		path := m[1]
		if hasAnySuffix(path, nonTestExtensions) {
			continue
		}
		if repo == "django/django" {
			path = strings.TrimPrefix(strings.TrimSuffix(path, ".py"), "tests/")
			path = strings.ReplaceAll(path, "/", ".")
		}
		directives = append(directives, path)
	}
	return directives
}

func hasAnySuffix(s string, suffixes []string) bool {
	for _, x := range suffixes {
		if strings.HasSuffix(s, x) {
			return true
		}
	}
	return false
}

// TestCommand returns the commands that run an instance's tests according to
// the facts, in order; nil if the facts do not know the instance.
func TestCommand(inst *datasets.Instance) []string {
	repo, spec, err := lookup(inst.Repo, inst.Version)
	if err != nil || spec == nil {
		return nil
	}
	return testCommand(inst, repo, spec)
}

func testCommand(inst *datasets.Instance, repo *repository, spec *spec) []string {
	if len(spec.Test) == 0 {
		return nil
	}
	if repo.language == "py" {
		command := spec.Test[0]
		for _, d := range Directives(inst) {
			command += " " + shellQuote(d)
		}
		return []string{command}
	}
	if strings.EqualFold(inst.Repo, "Automattic/wp-calypso") {
		if commands := calypsoCommands(inst); len(commands) > 0 {
			return commands
		}
	}
	return spec.Test
}

// From this Node version on wp-calypso's jest configurations are JavaScript;
// before they were JSON, and before calypsoJest there were none per package.
var (
	calypsoJest   = []int{6, 11, 5}
	calypsoModule = []int{10, 10, 0}
)

var jestSnapshot = regexp.MustCompile(`/__snapshots__/[^/]*\.js\.snap$`)

// calypsoCommands runs jest once for each test file of wp-calypso, and for a
// snapshot on the folder of its tests.
func calypsoCommands(inst *datasets.Instance) []string {
	version := versionNumbers(inst.Version)
	if compareNumbers(version, calypsoJest) < 0 {
		return nil
	}
	config := "json"
	if compareNumbers(version, calypsoModule) >= 0 {
		config = "js"
	}
	var commands []string
	for _, f := range patchedFiles(inst.TestPatch) {
		path := f.new
		if path == "" {
			path = f.old
		}
		path = jestSnapshot.ReplaceAllString(path, "")
		pkg, _, _ := strings.Cut(path, "/")
		if pkg != "client" && pkg != "packages" {
			continue
		}
		commands = append(commands, "./node_modules/.bin/jest --verbose -c=test/"+pkg+"/jest.config."+config+" '"+path+"'")
	}
	return commands
}

func versionNumbers(version string) []int {
	var numbers []int
	for _, field := range strings.Split(version, ".") {
		n := 0
		for _, c := range field {
			if c < '0' || c > '9' || n > 1<<20 {
				return numbers
			}
			n = n*10 + int(c-'0')
		}
		numbers = append(numbers, n)
	}
	return numbers
}

func compareNumbers(a, b []int) int {
	for i := range max(len(a), len(b)) {
		var x, y int
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return x - y
		}
	}
	return 0
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./@%+=:,^~-]+$`)

// shellQuote writes a word so that bash reads it back as it is. Plain words
// stay bare, as the official scripts have them.
func shellQuote(word string) string {
	if plainWord.MatchString(word) && !strings.HasPrefix(word, "~") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// ImageName is the name the official harness gives an instance's image. On a
// registry (with a namespace) "__" is written "_1776_", because Docker Hub does
// not allow it; the official replacement covers namespace and tag too.
func ImageName(inst *datasets.Instance, namespace, tag string) string {
	if tag == "" {
		tag = "latest"
	}
	name := "sweb.eval.x86_64." + strings.ToLower(inst.ID) + ":" + tag
	if namespace == "" {
		return name
	}
	return strings.ReplaceAll(namespace+"/"+name, "__", "_1776_")
}

// Capabilities lists the capabilities an instance's tests need beyond none,
// without the prefix CAP_: browsers want SYS_ADMIN for their own sandbox.
func Capabilities(inst *datasets.Instance) []string {
	_, spec, err := lookup(inst.Repo, inst.Version)
	if err != nil || spec == nil {
		return nil
	}
	return spec.CapAdd
}
