package provenance

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct {
		in   any
		want string
	}{
		// The order of keys is that of RFC 8785, section 3.2.3.
		{map[string]any{"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7},
			"{\"\\r\":2,\"1\":4,\"\u0080\":6,\"\u00f6\":7,\"\u20ac\":1,\"\U0001f600\":5,\"\ufb33\":3}"},
		// Its escapes, section 3.2.2.2.
		{"\u20ac$\u000f\nA'B\"\\\\\"/", "\"\u20ac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\""},
		{[]any{nil, true, false, []string{}, map[string]int{}}, "[null,true,false,[],{}]"},
		{"<&>\u2028", "\"<&>\u2028\""},
		{[]int64{1<<53 - 1, -(1<<53 - 1), 0}, "[9007199254740991,-9007199254740991,0]"},
	} {
		got, err := Canonical(c.in)
		if err != nil || string(got) != c.want {
			t.Errorf("%v: %s, %v; want %s", c.in, got, err, c.want)
		}
	}
	for _, bad := range []any{0.5, int64(1) << 53, math.Inf(1), map[string]any{"a": []any{1e300}}} {
		if got, err := Canonical(bad); err == nil {
			t.Errorf("%v becomes %s", bad, got)
		}
	}
}

// FuzzCanonical: any JSON has one spelling, which is JSON of the same value.
func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b": [1, "x\u0000"], "a": {"é": null}}`))
	f.Add([]byte(`[true, -0, 10]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		once, err := Canonical(json.RawMessage(data))
		if err != nil {
			return
		}
		twice, err := Canonical(json.RawMessage(once))
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%s becomes %s, and that %s (%v)", data, once, twice, err)
		}
	})
}

func TestStatement(t *testing.T) {
	layout := reports.Layout{Root: t.TempDir()}
	record := reports.RunRecord{RunID: "r", CreatedAt: time.Unix(5, 0), Models: []string{"m2", "m1"}, InstanceIDs: []string{"b", "a"},
		RowHashes: map[string]string{"a": "ra", "b": "rb"}, Rules: "strict", Limits: reports.LimitsRecord{CPUs: 0.5, TimeoutSeconds: 1800},
		Policy: map[string]string{"verify": "all", "audit": "yes"}, Predictions: []reports.PredictionRecord{{Path: "z", SHA256: "2"}, {Path: "a", SHA256: "1"}}}
	attempts := []reports.Attempt{
		{Model: "m2", InstanceID: "a", RunID: "r", Outcome: grading.Resolved, Key: "k", Patch: reports.PatchRecord{SHA256: "p"}},
		{Model: "m1", InstanceID: "b", RunID: "r", Outcome: grading.Unresolved},
	}
	files := layout.Instance("r", "m2", "a")
	if err := os.MkdirAll(files.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.TestOutput, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), layout, &record, attempts)
	if err != nil {
		t.Fatal(err)
	}
	data, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"results":[` +
		`{"image_digest":"","instance_id":"b","key":"","log_sha256":"","model_name_or_path":"m1","outcome":"unresolved","patch_sha256":"","report_sha256":"","rules":""},` +
		// FIPS 180-4, SHA-256 of "abc".
		`{"image_digest":"","instance_id":"a","key":"k","log_sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","model_name_or_path":"m2","outcome":"resolved","patch_sha256":"p","report_sha256":"","rules":""}],` +
		`"run":{"dataset_sha256":"","engine":" ","evalrun":"","instances":[{"instance_id":"a","row_sha256":"ra"},{"instance_id":"b","row_sha256":"rb"}],"kernel":"",` +
		`"limits":{"cpus":"0.5","disk_bytes":0,"memory_bytes":0,"output_bytes":0,"pids":0,"silence_seconds":"0","timeout_seconds":"1800"},` +
		`"models":["m1","m2"],"network":"","platform":"","policy":["audit=yes","verify=all"],"predictions_sha256":["1","2"],"revision":"","rules":"strict","run_id":"r"},` +
		`"type":"evalrun-statement","version":1}`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Error(diff)
	}
	// When, where and in which order it ran makes no other statement.
	record.CreatedAt, record.FinishedAt, record.Workers = time.Unix(9, 0), time.Unix(10, 0), 7
	attempts[0], attempts[1] = attempts[1], attempts[0]
	again, err := New(t.Context(), layout, &record, attempts)
	if err != nil || cmp.Diff(s, again) != "" {
		t.Errorf("another statement: %v, %s", err, cmp.Diff(s, again))
	}
	if err := s.Write(layout); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(layout.RunDir("r"), File))
	if err != nil || string(written) != want {
		t.Errorf("written: %v, %s", err, written)
	}
	if digest, err := s.Digest(); err != nil || len(strings.Trim(digest, "0123456789abcdef")) != 0 || len(digest) != 64 {
		t.Errorf("digest %q, %v", digest, err)
	}
}
