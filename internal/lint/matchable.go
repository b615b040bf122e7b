package lint

import (
	"strings"

	"github.com/evalrun/evalrun/grading/logparse"
)

// shapes are lines that a test runner prints for one test, by log parser; %s is the
// test's id. An id that comes out of none of them is one the parser never gives.
// Parsers whose ids are made of several lines and leave every id possible are not
// listed.
var shapes = map[string][]string{
	"parse_log_pytest":                 {"PASSED %s", "FAILED %s"},
	"parse_log_pytest_options":         {"PASSED %s", "FAILED %s"},
	"parse_log_pytest_v2":              {"PASSED %s", "FAILED %s", "%s PASSED"},
	"parse_log_matplotlib":             {"PASSED %s"},
	"parse_log_seaborn":                {"PASSED %s", "%s PASSED ", "FAILED %s"},
	"parse_log_django":                 {"%s ... ok", "%s\nok", "FAIL: %s", "ERROR: %s", "%s ... FAIL", "x\n%s ... \nok"},
	"parse_log_sympy":                  {"%s ok", "_ %s _"},
	"parse_log_gotest":                 {"--- PASS: %s (0.00s)"},
	"parse_log_cargo":                  {"test %s ... ok"},
	"parse_log_redis":                  {"[ok]: %s (1 ms)"},
	"parse_log_jq":                     {"PASS: %s"},
	"parse_log_micropython_test":       {"pass  %s"},
	"parse_log_googletest":             {"[       OK ] %s (0 ms)"},
	"parse_log_maven":                  {"+ mvn test -Dtest=%s\nBUILD SUCCESS"},
	"parse_log_ant":                    {"    [junit] [PASS] %s"},
	"parse_log_gradle_custom":          {"%s PASSED", "%s\nPASSED"},
	"parse_log_minitest":               {"%s. = 0.10 s = ."},
	"parse_log_ruby_unit":              {"%s: ."},
	"parse_log_rspec_transformed_json": {"%s - passed"},
	"parse_log_jest":                   {"✓ %s"},
	"parse_log_jest_json":              {"[PASSED] %s"},
	"parse_log_vitest":                 {"✓ %s"},
	"parse_log_tap":                    {"ok 1 %s"},
	"parse_log_carbon":                 {"PASS %s"},
	"parse_log_grommet":                {"PASS %s"},
	"parse_log_emotion":                {"PASS %s"},
}

// aliases are names of the parsers above.
var aliases = map[string]string{
	"parse_log_astroid": "parse_log_pytest", "parse_log_flask": "parse_log_pytest", "parse_log_marshmallow": "parse_log_pytest",
	"parse_log_pvlib": "parse_log_pytest", "parse_log_pyvista": "parse_log_pytest", "parse_log_sqlfluff": "parse_log_pytest",
	"parse_log_xarray": "parse_log_pytest", "parse_log_pydicom": "parse_log_pytest_options", "parse_log_requests": "parse_log_pytest_options",
	"parse_log_pylint": "parse_log_pytest_options", "parse_log_astropy": "parse_log_pytest_v2", "parse_log_scikit": "parse_log_pytest_v2",
	"parse_log_sphinx": "parse_log_pytest_v2", "parse_log_react_pdf": "parse_log_carbon",
}

// Matchable reports whether a log parser can give a test this id at all.
func Matchable(parser string, in logparse.Context, id string) bool {
	if of, is := aliases[parser]; is {
		parser = of
	}
	lines, known := shapes[parser]
	if !known {
		return true
	}
	for _, edition := range []logparse.Edition{logparse.V5, logparse.V41} {
		in.Edition = edition
		for _, line := range lines {
			read := logparse.Parse(parser, strings.Replace(line, "%s", id, 1), in)
			if _, found := read.Statuses.Get(id); found {
				return true
			}
		}
	}
	return false
}
