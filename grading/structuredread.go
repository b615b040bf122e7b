package grading

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLogLine bounds the lines of a log for programs.
const maxLogLine = 1 << 20

// LogEnd is the last line of a log of cargo's tests: whoever gathers what the test
// programs wrote adds it.
const LogEnd = "evalrun-end"

// readCargo reads what the test programs of Rust write to their --logfile, one after
// another: a word and a name.
func readCargo(r io.Reader) (Structured, error) {
	found := Structured{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLogLine)
	ended := false
	for lines.Scan() {
		ended = lines.Text() == LogEnd
		word, name, _ := strings.Cut(lines.Text(), " ")
		status := Status("")
		switch word {
		case "ok":
			status = Passed
		case "failed":
			status = Failed
		case "ignored":
			status = Skipped
		default:
			continue // benchmarks, and what has a reason before its name
		}
		if len(found) >= maxCases {
			return found, fmt.Errorf("the report has more than %d tests", maxCases)
		}
		found.add(name, status)
	}
	if err := lines.Err(); err != nil {
		return found, fmt.Errorf("not a log of cargo's tests: %w", err)
	}
	if !ended {
		return found, errors.New("the log of cargo's tests ends before its last line")
	}
	return found, nil
}

// readMaven reads a report of surefire. Rows name tests as -Dtest does, by class, with
// its package or without, and method; parameters and repetitions have names of their
// own, and classes that of their report behind them.
func readMaven(r io.Reader) (Structured, error) {
	cases, err := ReadJUnit(r)
	found := Structured{}
	for name, status := range cases {
		class, method, _ := strings.Cut(name, "::")
		class, method = cutAny(class, "("), cutAny(method, "({[")
		for _, c := range []string{class, cutAny(class, "$")} {
			for _, c := range []string{c, c[strings.LastIndexByte(c, '.')+1:]} {
				found.addRun(c, status)
				found.addRun(c+"#"+method, status)
			}
		}
	}
	return found, err
}

// cutAny is the text before the first of these characters.
func cutAny(text, chars string) string {
	if i := strings.IndexAny(text, chars); i >= 0 {
		return text[:i]
	}
	return text
}

// MochaListener is a module that mocha is told to load before the tests. It notes
// what the runner says of each test, whatever reporter prints the log, and writes it
// to a file when the runner has come to its end: {"tests": [[title, status]], "end": true}.
func MochaListener(file string) []byte {
	name, err := json.Marshal(file)
	if err != nil {
		name = []byte(`""`) // cannot be: it is text
	}
	return []byte(`const write = require('fs').writeFileSync, text = JSON.stringify, tests = [];
const save = end => write(` + string(name) + `, text({ tests, end }));
for (const name of Object.keys(require.cache)) {
  if (!/[\\/]mocha[\\/]lib[\\/]runner\.js$/.test(name)) continue;
  const of = require.cache[name].exports.prototype, run = of.run;
  of.run = function (...args) {
    const note = status => test => tests.push([test.fullTitle(), status]);
    this.on('pass', note('passed')).on('fail', note('failed')).on('pending', note('pending')).on('end', () => save(true));
    return run.apply(this, args);
  };
  save(false);
}
`)
}

// KarmaListener is a module that Node is told to load first. It notes what karma's
// server hears of each test from a browser, whatever reporters make the log, in the
// form of MochaListener's; in processes that are not karma's nobody says such things.
func KarmaListener(file string) []byte {
	name, err := json.Marshal(file)
	if err != nil {
		name = []byte(`""`) // cannot be: it is text
	}
	return []byte(`const of = require('events').EventEmitter.prototype, write = require('fs').writeFileSync, text = JSON.stringify, emit = of.emit, tests = [];
const save = end => write(` + string(name) + `, text({ tests, end }));
of.emit = function (event, browser, result) {
  try {
    if (event === 'spec_complete' && result && result.description) {
      if (!tests.length) save(false);
      tests.push([result.description, result.skipped ? 'skipped' : result.success ? 'passed' : 'failed']);
    } else if (event === 'run_complete' && tests.length) save(true);
  } catch (e) { }
  return emit.apply(this, arguments);
};
`)
}

// readTitles reads what our listeners write. As with jest, the titles in a log can be
// those of several tests.
func readTitles(r io.Reader, name func(string) string) (Structured, error) {
	var in struct {
		Tests [][2]string
		End   bool
	}
	if err := json.NewDecoder(r).Decode(&in); err != nil {
		return nil, fmt.Errorf("not a report of mocha or karma: %w", err)
	}
	found := Structured{}
	for _, c := range in.Tests {
		found.addBest(name(c[0]), jestStatus(c[1]))
	}
	if !in.End {
		return found, errors.New("the report ends before the runner's end")
	}
	return found, nil
}

// titleIn is the test of a report that an id of karma's ends with: what stands before
// it are suites, which its log does not tell apart. An id that ends with none is
// returned as it is.
func (s Structured) titleIn(id string) string {
	for rest, more := id, true; more; _, rest, more = strings.Cut(rest, " > ") {
		if _, ok := s[rest]; ok {
			return rest
		}
	}
	return id
}

// mochaName is a title as TAP has it: without signs that mean something there.
func mochaName(title string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(firstLine(title), "#", "")), " ")
}
