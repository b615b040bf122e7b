package runner

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/internal/sandbox"
)

func TestSwapped(t *testing.T) {
	for _, tt := range []struct {
		name    string
		changed []string
		want    []string
	}{
		{"an install", []string{"A /usr/local/bin/flask", "A /usr/local/lib/python3.11/site-packages/flask.egg-link", "C /usr/local/lib/python3.11/site-packages/easy-install.pth", "A /root/.cache/x"}, nil},
		{"bytecode of a first run", []string{"A /usr/lib/python3/dist-packages/_pytest/__pycache__/x.cpython-311.pyc"}, nil},
		{"folders of no interest", []string{"D /var/cache/apt/", "C /usr/lib/python3.11/json/__pycache__/", "C /usr/local/lib/python3.11/site-packages/flask/", "D /opt/tool/cache/", "C /testbed/bin/"}, nil},
		{"pytest, all of it", []string{"C /usr/lib/python3/dist-packages/_pytest/", "C /usr/lib/python3/dist-packages/"}, []string{"/usr/lib/python3/dist-packages/_pytest/", "/usr/lib/python3/dist-packages/"}},
		{"folders above", []string{"C /usr/", "C /bin/", "D /usr/local/", "C /opt/miniconda3/envs/testbed/lib/", "C /usr/lib/python3.11/"}, []string{"/usr/", "/bin/", "/usr/local/", "/opt/miniconda3/envs/testbed/lib/", "/usr/lib/python3.11/"}},
		{"a link in the place of a link to a folder", []string{"C /bin", "D /usr/lib/go", "C /lib64", "A /opt/x/bin"}, []string{"/bin", "/usr/lib/go", "/lib64"}},
		{"compilers and what they read", []string{"C /usr/include/stdio.h", "C /usr/lib/gcc/x86_64-linux-gnu/12/cc1", "A /root/.config/go/env", "C /usr/lib/jvm/java-17/lib/modules", "A /usr/include/new.h"}, []string{"/usr/include/stdio.h", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1", "/root/.config/go/env", "/usr/lib/jvm/java-17/lib/modules"}},
		{"our own files", []string{"A /evalrun/test.sh", "C /testbed/bin/python"}, nil},
		{"a tool", []string{"C /usr/bin/git"}, []string{"/usr/bin/git"}},
		{"a tool, removed", []string{"D /usr/bin/python3.11"}, []string{"/usr/bin/python3.11"}},
		{"first on the path", []string{"A /usr/local/sbin/python3"}, []string{"/usr/local/sbin/python3"}},
		{"interpreter of an environment", []string{"C /opt/miniconda3/envs/testbed/bin/python3.9"}, []string{"/opt/miniconda3/envs/testbed/bin/python3.9"}},
		{"pytest", []string{"C /usr/lib/python3/dist-packages/_pytest/python.py"}, []string{"/usr/lib/python3/dist-packages/_pytest/python.py"}},
		{"bytecode of pytest", []string{"C /opt/miniconda3/envs/testbed/lib/python3.9/site-packages/_pytest/__pycache__/runner.cpython-39.pyc"}, []string{"/opt/miniconda3/envs/testbed/lib/python3.9/site-packages/_pytest/__pycache__/runner.cpython-39.pyc"}},
		{"standard library", []string{"C /usr/lib/python3.11/json/decoder.py", "C /usr/local/go/src/testing/testing.go"}, []string{"/usr/lib/python3.11/json/decoder.py", "/usr/local/go/src/testing/testing.go"}},
		{"start-up", []string{"A /root/.local/lib/python3.11/site-packages/usercustomize.py", "A /etc/ld.so.preload"}, []string{"/root/.local/lib/python3.11/site-packages/usercustomize.py", "/etc/ld.so.preload"}},
	} {
		var list []sandbox.Change
		for _, line := range tt.changed {
			list = append(list, sandbox.Change{Kind: sandbox.ChangeKind(line[0]), Path: line[2:]})
		}
		if got := swapped(list); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSince(t *testing.T) {
	change := func(kind sandbox.ChangeKind, path, stamp string) sandbox.Change {
		return sandbox.Change{Kind: kind, Path: path, Stamp: stamp}
	}
	before := map[string]sandbox.Change{}
	for _, c := range []sandbox.Change{
		change('C', "/testbed/patched", "1"), change('C', "/testbed/patched-again", "1"), change('A', "/testbed/new", "1"), change('A', "/testbed/new-and-gone", "1"),
		change('D', "/testbed/removed", "1"), change('D', "/testbed/removed-and-back", "1"), change('C', "/testbed/then-removed", "1"), change('A', "/etc/hosts", "1"),
	} {
		before[c.Path] = c
	}
	got := since(before, []sandbox.Change{
		change('C', "/testbed/patched", "1"), change('C', "/testbed/patched-again", "2"), change('A', "/testbed/new", "1"),
		change('D', "/testbed/removed", "1"), change('C', "/testbed/removed-and-back", "2"), change('D', "/testbed/then-removed", "2"),
		change('C', "/testbed/of the image", "2"), change('D', "/testbed/gone", "2"), change('D', "/testbed/folder/", "2"), change('A', "/testbed/made-by-tests", "2"),
		change('C', "/testbed/__pycache__/x.pyc", "2"), change('C', "/testbed/.git/index", "2"), change('C', "/testbed/a/.pytest_cache/v", "2"), change('C', "/etc/passwd", "2"),
		change('C', "/testbed/two\nlines", "2"), change('C', "/testbed/.gitignore", "2"),
	})
	want := []string{"D folder/", "D gone", "D new-and-gone", "D then-removed", "M .gitignore", "M of the image", "M patched-again"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Of a checkout in the place of which something else stands, everything is another.
func TestSinceOfTheCheckout(t *testing.T) {
	for _, kind := range []sandbox.ChangeKind{sandbox.Deleted, sandbox.Changed} {
		got := since(nil, []sandbox.Change{{Kind: kind, Path: "/testbed/", Stamp: "1"}})
		if len(got) != 1 || got[0][2:] != "./" {
			t.Errorf("%c: %q", kind, got)
		}
		tr := &trial{testFiles: []string{"tests/run.sh"}}
		if tr.rewritten(got); len(tr.odd) != 1 {
			t.Errorf("%c: %q", kind, tr.odd)
		}
	}
}
