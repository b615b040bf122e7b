package runner

import (
	"strings"
	"testing"
)

func TestHarnessOfItsOwn(t *testing.T) {
	const bench = "/testbed/a/Cargo.toml:[[bench]]\n/testbed/a/Cargo.toml:harness = false\n"
	for _, tt := range []struct {
		name, lines, command, want string
	}{
		{"none", "/testbed/Cargo.toml:[package]\n/testbed/Cargo.toml:[[test]]\n", "cargo test", ""},
		{"of a test", "/testbed/Cargo.toml:[[test]]\n/testbed/Cargo.toml:harness=false # trybuild\n", "cargo test", "/testbed/Cargo.toml"},
		{"of the library", "/testbed/Cargo.toml:[lib]\n/testbed/Cargo.toml:  harness  =  false\n", "cargo test", "/testbed/Cargo.toml"},
		{"in one line", "/testbed/Cargo.toml:test = [{ name = \"a\", harness = false }]\n", "cargo test", "/testbed/Cargo.toml"},
		{"with dots", "/testbed/Cargo.toml:lib.harness = false\n", "cargo test", "/testbed/Cargo.toml"},
		{"of benchmarks", bench, "cargo test", ""},
		{"of benchmarks that run", bench, "cargo test --all-targets", "/testbed/a/Cargo.toml"},
		{"of a benchmark that runs", bench, "cargo test --bench x", "/testbed/a/Cargo.toml"},
		{"of benchmarks that are tests", bench + "/testbed/a/Cargo.toml:test = true\n", "cargo test", "/testbed/a/Cargo.toml"},
		{"in the next manifest", bench + "/testbed/b/Cargo.toml:harness = false\n", "cargo test", "/testbed/b/Cargo.toml"},
		{"behind a benchmark", bench + "/testbed/a/Cargo.toml:[[test]]\n/testbed/a/Cargo.toml:harness = false\n", "cargo test", "/testbed/a/Cargo.toml"},
		{"not false", "/testbed/Cargo.toml:harness = true\n/testbed/Cargo.toml:description = \"a harness\"\n", "cargo test", ""},
		{"of grep's", "grep: /testbed/x: No such file\n", "cargo test", ""},
	} {
		if got := harnessOfItsOwn(tt.lines, benches(tt.command)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	for text, want := range map[string]bool{
		"+harness = false\n": true, "-harness = false\n": false, " harness = false\n": false, "+++ b/Cargo.toml\n+[[test]]\n+harness=false": true,
	} {
		if got := addedOne.MatchString(strings.TrimSpace(text)); got != want && text[0] != ' ' {
			t.Errorf("%q: %v", text, got)
		}
	}
}
