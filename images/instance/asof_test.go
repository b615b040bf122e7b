package instance

import (
	"slices"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/images"
)

// The first steps edit what the project asks for; the question comes after them.
func TestPackagesAreHeldBetweenTheSteps(t *testing.T) {
	spec := images.InstanceSpec{PreInstall: []string{"sed -i s/a/b/ setup.py"}, Install: []string{"pip install -e .[test]"}}
	if got, want := installSteps(spec), "sed -i s/a/b/ setup.py\npip install -e .[test]\n"; got != want {
		t.Errorf("steps %q, want %q", got, want)
	}
	spec.AsOf = "2020-05-30T00:00:00Z"
	steps := installSteps(spec)
	edited, held, installed := strings.Index(steps, "sed -i"), strings.Index(steps, "\nas_of '2020-05-30T00:00:00Z' '.[test]'\n"), strings.Index(steps, "pip install -e")
	if edited < 0 || held < edited || installed < held {
		t.Errorf("edited at %d, held at %d, installed at %d in\n%s", edited, held, installed, steps)
	}
	if got := installSteps(images.InstanceSpec{}); got != "" {
		t.Errorf("steps of none: %q", got)
	}
}

func TestProjectTargets(t *testing.T) {
	for _, tt := range []struct {
		steps, want []string
	}{
		{nil, []string{"."}},
		{[]string{"python -m pip install -e ."}, []string{"'.'"}},
		{[]string{"python -m pip install -e .[test]"}, []string{"'.[test]'"}},
		{[]string{`pip install ".[dev, docs]" --verbose`}, []string{"'.[dev, docs]'"}},
		{[]string{"sed -i 's/a/./' x", "pip install -v --no-build-isolation -e .; true"}, []string{"'.'"}},
		{[]string{"python setup.py install", "pip install ./vendored"}, []string{"."}},
	} {
		if got := projectTargets(tt.steps); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.steps, got, tt.want)
		}
	}
}
