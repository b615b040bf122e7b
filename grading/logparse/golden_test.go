package logparse

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldenContext is what the parsers that ask for it get in the golden tests.
var goldenContext = map[string]Context{
	"parse_log_jekyll":       {InstanceID: "jekyll__jekyll-9141"},
	"parse_log_immutable_js": {InstanceID: "immutable-js__immutable-js-2006"},
	"parse_log_next":         {Version: "1.19"},
	"parse_log_lighthouse":   {Version: "8.6"},
}

// TestGolden reads one small log for every framework, in each edition.
func TestGolden(t *testing.T) {
	logs, err := filepath.Glob(filepath.Join("testdata", "logs", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs in testdata: %v", err)
	}
	for _, path := range logs {
		name := strings.TrimSuffix(filepath.Base(path), ".log")
		t.Run(name, func(t *testing.T) {
			log, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for edition, suffix := range []string{V5: "", V41: ".4.1"} {
				in := goldenContext[name]
				in.Edition = Edition(edition)
				got := Parse(name, string(log), in)
				if got.Reason != "" {
					t.Errorf("edition %d: reason %q", edition, got.Reason)
				}
				checkGolden(t, strings.TrimSuffix(path, ".log")+suffix+".json", got.Statuses)
			}
		})
	}
}

// checkGolden compares statuses in order. A release's own file exists only where
// it differs from the default's.
func checkGolden(t *testing.T, path string, statuses Statuses) {
	t.Helper()
	raw, err := json.Marshal(statuses)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(strings.ReplaceAll(string(raw), `","`, "\",\n\""), "{", "{\n") + "\n"
	common := strings.Replace(path, ".4.1.json", ".json", 1)
	if *update {
		if path != common {
			if want, err := os.ReadFile(common); err == nil && string(want) == got {
				os.Remove(path)
				return
			}
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		want, err = os.ReadFile(common)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestEveryParserHasAGolden keeps the registry and the golden logs together: each
// name is golden itself or an alias of one that is, which reads its log alike.
func TestEveryParserHasAGolden(t *testing.T) {
	var golden []string
	for _, name := range Names() {
		if _, err := os.Stat(filepath.Join("testdata", "logs", name+".log")); err == nil {
			golden = append(golden, name)
		}
	}
	if len(golden) != 47 { // 44 functions of 5.x and 3 of the classic releases
		t.Errorf("%d parsers have a golden log, want 47", len(golden))
	}
	aliases := map[string]string{
		"astroid": "pytest", "flask": "pytest", "marshmallow": "pytest", "pvlib": "pytest",
		"pyvista": "pytest", "sqlfluff": "pytest", "xarray": "pytest",
		"pydicom": "pytest_options", "requests": "pytest_options", "pylint": "pytest_options",
		"astropy": "pytest_v2", "scikit": "pytest_v2", "sphinx": "pytest_v2",
	}
	for _, name := range Names() {
		if slices.Contains(golden, name) {
			continue
		}
		of, ok := aliases[strings.TrimPrefix(name, "parse_log_")]
		if !ok {
			t.Errorf("%s has no golden log and is no known alias", name)
			continue
		}
		log, err := os.ReadFile(filepath.Join("testdata", "logs", "parse_log_"+of+".log"))
		if err != nil {
			t.Fatal(err)
		}
		want, got := Parse("parse_log_"+of, string(log), Context{}), Parse(name, string(log), Context{})
		if diff := cmp.Diff(want.Statuses.Map(), got.Statuses.Map()); diff != "" {
			t.Errorf("%s reads otherwise than %s:\n%s", name, of, diff)
		}
	}
}
