package images

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lockHelper is set in a process that only records entries: see TestMain.
const lockHelper = "EVALRUN_TEST_LOCK"

func TestMain(m *testing.M) {
	if path := os.Getenv(lockHelper); path != "" {
		recordMany(path, os.Args[len(os.Args)-1])
		return
	}
	os.Exit(m.Run())
}

func recordMany(path, prefix string) {
	l, err := OpenLock(path, false)
	if err == nil {
		fmt.Println("ready")
		bufio.NewReader(os.Stdin).ReadString('\n')
		for i := 0; i < 20 && err == nil; i++ {
			err = l.Record(fmt.Sprintf("%s-%d", prefix, i), LockEntry{Kind: Env, Digest: fmt.Sprintf("sha256:%d", i)})
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func entries(t *testing.T, path string) map[string]LockEntry {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f lockFile
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f.Images
}

func TestLockRecordsAndIsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.lock")
	l, err := OpenLock(path, false)
	if err != nil {
		t.Fatal(err)
	}
	e := LockEntry{Kind: Instance, Digest: "sha256:1", Name: "psf__requests-1"}
	if err := l.Record("k", e); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(path)
	if err := l.Record("k", e); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Stat(path); !os.SameFile(before, after) {
		t.Error("an entry that was there already has been written again")
	}
	again, err := OpenLock(path, true)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := again.Lookup("k"); !ok || got != e {
		t.Errorf("read back %+v, %v", got, ok)
	}
	if _, ok := again.Lookup("other"); ok {
		t.Error("an entry nobody recorded")
	}
	changed := e
	changed.Digest = "sha256:2"
	if err := l.Record("k", changed); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, path)["k"]; got != changed {
		t.Errorf("after a rebuild: %+v", got)
	}
}

func TestLockWithoutAFile(t *testing.T) {
	l, err := OpenLock("", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Record("k", LockEntry{Kind: Base, Digest: "sha256:1"}); err != nil {
		t.Error(err)
	}
	if _, ok := l.Lookup("k"); !ok {
		t.Error("not remembered")
	}
}

func TestFrozenRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.lock")
	if _, err := OpenLock(path, true); err == nil || !strings.Contains(err.Error(), "run once without --frozen") {
		t.Errorf("no file: %v", err)
	}
	l, err := OpenLock(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Record("k", LockEntry{Kind: Env, Digest: "sha256:1"}); err != nil {
		t.Fatal(err)
	}
	frozen, err := OpenLock(path, true)
	if err != nil {
		t.Fatal(err)
	}
	if !frozen.Frozen() || l.Frozen() {
		t.Error("Frozen does not tell")
	}
	for _, test := range []struct {
		key string
		e   LockEntry
		say string
	}{
		{"k", LockEntry{Kind: Env, Digest: "sha256:1"}, ""},
		{"k", LockEntry{Kind: Env}, ""}, // not built yet
		{"k", LockEntry{Kind: Env, Digest: "sha256:2", Name: "py 3.9"}, "is sha256:2"},
		{"other-key-of-some-length", LockEntry{Kind: Env, Name: "py 3.9"}, "env image other-key-of (py 3.9) is not in"},
	} {
		for what, err := range map[string]error{"check": frozen.Check(test.key, test.e), "record": frozen.Record(test.key, test.e)} {
			if test.say == "" && err != nil || test.say != "" && (err == nil || !strings.Contains(err.Error(), test.say) || !strings.Contains(err.Error(), "--frozen")) {
				t.Errorf("%s %+v: %v, want %q", what, test.e, err, test.say)
			}
		}
	}
	if got := entries(t, path); len(got) != 1 || got["k"].Digest != "sha256:1" {
		t.Errorf("a frozen lock has changed: %v", got)
	}
}

func TestLockFileThatCannotBeUsed(t *testing.T) {
	for name, test := range map[string][2]string{
		"torn":           {`{"schema_version": 1, "images": {"k": {"ki`, "delete it to start afresh"},
		"empty":          {``, "delete it to start afresh"},
		"not JSON":       {`hello`, "delete it to start afresh"},
		"foreign schema": {`{"schema_version": 2, "images": {}}`, "schema_version 2, want 1"},
		"no schema":      {`{"images": {}}`, "schema_version 0, want 1"},
		"other shape":    {`{"schema_version": 1, "images": []}`, "delete it"},
	} {
		path := filepath.Join(t.TempDir(), "images.lock")
		if err := os.WriteFile(path, []byte(test[0]), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenLock(path, false); err == nil || !strings.Contains(err.Error(), test[1]) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "images.lock")
	if err := os.WriteFile(path, []byte(`{"schema_version": 1, "images": null}`), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLock(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Record("k", LockEntry{}); err != nil {
		t.Error(err)
	}
}

// A file that another version replaced meanwhile is not written over.
func TestRecordLeavesAForeignFileAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.lock")
	l, err := OpenLock(path, false)
	if err != nil {
		t.Fatal(err)
	}
	foreign := `{"schema_version": 2, "images": {"theirs": {}}}`
	if err := os.WriteFile(path, []byte(foreign), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the failure must not count as recorded
		if err := l.Record("k", LockEntry{Kind: Env}); err == nil || !strings.Contains(err.Error(), "schema_version 2") {
			t.Errorf("got %v", err)
		}
	}
	if data, _ := os.ReadFile(path); string(data) != foreign {
		t.Errorf("file is now %s", data)
	}
	if err := l.Check("k", LockEntry{}); err != nil {
		t.Error(err)
	}
}

// What another run recorded since this one opened the file stays.
func TestRecordKeepsWhatOthersWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.lock")
	one, err := OpenLock(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Record("shared", LockEntry{Kind: Env, Digest: "old"}); err != nil {
		t.Fatal(err)
	}
	two, err := OpenLock(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Record("shared", LockEntry{Kind: Env, Digest: "new"}); err != nil {
		t.Fatal(err)
	}
	if err := one.Record("mine", LockEntry{Kind: Env, Digest: "x"}); err != nil {
		t.Fatal(err)
	}
	got := entries(t, path)
	if got["shared"].Digest != "new" || got["mine"].Digest != "x" {
		t.Errorf("got %v", got)
	}
}

func TestTwoProcessesRecordAtOnce(t *testing.T) {
	exe, err := os.Executable()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system does not tell the test's own executable")
	}
	path := filepath.Join(t.TempDir(), "images.lock")
	var start []func() error
	for _, prefix := range []string{"a", "b"} {
		cmd := exec.Command(exe, prefix)
		cmd.Env = append(os.Environ(), lockHelper+"="+path)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		start = append(start, func() error { in.Close(); return nil }, func() error {
			said, _ := lines.ReadString(0)
			if err := cmd.Wait(); err != nil {
				return fmt.Errorf("%w: %s", err, said)
			}
			return nil
		})
	}
	for _, i := range []int{0, 2, 1, 3} {
		if err := start[i](); err != nil {
			t.Error(err)
		}
	}
	if got := entries(t, path); len(got) != 40 {
		t.Errorf("%d entries of 40 are left", len(got))
	}
}

func FuzzOpenLock(f *testing.F) {
	f.Add(`{"schema_version": 1, "images": {"k": {"kind": "env", "digest": "sha256:1", "name": "n"}}}`)
	f.Add(`{"schema_version": 1, "images": null}`)
	f.Add(`{"schema_version": 2}`)
	f.Add(``)
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "images.lock")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := OpenLock(path, false)
		if err != nil {
			return
		}
		e := LockEntry{Kind: Base, Digest: "sha256:fuzz", Name: "fuzz"}
		if err := l.Record("fuzz", e); err != nil {
			t.Fatalf("a file that can be read cannot be added to: %v", err)
		}
		again, err := OpenLock(path, true)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := again.Lookup("fuzz"); got != e {
			t.Errorf("read back %+v", got)
		}
	})
}
