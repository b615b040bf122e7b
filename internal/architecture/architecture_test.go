package architecture

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/evalrun/evalrun"

// TestImports holds every package of the module to the rules.
func TestImports(t *testing.T) {
	packages := list(t)
	ours := 0
	for _, p := range packages {
		if strings.HasPrefix(p.ImportPath, module+"/") {
			ours++
		}
	}
	if ours < 10 || len(packages) < 10*ours {
		t.Fatalf("go list gave %d packages, %d of them ours: that is not the whole graph", len(packages), ours)
	}
	for _, line := range Check(module, packages) {
		t.Error(line)
	}
}

// list is the dependency graph of the module.
func list(t *testing.T) []Package {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Doc,Imports,Deps", module+"/...")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var packages []Package
	for dec := json.NewDecoder(out); ; {
		var p Package
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	return packages
}

// TestCheck holds the checker itself to made-up graphs.
func TestCheck(t *testing.T) {
	at := func(name string) string { return module + "/" + name }
	pkg := func(name string, imports ...string) Package {
		return Package{ImportPath: at(name), Doc: "Package x is for y.", Imports: imports, Deps: imports}
	}
	tests := []struct {
		name     string
		packages []Package
		want     []string
	}{
		{"downwards", []Package{
			pkg("cmd/evalrun", at("internal/runner"), at("images/builder"), at("internal/sandbox/docker")),
			pkg("internal/runner", at("reports"), at("datasets"), at("internal/sandbox"), at("grading/logparse")),
			pkg("reports", at("grading"), at("cache"), "os"),
			pkg("images", at("datasets")),
			pkg("internal/sandbox/docker", at("internal/sandbox"), "github.com/docker/docker/client", "github.com/moby/buildkit/client"),
		}, nil},
		{"upwards", []Package{pkg("datasets", at("internal/runner"))},
			[]string{"datasets: imports internal/runner; it may import no package of ours"}},
		{"sideways", []Package{pkg("reports", at("datasets")), pkg("grading", at("datasets"))}, []string{
			"grading: imports datasets; it may import grading/...",
			"reports: imports datasets; it may import cache, grading/..., internal/journal, internal/screen, reports/stats",
		}},
		{"the layers do not read rows", []Package{pkg("images/env", at("datasets"))},
			[]string{"images/env: imports datasets; it may import cache, images/..., internal/cause, internal/mirror, internal/rootless"}},
		{"nobody imports the command", []Package{pkg("images/builder", at("cmd/evalrun"))},
			[]string{"images/builder: imports cmd/evalrun; it may import cache, images/..., internal/cause, internal/mirror, internal/rootless"}},
		{"Docker and BuildKit are confined", []Package{
			pkg("cmd/evalrun", "github.com/docker/docker/client"),
			pkg("internal/engine", "github.com/docker/docker/api/types", "github.com/moby/buildkit/client"),
			pkg("internal/provision", "github.com/moby/buildkit/client/llb"),
		}, []string{
			"cmd/evalrun: imports github.com/docker/docker/client; only internal/sandbox/docker/... may",
			"internal/engine: imports github.com/docker/docker/api/types; only internal/sandbox/docker/... may",
			"internal/provision: imports github.com/moby/buildkit/client/llb; only images/base, images/env, images/instance, images/builder, internal/sandbox/docker/..., internal/buildkit, internal/engine may",
		}},
		{"a name that only begins alike is another module", []Package{pkg("internal/engine", "github.com/docker/dockerfile")}, nil},
		{"by way of others", []Package{
			{ImportPath: at("grading/logparse"), Doc: "d", Imports: []string{"example.org/x"}, Deps: []string{"example.org/x", "net/http"}},
			{ImportPath: at("images"), Doc: "d", Imports: []string{at("cache")}, Deps: []string{at("cache"), "github.com/docker/docker/client"}},
		}, []string{
			"grading/logparse: reaches net/http, directly or through others; it must not",
			"images: reaches github.com/docker/docker/client, directly or through others; it must not",
		}},
		{"no place in the table", []Package{pkg("scheduler")},
			[]string{"scheduler: has no row in mayImport; add one that says what it may import"}},
		{"names", []Package{pkg("images/utils"), pkg("datasets/common")}, []string{
			"datasets/common: is named after nothing; name it after what it provides",
			"images/utils: is named after nothing; name it after what it provides",
		}},
		{"comment", []Package{{ImportPath: at("cache")}},
			[]string{"cache: has no package comment; say what it is for and what it must not know"}},
		{"other modules do as they like", []Package{{ImportPath: "example.org/utils", Imports: []string{at("cmd/evalrun"), "net/http"}}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Check(module, tt.packages)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestTablePointsDown: a row may name its own tree and what stands above it, so
// that the table cannot allow a circle.
func TestTablePointsDown(t *testing.T) {
	for i, r := range mayImport[:len(mayImport)-1] { // the last row is the command's
		for _, pattern := range r.imports {
			name := strings.TrimSuffix(pattern, "/...")
			above := slices.ContainsFunc(mayImport[:i+1], func(r row) bool { return matches(r.pkg, name) })
			if !above {
				t.Errorf("row %s names %s, which no row above it is for", r.pkg, pattern)
			}
		}
	}
}
