package regrade

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/evalrun/evalrun/grading"
)

// FuzzLines: whatever a file of logs holds, there is one answer for each line that
// is not blank, every answer is one line of JSON, and only an answer with a row is
// resolved.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"instance_id":"o__r-1","log":"` + `>>>>> Start Test Output\nPASSED t.py::a\n>>>>> End Test Output","encoding":"utf-8"}` + "\n\n{"))
	f.Add([]byte(`{"instance_id":"psf__requests-1","log":"UEFTU0VEIGE=","encoding":"base64"}`))
	f.Add([]byte("[]\nnull\n\"x\"\n{\"instance_id\":1}\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		want := 0
		for line := range bytes.Lines(data) {
			if len(bytes.TrimSpace(line)) > 0 {
				want++
			}
		}
		got := 0
		err := Lines(context.Background(), Options{Rules: grading.SWEBench5, Against: grading.Strict, Workers: 2}, bytes.NewReader(data), lookupOne, func(l Line) error {
			got++
			text, err := json.Marshal(l)
			if err != nil || bytes.ContainsRune(text, '\n') {
				t.Errorf("%q: %v", text, err)
			}
			if l.Resolved && (l.Err != nil || l.InstanceID != oneTest.ID || l.Outcome != grading.Resolved) || l.Outcome == "" {
				t.Errorf("resolved %v, outcome %q, %v", l.Resolved, l.Outcome, l.Err)
			}
			return nil
		})
		if err != nil || got != want {
			t.Errorf("%d answers to %d lines, %v", got, want, err)
		}
	})
}
