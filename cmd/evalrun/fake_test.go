package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/buildkit/client"

	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/room"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/sandboxtest"
)

// fakeEngine is an engine that runs nothing and, if nothing else is said, has every
// image. What tests print
// depends on the patch alone: PATCH-FAILS makes them fail, PATCH-BREAKS does not
// apply, PATCH-HANGS never ends.
type fakeEngine struct {
	fake  sandboxtest.Fake
	store engine.Store                           // nil has every image
	state string                                 // the folder it keeps them in; "" is on another machine
	disk  func(folder string) (room.Disk, error) // nil is the machine's own

	mu      sync.Mutex
	patches map[*sandboxtest.FakeSandbox]string
	tests   []string // instances whose tests were run
}

func newFakeEngine() *fakeEngine {
	f := &fakeEngine{store: fullStore{}, patches: map[*sandboxtest.FakeSandbox]string{}}
	f.fake.OnExec = f.exec
	return f
}

// main runs evalrun with this engine.
func (f *fakeEngine) main(args []string, stdout, stderr io.Writer) int {
	store := f.store
	if store == nil {
		store = fullStore{}
	}
	return mainWith(args, &env{stdout: stdout, stderr: stderr, disk: f.disk, openEngine: func(context.Context, engine.Options) (*engine.Engine, error) {
		return &engine.Engine{Name: "fake", Why: "of tests", Images: store, Sandbox: &f.fake, Close: func() error { return nil },
			Info: engine.Info{Version: "1", Kernel: "none", Architecture: "x86_64", CPUs: 2, StateDir: f.state, Store: "fake"}}, nil
	}})
}

var (
	nonceLine = regexp.MustCompile(`(?m)^nonce=(\w+)$`)
	markWord  = regexp.MustCompile(`\[evalrun \w+\]`)
)

// probed is what a sandbox that is cut off answers the engine's probe.
const probed = "interfaces lo\nroutes 0\nv4 Connection refused\nv6 Connection refused\nout4 Network is unreachable\nout6 Network is unreachable\nmetadata Network is unreachable\ndns none\n"

func (f *fakeEngine) exec(ctx context.Context, box *sandboxtest.FakeSandbox, cmd sandbox.Command) (sandbox.Result, error) {
	if box.Spec.Name == "probe" {
		io.WriteString(cmd.Output, probed)
		return sandbox.Result{}, nil
	}
	for _, file := range cmd.Files {
		if strings.Contains(string(file.Data), "PATCH-") {
			f.mu.Lock()
			f.patches[box] = string(file.Data)
			f.mu.Unlock()
		}
	}
	for _, file := range cmd.Files {
		if path.Ext(file.Path) != ".sh" {
			continue
		}
		// As long as something takes on a real engine, by a thousandth.
		if err := sandboxtest.Sleep(ctx, time.Duration(rand.IntN(2000))*time.Microsecond); err != nil {
			return sandbox.Result{}, err
		}
		text, code := f.answer(box, path.Base(file.Path))
		if strings.Contains(text, "HANG") {
			<-ctx.Done()
			return sandbox.Result{}, nil
		}
		if m := nonceLine.FindStringSubmatch(string(file.Data)); m != nil {
			text = strings.ReplaceAll(text, "NONCE", m[1])
		}
		text = strings.ReplaceAll(text, "MARK", markWord.FindString(string(file.Data)))
		if cmd.Output != nil {
			io.WriteString(cmd.Output, text)
		}
		if code != 0 {
			return sandbox.Result{ExitCode: code}, nil
		}
	}
	return sandbox.Result{}, nil
}

func (f *fakeEngine) answer(box *sandboxtest.FakeSandbox, script string) (text string, code int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	patch := f.patches[box]
	switch script {
	case "apply.sh":
		if strings.Contains(patch, "PATCH-BREAKS") {
			return "NONCE try 1 1 1 -\nNONCE failed\n", 1
		}
		return "NONCE try 1 1 0 -\nNONCE applied 1 1\n", 0
	case "restore.sh":
		return "NONCE path absent dGVzdHMvdGVzdF94LnB5\nNONCE try 1 1 0 -\nNONCE applied 1 1\n", 0
	case "snapshot.sh", "changes.sh":
		return "NONCE tree 0123456789abcdef0123456789abcdef01234567\nNONCE done\n", 0
	case "test.sh":
		f.tests = append(f.tests, box.Spec.Labels["evalrun.instance"])
		switch {
		case strings.Contains(patch, "PATCH-HANGS"):
			return "HANG", 0
		case strings.Contains(patch, "PATCH-FAILS"):
			return strings.Repeat("working\n", 50) + "FAILED tests/test_x.py::test_new\nPASSED tests/test_x.py::test_old\n=== 1 failed, 1 passed in 0.10s ===\n", 1
		}
		return strings.Repeat("working\n", 50) + "PASSED tests/test_x.py::test_new\nPASSED tests/test_x.py::test_old\n=== 2 passed in 0.10s ===\n", 0
	}
	return "", 0
}

