package builder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"

	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/internal/cause"
)

// fakeEngine is a store without a solver.
type fakeEngine struct {
	mu     sync.Mutex
	images map[string]string
	solves atomic.Int32
	pulls  atomic.Int32
}

var errNoSolver = errors.New("no solver here")

func (e *fakeEngine) BuildKit(context.Context) (*client.Client, func(), error) {
	e.solves.Add(1)
	return nil, nil, errNoSolver
}

func (e *fakeEngine) Image(_ context.Context, ref string) (string, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	digest, ok := e.images[ref]
	return digest, ok, nil
}

func (e *fakeEngine) Pull(_ context.Context, ref string) error {
	e.pulls.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.images[ref] = "sha256:pulled"
	return nil
}

func (e *fakeEngine) ImageLabels(context.Context, string) (map[string]string, error) { return nil, nil }
func (e *fakeEngine) ResolvesImages() bool                                           { return true }
func (e *fakeEngine) Exporter() string                                               { return "moby" }

func fakeBuilder(t *testing.T, e *fakeEngine, frozen bool) *Builder {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "images.lock")
	if frozen {
		if err := os.WriteFile(path, []byte(`{"schema_version": 1}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := images.OpenLock(path, frozen)
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Engine: e, CacheDir: dir, Lock: lock})
}

func spec() images.InstanceSpec {
	base := images.BaseSpec{Source: images.Source{Kind: "image", Ref: "base:1"}, Digest: "sha256:1", Platform: "linux/amd64"}
	return images.InstanceSpec{Env: images.EnvSpec{Base: base, Language: "sh"}, InstanceID: "o__n-1", Repo: "o/n", BaseCommit: strings.Repeat("a", 40),
		Deviations: []string{"submodule x is not checked out"}}
}

func stored(s images.InstanceSpec) map[string]string {
	return map[string]string{
		images.Reference(images.Base, s.Env.Base.Key()): "sha256:b",
		images.Reference(images.Env, s.Env.Key()):       "sha256:e",
		images.Reference(images.Instance, s.Key()):      "sha256:i",
	}
}

func TestStoredImagesAreNotBuilt(t *testing.T) {
	s := spec()
	s.Env.Deviations = []string{"python 3.9 in place of 3.6"}
	e := &fakeEngine{images: stored(s)}
	b := fakeBuilder(t, e, false)
	img, err := b.Instance(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	if img.Digest != "sha256:i" || img.Ref != images.Reference(images.Instance, s.Key()) || len(img.Env) == 0 {
		t.Errorf("got %+v", img)
	}
	if got := strings.Join(img.Deviations, "; "); got != "python 3.9 in place of 3.6; submodule x is not checked out" {
		t.Errorf("deviations: %s", got)
	}
	if n := e.solves.Load(); n != 0 {
		t.Errorf("%d solves", n)
	}
	if got, _ := b.o.Lock.Lookup(s.Key()); got.Digest != "sha256:i" || got.Name != "o__n-1" {
		t.Errorf("locked as %+v", got)
	}
}

// An image that was removed is looked for again, others are not.
func TestForget(t *testing.T) {
	s := spec()
	e := &fakeEngine{images: stored(s)}
	b := fakeBuilder(t, e, false)
	digest := func() string {
		t.Helper()
		img, err := b.Instance(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		return img.Digest
	}
	first := digest()
	e.images[images.Reference(images.Instance, s.Key())] = "sha256:again"
	b.Forget("sha256:another")
	if got := digest(); got != first {
		t.Errorf("with another one gone: %s", got)
	}
	b.Forget(first)
	if got := digest(); got != "sha256:again" {
		t.Errorf("when it is gone: %s", got)
	}
}

// A layer that fails fails once, whoever asks for it.
func TestFailureIsRememberedPerRun(t *testing.T) {
	e := &fakeEngine{images: map[string]string{}}
	b := fakeBuilder(t, e, false)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s := spec()
			s.InstanceID, s.BaseCommit = fmt.Sprint("o__n-", i), fmt.Sprintf("%040x", i)
			_, err := b.Instance(context.Background(), s)
			var failed *Error
			if !errors.As(err, &failed) || failed.Kind != images.Base || !errors.Is(err, errNoSolver) {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	if n := e.solves.Load(); n != 1 {
		t.Errorf("%d solves, want one", n)
	}
}

// What passes is not remembered as the layer's failure: the next that asks tries again,
// for ever where the engine is gone, and a few times otherwise.
func TestPassingFailures(t *testing.T) {
	for c, want := range map[cause.Cause]int{cause.Unknown: 1, cause.Image: 1, cause.Timeout: 3, cause.Disk: 3, cause.Memory: 3, cause.Network: 3, cause.Engine: 10} {
		b, tries := fakeBuilder(t, &fakeEngine{}, false), 0
		for range 10 {
			_, err := b.once(t.Context(), "k", func() (Image, error) {
				tries++
				return Image{}, &Error{Kind: images.Env, Err: cause.As(c, errors.New("boom"))}
			})
			if err == nil {
				t.Fatalf("%s: no error", c)
			}
		}
		if tries != want {
			t.Errorf("%s: tried %d times, want %d", c, tries, want)
		}
	}
	b := fakeBuilder(t, &fakeEngine{}, false)
	for i := range 3 {
		img, err := b.once(t.Context(), "k", func() (Image, error) {
			if i == 0 {
				return Image{}, cause.As(cause.Timeout, errors.New("slow"))
			}
			return Image{Ref: fmt.Sprint("built by ", i)}, nil
		})
		if want := i > 0; (err == nil) != want || want && img.Ref != "built by 1" {
			t.Errorf("call %d: %+v, %v", i, img, err)
		}
	}
}

func TestFrozenBuildsNothing(t *testing.T) {
	s := spec()
	e := &fakeEngine{images: stored(s)}
	if _, err := fakeBuilder(t, e, true).Instance(context.Background(), s); err == nil || !strings.Contains(err.Error(), "--frozen") {
		t.Errorf("an image the lock file does not have: %v", err)
	}
	// Locked, but gone from the store: what would be built now is another image.
	path := filepath.Join(t.TempDir(), "images.lock")
	lock, err := images.OpenLock(path, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{s.Env.Base.Key(), s.Env.Key(), s.Key()} {
		if err := lock.Record(key, images.LockEntry{Digest: "sha256:i"}); err != nil {
			t.Fatal(err)
		}
	}
	if lock, err = images.OpenLock(path, true); err != nil {
		t.Fatal(err)
	}
	e.images = map[string]string{}
	_, err = New(Options{Engine: e, CacheDir: t.TempDir(), Lock: lock}).Instance(context.Background(), s)
	if err == nil || !strings.Contains(err.Error(), "--frozen") || !strings.Contains(err.Error(), "not in the engine's store") {
		t.Errorf("got %v", err)
	}
	if n := e.solves.Load(); n != 0 {
		t.Errorf("%d solves", n)
	}
}

func TestBaseImageIsPulledOnce(t *testing.T) {
	e := &fakeEngine{images: map[string]string{}}
	b := fakeBuilder(t, e, false)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			digest, err := b.BaseDigest(context.Background(), images.Source{Kind: "image", Ref: "registry.example/x:1"})
			if err != nil || digest != "sha256:pulled" {
				t.Errorf("%q, %v", digest, err)
			}
		})
	}
	wg.Wait()
	if n := e.pulls.Load(); n != 1 {
		t.Errorf("%d pulls", n)
	}
}

// Who waits for a build that somebody else interrupted does it himself.
func TestInterruptedFlight(t *testing.T) {
	b := fakeBuilder(t, &fakeEngine{}, false)
	ctx, cancel := context.WithCancel(context.Background())
	started, second := make(chan struct{}), make(chan error)
	go func() {
		<-started
		_, err := b.once(context.Background(), "k", func() (Image, error) { return Image{Ref: "built"}, nil })
		second <- err
	}()
	_, err := b.once(ctx, "k", func() (Image, error) {
		close(started)
		time.Sleep(20 * time.Millisecond) // so that the other one is most likely waiting
		cancel()
		return Image{}, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("first: %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("second: %v", err)
	}
	img, err := b.once(ctx, "k", func() (Image, error) { t.Error("built again"); return Image{}, nil })
	if err != nil && !errors.Is(err, context.Canceled) || err == nil && img.Ref != "built" {
		t.Errorf("third: %+v, %v", img, err)
	}
}

func TestLooksTransient(t *testing.T) {
	for tail, want := range map[string]bool{
		"E: Failed to fetch https://x  Temporary failure resolving 'x'":                    true,
		"fatal: unable to access 'https://x/': Could not resolve host: x":                  true,
		"ERROR: HTTP error 503 Service Unavailable":                                        true,
		"npm ERR! 429 Too Many Requests - GET https://x":                                   true,
		"ReadTimeoutError(\"HTTPSConnectionPool(host='x', port=443): Read timed out.\")":   true,
		"urllib3.exceptions.ProtocolError: ('Connection broken: IncompleteRead(0 bytes)')": true,
		"E: Failed to fetch https://x  Hash Sum mismatch":                                  true,
		"go: x@v1: Get \"https://x\": dial tcp 1.2.3.4:443: i/o timeout":                   true,
		"ERROR: No matching distribution found for nosuch==1":                              false,
		"error: command 'gcc' failed with exit status 1":                                   false,
		"E: Unable to locate package nosuch":                                               false,
		"404 Not Found":                                                                    false,
		"":                                                                                 false,
	} {
		if got := looksTransient(&Error{Tail: "  | " + tail, Err: errors.New("exit code: 1")}); got != want {
			t.Errorf("%q: %v", tail, got)
		}
	}
	if !looksTransient(&Error{Err: errors.New("rpc error: connection reset by peer")}) {
		t.Error("an error of the solver itself")
	}
}

// What the solver fails of is not the recipe's doing, and what a step prints is.
func TestCauseOf(t *testing.T) {
	for text, want := range map[string]cause.Cause{
		"no active session for 6cdyvgd9fdxl3: context deadline exceeded":                 cause.Timeout,
		"failed to solve: failed to load LLB: context deadline exceeded":                 cause.Timeout,
		"failed to copy: write /layer: no space left on device":                          cause.Disk,
		`process "/bin/sh -c make" did not complete successfully: exit code: 2`:          cause.Unknown,
		`process "/bin/sh -c apt-get update" did not complete successfully: i/o timeout`: cause.Network,
	} {
		err := errors.New(text)
		if got := causeOf(err, &Error{Err: err}); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	err := errors.New("exit code: 1")
	if got := causeOf(err, &Error{Err: err, Tail: "test_deadline: context deadline exceeded"}); got != cause.Unknown {
		t.Errorf("what a step printed is taken for %q", got)
	}
}

func TestErrorText(t *testing.T) {
	e := &Error{Kind: images.Env, Name: "py 3.9", Step: "environment: packages", Tail: "  | one\n  | No matching distribution", Err: errors.New("exit code: 1")}
	if got, want := e.Error(), "step \"environment: packages\" of the env image failed: exit code: 1: No matching distribution\n  | one\n  | No matching distribution"; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	e = &Error{Kind: images.Base, Name: "debian:bookworm", Err: errors.New("no room")}
	if got := e.Error(); got != "base image of debian:bookworm: no room" {
		t.Errorf("got %q", got)
	}
}

func TestShorten(t *testing.T) {
	for text, want := range map[string]string{
		"process \"/bin/bash -c set -euo...\" did not complete successfully: exit code: 3":      "exit code: 3",
		"executor failed running [/bin/bash -c set -e\nexit code: 1 is fine\n]: exit code: 137": "exit code: 137",
		"executor failed running [/bin/bash -c set -e\n]: runc did not terminate successfully":  "runc did not terminate successfully",
		"failed to resolve source": "failed to resolve source",
	} {
		if got := shorten(errors.New(text)).Error(); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestBuildLogKeepsTheEndOfTheFailedStep(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	l := &buildLog{path: f.Name(), file: f, steps: map[string]*step{}}
	now := time.Now()
	one, two := digest.FromString("1"), digest.FromString("2")
	if began := l.write(&client.SolveStatus{Vertexes: []*client.Vertex{{Digest: one, Name: "first"}, {Digest: two, Name: "second", Started: &now}}}); began != "second" {
		t.Errorf("began %q", began)
	}
	var logs []*client.VertexLog
	for i := range 40 {
		logs = append(logs, &client.VertexLog{Vertex: two, Data: fmt.Appendf(nil, "line %d\nha", i)}, &client.VertexLog{Vertex: one, Data: []byte("other\n")})
	}
	logs = append(logs, &client.VertexLog{Vertex: two, Data: []byte(strings.Repeat("x", 1000))}, &client.VertexLog{Vertex: digest.FromString("3"), Data: []byte("stray\n")})
	l.write(&client.SolveStatus{Logs: logs})
	l.write(&client.SolveStatus{Vertexes: []*client.Vertex{
		{Digest: one, Name: "first", Started: &now, Completed: &now, Error: "context canceled"},
		{Digest: two, Name: "second", Started: &now, Completed: &now, Error: "process \"x\" did not complete successfully: exit code: 2"},
	}})
	l.Close()
	if l.failedStep() != "second" {
		t.Errorf("failed step %q", l.failedStep())
	}
	lines := strings.Split(l.tail(), "\n")
	if len(lines) != tailLines+1 || lines[len(lines)-2] != "  | haline 39" || len(lines[len(lines)-1]) > 310 || strings.Contains(l.tail(), "other") {
		t.Errorf("%d lines:\n%s", len(lines), l.tail())
	}
	data, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"=> second\n", "line 0\n", "other\n", "stray\n", "<= second: failed: exit code: 2\n"} {
		if !strings.Contains(string(data), text) {
			t.Errorf("%q is not in the log", text)
		}
	}
}

func TestSecrets(t *testing.T) {
	s := Settings{Env: []string{"PIP_INDEX_URL=https://user:pa'ss@x/simple", "EMPTY="}, CA: []byte("cert"), CondaRC: []byte("channels: []"), Composer: []byte("{}")}
	got := s.secrets("deb https://mirror.example/debian bookworm main\n")
	for name, want := range map[string]string{
		"evalrun-env": "PIP_INDEX_URL='https://user:pa'\\''ss@x/simple'\nEMPTY=''\n", "evalrun-ca": "cert", "evalrun-condarc": "channels: []", "evalrun-composer": "{}",
		"evalrun-sources": "deb https://mirror.example/debian bookworm main\n",
	} {
		if string(got[name]) != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if !strings.Contains(string(got["evalrun-apt"]), "/run/evalrun/sources.list") {
		t.Errorf("apt: %s", got["evalrun-apt"])
	}
	if got := (Settings{}).secrets(""); len(got["evalrun-ca"])+len(got["evalrun-apt"])+len(got["evalrun-sources"]) != 0 {
		t.Errorf("from nothing: %v", got)
	}
}

func TestHostSettings(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, name := range append([]string{"PIP_FIND_LINKS", "SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "PIP_CONFIG_FILE", "COMPOSER_HOME"}, passed...) {
		t.Setenv(name, "")
	}
	ca := filepath.Join(home, "ca.pem")
	conf := filepath.Join(home, ".config", "pip", "pip.conf")
	for name, text := range map[string]string{
		ca:                              "CERTIFICATE",
		conf:                            "[global]\nindex-url = https://from.conf/simple\ncert = /somewhere/ca.pem\ntimeout=7\n[freeze]\ntimeout=9\n",
		filepath.Join(home, ".condarc"): "channels: [x]",

		filepath.Join(home, ".composer", "config.json"): `{"home": 1}`,
		filepath.Join(home, "own", "config.json"):       `{"home": 2}`,
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SSL_CERT_FILE", ca)
	t.Setenv("HTTPS_PROXY", "http://proxy.example:3128")
	t.Setenv("PIP_FIND_LINKS", "/a/folder/here")
	t.Setenv("GOPROXY", "https://proxy.example")
	s := HostSettings()
	env := "\n" + strings.Join(s.Env, "\n") + "\n"
	for _, want := range []string{"\nHTTPS_PROXY=http://proxy.example:3128\n", "\nPIP_INDEX_URL=https://from.conf/simple\n", "\nPIP_TIMEOUT=7\n", "\nGOPROXY=https://proxy.example\n"} {
		if !strings.Contains(env, want) {
			t.Errorf("%q is missing in %s", want, env)
		}
	}
	for _, never := range []string{"/a/folder", "/somewhere", ca, "PIP_CERT"} {
		if strings.Contains(env, never) {
			t.Errorf("%q names a place of this machine: %s", never, env)
		}
	}
	if string(s.CA) != "CERTIFICATE" || string(s.CondaRC) != "channels: [x]" {
		t.Errorf("CA %q, condarc %q", s.CA, s.CondaRC)
	}
	if string(s.Composer) != `{"home": 1}` {
		t.Errorf("Composer's configuration %q", s.Composer)
	}
	t.Setenv("COMPOSER_HOME", filepath.Join(home, "own"))
	if s := HostSettings(); string(s.Composer) != `{"home": 2}` {
		t.Errorf("Composer's configuration at COMPOSER_HOME %q", s.Composer)
	}
	// The environment goes before pip's files.
	t.Setenv("PIP_INDEX_URL", "https://from.env/simple")
	if env := strings.Join(HostSettings().Env, "\n"); !strings.Contains(env, "PIP_INDEX_URL=https://from.env/simple") || strings.Contains(env, "from.conf") {
		t.Errorf("got %s", env)
	}
}
