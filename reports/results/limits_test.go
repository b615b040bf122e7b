package results

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files that are small and stand for more than memory has.
func TestResultsMadeToUseUpMemory(t *testing.T) {
	aliases := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 'b'; i <= 'm'; i++ {
		aliases += fmt.Sprintf("%c: &%c [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", i-1), 10), ","))
	}
	aliases += "tags: {model: [*m], system: {attempts: *m}}\n"
	for _, tt := range []struct{ name, file, text, want string }{
		{"values", "m.run.json", `{"resolved_ids":[` + strings.Repeat(`"",`, maxValues) + `""]}`, "m.run.json: holds more than 4194304 values"},
		{"instances", "m.run.json", `{"resolved_ids":[` + strings.Repeat(`"",`, maxInstances) + `""]}`, "m.run.json: has a list of 262145 instances"},
		{"a long id", "m.run.json", `{"resolved_ids":["` + strings.Repeat("x", maxName+1) + `"]}`, "m.run.json: has an instance id of 1001 bytes"},
		{"objects", "m.run.json", `{"summary":{},"instances":[` + strings.Repeat(`{},`, 4*maxInstances) + `{}]}`, "m.run.json:1: has more than 1048576 objects"},
		{"deep", "m.run.json", `{"resolved_ids":` + strings.Repeat("[", 20000), "m.run.json:1: invalid character '[' exceeded max depth"},
		{"long prediction", "sub/all_preds.jsonl", `{"instance_id":"a"}` + "\n" + strings.Repeat("x", maxPrediction+1), "all_preds.jsonl:2: bufio.Scanner: token too long"},
		{"long metadata", "sub/metadata.yaml", strings.Repeat("#", maxMetadata+1), "metadata.yaml: has 1048577 bytes"},
		{"aliases of aliases", "sub/metadata.yaml", aliases, "results.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), tt.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			source := path
			if strings.HasPrefix(tt.file, "sub/") {
				source = filepath.Dir(path)
			}
			_, err := Load(context.Background(), source, Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %.300v, want %q", err, tt.want)
			}
		})
	}
}

// Commas in texts are no values.
func TestManyValues(t *testing.T) {
	if manyValues([]byte(`{"a":"` + strings.Repeat(`\",`, maxValues) + `"}`)) {
		t.Error("commas of a text count")
	}
}