// ran is how often tests were run.
func (f *fakeEngine) ran() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.tests)
}

// fullStore has every image.
type fullStore struct{}

func (fullStore) BuildKit(context.Context) (*client.Client, func(), error) {
	return nil, nil, errors.New("the fake engine builds nothing")
}
func (fullStore) Image(_ context.Context, ref string) (string, bool, error) {
	return "sha256:" + ref, true, nil
}
func (fullStore) ImageLabels(context.Context, string) (map[string]string, error) { return nil, nil }
func (fullStore) ResolvesImages() bool                                           { return true }
func (fullStore) Exporter() string                                               { return "" }
func (fullStore) Pull(context.Context, string) error                             { return nil }
func (fullStore) ImageEnv(context.Context, string) ([]string, error)             { return []string{"A=b"}, nil }
func (fullStore) RepoDigest(context.Context, string) string                      { return "" }
func (fullStore) EachImage(context.Context, func(string) (time.Time, bool), func(id, name, kind string, bytes int64, used time.Time)) error {
	return nil
}
func (fullStore) RemoveImage(context.Context, string) (bool, error) { return false, nil }
func (fullStore) RemoveImages(context.Context) (int, error)         { return 0, nil }

// goneStore is one from which every image has gone, and whose registry has none. It
// counts what it is asked to pull.
type goneStore struct {
	fullStore
	pulls atomic.Int64
}

func (*goneStore) Image(context.Context, string) (string, bool, error) { return "", false, nil }

func (s *goneStore) Pull(_ context.Context, ref string) error {
	s.pulls.Add(1)
	return fmt.Errorf("pull %s: there is nothing", ref)
}

// patchLine is a line of a file of predictions.
type patchLine struct {
	ID    string `json:"instance_id"`
	Model string `json:"model_name_or_path"`
	Patch string `json:"model_patch"`
}

// patchOf is a patch that says what will become of it, and is like no other of
// another number.
func patchOf(what string, n int) string {
	return fmt.Sprintf("diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new %s %d\n", what, n)
}

// writeRows writes a dataset of so many instances, name-000 and on.
func writeRows(t testing.TB, path string, n int) {
	t.Helper()
	var text strings.Builder
	for i := range n {
		row := map[string]any{
			"instance_id": fmt.Sprintf("name-%03d", i), "repo": "owner/name", "base_commit": "0123456789abcdef0123456789abcdef01234567", "version": "1",
			"patch": patchOf("PATCH-GOLD", i), "problem_statement": "-", "created_at": "2024-01-01T00:00:00Z",
			"test_patch":   "diff --git a/tests/test_x.py b/tests/test_x.py\nnew file mode 100644\n--- /dev/null\n+++ b/tests/test_x.py\n@@ -0,0 +1 @@\n+hidden test\n",
			"FAIL_TO_PASS": []string{"tests/test_x.py::test_new"}, "PASS_TO_PASS": []string{"tests/test_x.py::test_old"},
			"evalrun": map[string]any{"environment": map[string]any{"language": "py"}, "evaluation": map[string]any{"test": "run the tests", "log_parser": "parse_log_pytest"}},
		}
		data, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(data, '\n'))
	}
	writeText(t, path, text.String())
}

func writePredictions(t testing.TB, path string, list ...patchLine) {
	t.Helper()
	var text strings.Builder
	for _, p := range list {
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(data, '\n'))
	}
	writeText(t, path, text.String())
}

func writeText(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fakeRun is the command line of a run on the fake engine; out gets the results.
func fakeRun(data, out string, more ...string) []string {
	return append([]string{"run", "-d", filepath.Join(data, "rows.jsonl"), "-p", filepath.Join(data, "preds.jsonl"), "--out", out,
		"--lock-file", filepath.Join(out, "images.lock"), "--cache", filepath.Join(out, "cache"),
		"--images", "pull", "--audit", "no", "--cpus", "1", "-j", "2"}, more...)
}
