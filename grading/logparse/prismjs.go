package logparse

import (
	"encoding/json"
	"fmt"
	"strings"
)

// prismJS reads mocha's JSON reporter, once for each run of the command. A pass
// wins over a failure of the same name within a run.
func prismJS(_ Context, text string, out *Result) {
	const command = "./node_modules/.bin/mocha tests/run.js --reporter json"
	for i, piece := range strings.Split(text, command) {
		if i == 0 {
			continue
		}
		if err := prismRun(piece, out); err != nil {
			out.complain("run %d: %v", i, err)
		}
	}
}

func prismRun(piece string, out *Result) error {
	if _, after, ok := strings.Cut(piece, "{"); ok {
		piece = after
	}
	if i := strings.LastIndexByte(piece, '}'); i >= 0 {
		piece = piece[:i]
	}
	// A map, since decoding into a struct would accept keys in any case.
	var report map[string]json.RawMessage
	if err := json.Unmarshal([]byte("{"+piece+"}"), &report); err != nil {
		return fmt.Errorf("the reporter's JSON is broken: %w", err)
	}
	for _, list := range []struct {
		key    string
		status Status
	}{{"failures", Failed}, {"passes", Passed}} {
		var tests []map[string]json.RawMessage
		if err := json.Unmarshal(report[list.key], &tests); err != nil {
			return fmt.Errorf("the reporter's JSON has no list %q", list.key)
		}
		for _, test := range tests {
			var title *string
			if err := json.Unmarshal(test["fullTitle"], &title); err != nil || title == nil {
				return fmt.Errorf("a test in %q has no fullTitle", list.key)
			}
			out.set(*title, list.status)
		}
	}
	return nil
}
