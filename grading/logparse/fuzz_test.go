package logparse

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParser runs one parser, chosen by number from all of them, in both editions:
// far more inputs a second than FuzzParse, which runs all on each. A log that comes
// in pieces must be read as one that comes whole.
func FuzzParser(f *testing.F) {
	names := Names()
	for i, name := range names {
		for _, log := range seedsOf(f, name) {
			f.Add(uint8(i), log)
		}
	}
	f.Fuzz(func(t *testing.T, number uint8, log string) {
		name := names[int(number)%len(names)]
		for _, in := range fuzzContexts {
			checkResult(t, name, log, in)
		}
		text := Normalise(log)
		whole := Parse(name, text, Context{})
		pieces := NewReader(name, Context{})
		for piece, err := range Pieces(strings.NewReader(log)) {
			if err != nil {
				t.Fatal(err)
			}
			pieces.Feed(piece)
		}
		got := pieces.Result()
		if got.Reason != whole.Reason || marshal(t, got.Statuses) != marshal(t, whole.Statuses) {
			t.Errorf("%s: in pieces %s (%s), whole %s (%s)", name, marshal(t, got.Statuses), got.Reason, marshal(t, whole.Statuses), whole.Reason)
		}
	})
}

// seedsOf are the golden log of a parser, and the official fixtures where they are.
func seedsOf(f *testing.F, name string) []string {
	f.Helper()
	logs := []string{"", "PASSED a\n", "✓ a\n"}
	if log, err := os.ReadFile(filepath.Join("testdata", "logs", name+".log")); err == nil {
		logs = append(logs, string(log))
	}
	path := filepath.Join("..", "..", "..", "shared", "parity", "parser-fixtures.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return logs // the golden logs do without
	}
	var file struct {
		Cases []fixture `json:"cases"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		f.Fatal(err)
	}
	for _, c := range file.Cases {
		if c.Parser == name {
			logs = append(logs, c.Log)
		}
	}
	return logs
}
