package env

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/images"
)

func TestPins(t *testing.T) {
	got := pins([]string{"numpy==1.23.0", "pytest", "pkg[extra]==1", "x @ file:///x", "six>=1"})
	if want := []string{"numpy==1.23.0"}; !slices.Equal(got, want) {
		t.Errorf("pins %q, want %q", got, want)
	}
}

// The order is the classic harness's: named packages, requirements, late ones.
func TestPipScriptOrder(t *testing.T) {
	spec := images.EnvSpec{Pip: []string{"numpy<2"}, Requirements: "flask\nit's-odd", PipLate: []string{"pytest==7.4.0"}}
	script := pipScript(spec)
	first, second, third := strings.Index(script, "'numpy<2'"), strings.Index(script, "-r /tmp/requirements.txt"), strings.Index(script, "'pytest==7.4.0'")
	if first < 0 || second < first || third < second {
		t.Errorf("order %d, %d, %d in\n%s", first, second, third, script)
	}
	if pipScript(images.EnvSpec{}) != "" {
		t.Error("an environment without packages has a step for them")
	}
	spec.FromConda = true
	if script := pipScript(spec); !strings.Contains(script, "-c /tmp/pins.txt") || !strings.Contains(script, "not-installed.txt") {
		t.Errorf("a conda file's packages may be left out:\n%s", script)
	}
}

// What is generated must be shell, whatever stands in a requirement.
func TestScriptsParse(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	odd := []string{"a'b", `c"$(d)`, "e; f", "g`h`"}
	for name, script := range map[string]string{
		"pip":         pipScript(images.EnvSpec{Pip: odd, Requirements: "x", PipLate: odd, FromConda: true}),
		"interpreter": vars("HOME_DIR", "/opt/python/3.9.18") + interpreter,
		"python":      vars("PYTHON", "/usr/bin/python3", "VENV", venv, "ACTIVATE", activate) + python,
		"activate":    activate,
		"conda":       vars("WANT", "3.9", "VENV", venv) + conda,
		"go":          vars("WANT", "1.23.8") + gotoolchain,
		"node":        vars("WANT", "20") + nodetoolchain,
	} {
		cmd := exec.Command(bash, "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestEnvAddsTheRowsVariables(t *testing.T) {
	got := Env(images.EnvSpec{Language: "go", Vars: []string{"A=b"}})
	if !slices.Contains(got, "A=b") || !slices.Contains(got, "GOTOOLCHAIN=local") {
		t.Errorf("env %q", got)
	}
	if NeedsToolchain(images.EnvSpec{Language: "js"}) || !NeedsToolchain(images.EnvSpec{Language: "js", Version: "20"}) {
		t.Error("a tool chain is copied in when a version is pinned, and only then")
	}
}
