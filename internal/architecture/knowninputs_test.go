package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// knownInputs are the numbers of the public reports.
const knownInputs = "1 2 4 5 7 8 10 11 13 14 16 17 19 20 22 23 25 26 28 29 31 32 34 35 37 38 40 41 43 44 46 47 49 50 52 53 55 56 58 59 61 62 64 65"

var (
	knownRow  = regexp.MustCompile(`(?m)^\| (\d+) \| .* \| ([^|]*) \|$`)
	testNames = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+|[a-z][a-z/]*)`")
)

// TestKnownInputs: docs/known-inputs.md has every report, and every test it names
// exists in the package it names.
func TestKnownInputs(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "known-inputs.md"))
	if err != nil {
		t.Fatal(err)
	}
	var numbers []string
	for _, row := range knownRow.FindAllStringSubmatch(string(doc), -1) {
		numbers = append(numbers, row[1])
		pkg, tests := "", 0
		for _, name := range testNames.FindAllStringSubmatch(row[2], -1) {
			if !strings.HasPrefix(name[1], "Test") && !strings.HasPrefix(name[1], "Fuzz") {
				pkg = name[1]
				continue
			}
			tests++
			if !hasTest(t, pkg, name[1]) {
				t.Errorf("number %s: package %q has no %s", row[1], pkg, name[1])
			}
		}
		if tests == 0 {
			t.Errorf("number %s names no test", row[1])
		}
	}
	if got := strings.Join(numbers, " "); got != knownInputs {
		t.Errorf("the table has the numbers\n%s\nwant\n%s", got, knownInputs)
	}
}

func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
