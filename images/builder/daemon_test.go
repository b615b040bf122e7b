package builder_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/buildkit/client"

	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/builder"
	"github.com/evalrun/evalrun/internal/sandbox/docker"
	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

// counting is the daemon's engine; it counts how often it is asked to solve.
type counting struct {
	*docker.Client
	solves *atomic.Int32
}

func (c counting) BuildKit(ctx context.Context) (*client.Client, error) {
	c.solves.Add(1)
	return c.Client.BuildKit(ctx)
}

// kit is what a test builds with.
type kit struct {
	t      *testing.T
	engine counting
	base   string // image with all that the layers' scripts call
	cache  string
	repo   string // work tree of o/n
	nonce  string
}

func newKit(t *testing.T) *kit {
	t.Helper()
	image := dockertest.Image(t)
	k := &kit{t: t, cache: t.TempDir(), repo: filepath.Join(t.TempDir(), "n"), nonce: fmt.Sprint(time.Now().UnixNano())}
	c, err := docker.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	k.engine = counting{c, new(atomic.Int32)}
	k.base = k.completed(image)
	k.git("init", "-q", "--template=", k.repo)
	return k
}

func (k *kit) run(name string, args ...string) string {
	k.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		k.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// completed adds to the test image what building calls and grading does not.
func (k *kit) completed(image string) string {
	k.t.Helper()
	ref := strings.Replace(image, "evalrun/test:", "evalrun/test-base:", 1) + "-3"
	if exec.Command("docker", "image", "inspect", ref).Run() == nil {
		return ref
	}
	// docker cp makes no folders but those it copies.
	stage := k.t.TempDir()
	core := k.run("git", "--exec-path")
	for _, path := range []string{"/usr/bin/chown", "/usr/bin/comm", core + "/git-submodule", core + "/git-sh-setup", core + "/git-sh-i18n"} {
		k.run("mkdir", "-p", filepath.Join(stage, filepath.Dir(path)))
		k.run("cp", "-L", path, filepath.Join(stage, path))
	}
	id := k.run("docker", "create", image, "true")
	defer k.run("docker", "rm", id)
	k.run("docker", "cp", stage+"/.", id+":/")
	k.run("docker", "commit", id, ref)
	return ref
}

func (k *kit) git(args ...string) string {
	k.t.Helper()
	return k.run("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"}, args...)...)
}

// commit writes a.txt and commits it.
func (k *kit) commit(text string) string {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.repo, "a.txt"), []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
	k.git("-C", k.repo, "add", "-A")
	k.git("-C", k.repo, "commit", "-q", "-m", text)
	return k.git("-C", k.repo, "rev-parse", "HEAD")
}

// builder returns a Builder with flights of its own.
func (k *kit) builder(change func(*builder.Options)) *builder.Builder {
	k.t.Helper()
	lock, err := images.OpenLock(filepath.Join(k.cache, "images.lock"), false)
	if err != nil {
		k.t.Fatal(err)
	}
	o := builder.Options{Engine: k.engine, CacheDir: k.cache, Lock: lock, Parallel: 4}
	if change != nil {
		change(&o)
	}
	return builder.New(o)
}

// spec is an instance of o/n whose env nobody has built.
func (k *kit) spec(b *builder.Builder, commit string) images.InstanceSpec {
	k.t.Helper()
	source := images.Source{Kind: "image", Ref: k.base}
	digest, err := b.BaseDigest(context.Background(), source)
	if err != nil {
		k.t.Fatal(err)
	}
	return images.InstanceSpec{
		Env: images.EnvSpec{
			Base: images.BaseSpec{Source: source, Digest: digest, Platform: "linux/amd64"}, Language: "sh",
			Commands: []string{"echo " + k.nonce + " > /etc/env-of-test"},
		},
		InstanceID: "o__n-" + commit[:6], Repo: "o/n", BaseCommit: commit, Mirror: filepath.Join(k.repo, ".git"),
	}
}

func (k *kit) build(b *builder.Builder, spec images.InstanceSpec) builder.Image {
	k.t.Helper()
	img, err := b.Instance(context.Background(), spec)
	if err != nil {
		k.t.Fatal(err)
	}
	k.forget(spec)
	return img
}

// forget removes the images of a spec when the test is over.
func (k *kit) forget(spec images.InstanceSpec) {
	k.t.Cleanup(func() {
		for _, ref := range []string{images.Reference(images.Instance, spec.Key()), images.Reference(images.Env, spec.Env.Key())} {
			exec.Command("docker", "rmi", "-f", ref).Run()
		}
	})
}

// inside runs a script in a container of an image, without network.
func (k *kit) inside(img builder.Image, script string) string {
	k.t.Helper()
	return k.run("docker", "run", "--rm", "--network", "none", img.Ref, "bash", "-c", script)
}

func TestInstanceImage(t *testing.T) {
	k := newKit(t)
	k.commit("one")
	base := k.commit("two")
	later := k.commit("three")
	var mu sync.Mutex
	var events []builder.Event
	b := k.builder(func(o *builder.Options) {
		o.Progress = func(e builder.Event) { mu.Lock(); events = append(events, e); mu.Unlock() }
	})
	spec := k.spec(b, base)
	spec.Install = []string{"echo installed > /opt/installed", "echo $LANG $HOME $TZ $PATH > /opt/environment"}
	img := k.build(b, spec)

	out := k.inside(img, "pwd; cat a.txt; echo; git rev-parse HEAD; git status --porcelain; git cat-file -e "+later+" 2>/dev/null && echo leak; cat /opt/installed /etc/env-of-test /opt/environment")
	want := "/testbed\ntwo\n" + base + "\ninstalled\n" + k.nonce + "\nC.UTF-8 /root Etc/UTC /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if out != want {
		t.Errorf("inside:\n%s\nwant:\n%s", out, want)
	}
	labels := k.run("docker", "image", "inspect", "--format", `{{index .Config.Labels "evalrun.instance"}} {{index .Config.Labels "evalrun.base_commit"}} {{index .Config.Labels "evalrun.kind"}}`, img.Ref)
	if labels != spec.InstanceID+" "+base+" instance" {
		t.Errorf("labels: %s", labels)
	}
	if id := k.run("docker", "image", "inspect", "--format", "{{.Id}}", img.Ref); id != img.Digest {
		t.Errorf("digest %s, the store says %s", img.Digest, id)
	}
	done := map[images.Kind]int{}
	for _, e := range events {
		if e.Done {
			done[e.Kind]++
			if e.Err != nil || e.Kind != images.Base && e.Cached {
				t.Errorf("event %+v", e)
			}
		}
	}
	if done[images.Env] != 1 || done[images.Instance] != 1 {
		t.Errorf("done: %v", done)
	}

	// The second call, of this run or another, solves nothing.
	before := k.engine.solves.Load()
	for _, again := range []*builder.Builder{b, k.builder(nil)} {
		if second := k.build(again, spec); second.Digest != img.Digest {
			t.Errorf("second call: %+v", second)
		}
	}
	if n := k.engine.solves.Load() - before; n != 0 {
		t.Errorf("%d solves for what is there", n)
	}
	frozen, err := images.OpenLock(filepath.Join(k.cache, "images.lock"), true)
	if err != nil {
		t.Fatal(err)
	}
	k.build(k.builder(func(o *builder.Options) { o.Lock = frozen }), spec)
}

func TestTwentyInstancesBuildOneEnv(t *testing.T) {
	k := newKit(t)
	var commits []string
	for i := range 20 {
		commits = append(commits, k.commit(fmt.Sprint(i)))
	}
	b := k.builder(nil)
	var specs []images.InstanceSpec
	for _, c := range commits {
		specs = append(specs, k.spec(b, c))
	}
	plan := images.NewPlan(specs)
	if len(plan.Bases) != 1 || len(plan.Envs) != 1 || len(plan.Instances) != 20 {
		t.Fatalf("plan: %d bases, %d envs, %d instances", len(plan.Bases), len(plan.Envs), len(plan.Instances))
	}
	if _, ok, err := k.engine.Image(context.Background(), images.Reference(images.Base, specs[0].Env.Base.Key())); err != nil {
		t.Fatal(err)
	} else if !ok {
		k.engine.solves.Add(-1) // the base too
	}
	var wg sync.WaitGroup
	for _, s := range specs {
		k.forget(s)
		wg.Go(func() {
			if _, err := b.Instance(context.Background(), s); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := k.engine.solves.Load(); n != 21 {
		t.Errorf("%d solves, want one env and 20 instances", n)
	}
}

func TestFailingStep(t *testing.T) {
	k := newKit(t)
	good := k.commit("good")
	bad := k.commit("bad")
	b := k.builder(nil)
	spec := k.spec(b, bad)
	spec.Install = []string{"for i in $(seq 40); do echo line $i; done", "echo cannot find -lfoo >&2; exit 3"}
	_, err := b.Instance(context.Background(), spec)
	var failed *builder.Error
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	if failed.Step != "install "+spec.InstanceID || failed.Kind != images.Instance || failed.Err.Error() != "exit code: 3" {
		t.Errorf("step %q of %s: %v", failed.Step, failed.Kind, failed.Err)
	}
	if !strings.HasSuffix(failed.Tail, "| cannot find -lfoo") || !strings.Contains(failed.Tail, "line 40") || strings.Contains(failed.Tail, "line 2\n") {
		t.Errorf("tail:\n%s", failed.Tail)
	}
	if log, err := os.ReadFile(failed.Log); err != nil || !strings.Contains(string(log), "line 2\n") {
		t.Errorf("log %s: %v\n%s", failed.Log, err, log)
	}
	if _, ok := k.lookup(spec); ok {
		t.Error("a failed image is in the lock file")
	}
	// The others go on.
	k.build(b, k.spec(b, good))
}

func (k *kit) lookup(spec images.InstanceSpec) (images.LockEntry, bool) {
	k.t.Helper()
	lock, err := images.OpenLock(filepath.Join(k.cache, "images.lock"), false)
	if err != nil {
		k.t.Fatal(err)
	}
	return lock.Lookup(spec.Key())
}

// An install step that brings later history fails the build.
func TestLaterCommitFailsTheBuild(t *testing.T) {
	k := newKit(t)
	commit := k.commit("one")
	b := k.builder(nil)
	spec := k.spec(b, commit)
	spec.Install = []string{"git commit -q --allow-empty -m later", "git tag fix", "git checkout -q --detach HEAD^"}
	_, err := b.Instance(context.Background(), spec)
	if err == nil || !strings.Contains(err.Error(), "history check failed") {
		t.Errorf("got %v", err)
	}
}

// Two runs on one machine build a layer once.
func TestTwoBuildersBuildOnce(t *testing.T) {
	k := newKit(t)
	commit := k.commit("one")
	first := k.builder(nil)
	spec := k.spec(first, commit)
	k.build(first, spec) // the base, and the env
	spec.Install = []string{"sleep 1"}
	k.forget(spec)
	before := k.engine.solves.Load()
	var wg sync.WaitGroup
	digests := make([]string, 3)
	for i := range digests {
		wg.Go(func() {
			img, err := k.builder(nil).Instance(context.Background(), spec)
			if err != nil {
				t.Error(err)
			}
			digests[i] = img.Digest
		})
	}
	wg.Wait()
	if n := k.engine.solves.Load() - before; n != 1 {
		t.Errorf("%d solves", n)
	}
	if digests[0] != digests[1] || digests[0] != digests[2] {
		t.Errorf("digests %v", digests)
	}
}

func TestCancelledBuildCanBeTriedAgain(t *testing.T) {
	k := newKit(t)
	commit := k.commit("one")
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("stopped by the user")
	// How long the step takes comes from the settings, which are not in the key.
	slow := k.builder(func(o *builder.Options) {
		o.Settings.Env = []string{"TEST_SLEEP=300"}
		o.Progress = func(e builder.Event) {
			if strings.HasPrefix(e.Step, "install ") {
				cancel(stop)
			}
		}
	})
	spec := k.spec(slow, commit)
	spec.Install = []string{"sleep ${TEST_SLEEP:-0}"}
	if _, err := slow.Instance(ctx, spec); !errors.Is(err, stop) {
		t.Fatalf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(k.cache, "tmp", "*")); left != nil {
		t.Errorf("left: %v", left)
	}
	k.build(k.builder(nil), spec)
}

// Settings of this machine reach the steps, and nothing else.
func TestSettingsStayOutOfImages(t *testing.T) {
	k := newKit(t)
	commit := k.commit("one")
	secret := "secret" + k.nonce
	b := k.builder(func(o *builder.Options) {
		o.Settings = builder.Settings{
			Env: []string{"PIP_INDEX_URL=https://user:" + secret + "@index.example/it's"}, CA: []byte("certificate " + secret), CondaRC: []byte("channels: " + secret),
		}
	})
	spec := k.spec(b, commit)
	without := spec.Key()
	spec.Install = []string{
		`[ "$PIP_INDEX_URL" = "https://user:` + "secret$(cat /etc/env-of-test)" + `@index.example/it's" ] || { echo "no index: $PIP_INDEX_URL"; exit 1; }`,
		`[ "$SSL_CERT_FILE" = /run/evalrun/ca.crt ] && grep -q certificate "$SSL_CERT_FILE" && grep -q channels /run/evalrun/condarc`,
	}
	img := k.build(b, spec)
	if spec := k.spec(k.builder(nil), commit); spec.Key() != without {
		t.Error("settings change the key")
	}
	for what, text := range map[string]string{
		"history":       k.run("docker", "history", "--no-trunc", img.Ref),
		"configuration": k.run("docker", "image", "inspect", img.Ref),
		"environment":   k.inside(img, "env"),
		"lock file":     k.run("cat", filepath.Join(k.cache, "images.lock")),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("%s: the secret is in it:\n%s", what, text)
		}
		if what != "history" && strings.Contains(text, "/run/evalrun") {
			t.Errorf("%s: places of the build are in it:\n%s", what, text)
		}
	}
	k.eachFile(img, func(name string, r io.Reader) {
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), secret) {
			t.Errorf("%s holds the secret", name)
		}
		if strings.HasPrefix(name, "run/evalrun/") && name != "run/evalrun/" {
			t.Errorf("%s is left", name)
		}
	})
}

// eachFile reads the file system of an image.
func (k *kit) eachFile(img builder.Image, f func(name string, r io.Reader)) {
	k.t.Helper()
	id := k.run("docker", "create", img.Ref, "true")
	defer k.run("docker", "rm", id)
	cmd := exec.Command("docker", "export", id)
	out, err := cmd.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	n := 0
	for r := tar.NewReader(out); ; n++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			k.t.Fatal(err)
		}
		f(h.Name, r)
	}
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil || n == 0 {
		k.t.Errorf("export: %v, %d files", err, n)
	}
}

func TestDockerfileRow(t *testing.T) {
	k := newKit(t)
	base := k.commit("one")
	later := k.commit("two")
	b := k.builder(nil)
	spec := images.InstanceSpec{
		InstanceID: "o__n-own", Repo: "o/n", BaseCommit: base, Mirror: filepath.Join(k.repo, ".git"),
		Dockerfile: "FROM " + k.base + "\nCOPY repository /testbed\nWORKDIR /testbed\nENV OWN=" + k.nonce + "\nRUN git checkout -q --force --detach HEAD && test -f a.txt\n",
	}
	img := k.build(b, spec)
	if out := k.inside(img, "cat a.txt; echo; git rev-parse HEAD; echo $OWN; git cat-file -e "+later+" 2>/dev/null && echo leak || true"); out != "one\n"+base+"\n"+k.nonce {
		t.Errorf("inside: %s", out)
	}
	if label := k.run("docker", "image", "inspect", "--format", `{{index .Config.Labels "evalrun.kind"}}`, img.Ref); label != "instance" {
		t.Errorf("label %q", label)
	}
	spec.Dockerfile = "FROM " + k.base + "\nRUN echo words; exit 4\n"
	_, err := b.Instance(context.Background(), spec)
	var failed *builder.Error
	if !errors.As(err, &failed) || !strings.Contains(failed.Step, "RUN echo words") || !strings.Contains(failed.Tail, "words") {
		t.Errorf("failing RUN: %v", err)
	}
}

// pin commits a submodule.
func (k *kit) pin(name, url, path, commit string) string {
	k.t.Helper()
	k.git("config", "--file", filepath.Join(k.repo, ".gitmodules"), "submodule."+name+".path", path)
	k.git("config", "--file", filepath.Join(k.repo, ".gitmodules"), "submodule."+name+".url", url)
	// A folder, or adding everything later would drop it.
	k.run("mkdir", "-p", filepath.Join(k.repo, path))
	k.git("-C", k.repo, "update-index", "--add", "--cacheinfo", "160000,"+commit+","+path)
	k.git("-C", k.repo, "add", ".gitmodules")
	k.git("-C", k.repo, "commit", "-q", "-m", "pin")
	return k.git("-C", k.repo, "rev-parse", "HEAD")
}

func TestSubmoduleInTheImage(t *testing.T) {
	k := newKit(t)
	lib := &kit{t: t, repo: filepath.Join(t.TempDir(), "lib")}
	lib.git("init", "-q", "--template=", lib.repo)
	inner := lib.commit("inner")
	lib.pin("lib", "../lib.git", "in", inner)
	// Nobody has this one; the others are checked out all the same.
	lib.pin("absent", "../absent.git", "gone", inner)
	lib.commit("library")
	pinned := lib.git("-C", lib.repo, "rev-parse", "HEAD")
	lib.commit("later library")
	commit := k.pin("lib", "https://forge.example/o/lib.git", "vendor/my lib", pinned)

	mirrors := mirrorsAt(map[string]string{"o/lib": filepath.Join(lib.repo, ".git")})
	subs, err := mirrors.Submodules(context.Background(), "o/n", filepath.Join(k.repo, ".git"), commit)
	if err != nil || len(subs) != 1 || subs[0].Missing != "" || len(subs[0].Submodules) != 2 {
		t.Fatalf("%+v, %v", subs, err)
	}
	b := k.builder(nil)
	spec := k.spec(b, commit)
	spec.Submodules = subs
	img := k.build(b, spec)
	// What official scripts do, without network.
	out := k.inside(img, "git submodule update --init && cat 'vendor/my lib/a.txt' 'vendor/my lib/in/a.txt' && git status --porcelain && git -C 'vendor/my lib' log --format=%H")
	if !strings.HasSuffix(out, "libraryinner"+pinned) {
		t.Errorf("inside: %q", out)
	}
}

// Bases that are no image of the engine.
func TestRootFSBase(t *testing.T) {
	k := newKit(t)
	id := k.run("docker", "create", k.base, "true")
	defer k.run("docker", "rm", id)
	path := filepath.Join(t.TempDir(), "system.tar")
	k.run("docker", "export", "-o", path, id)
	commit := k.commit("one")
	for _, source := range []images.Source{{Kind: "rootfs", Ref: path}, {Kind: "rootfs", Ref: k.compressed(path)}, {Kind: "oci-layout", Ref: k.layout(path)}} {
		t.Run(source.Kind, func(t *testing.T) {
			k := *k
			k.t = t
			b := k.builder(nil)
			digest, err := b.BaseDigest(context.Background(), source)
			if err != nil {
				t.Fatal(err)
			}
			spec := k.spec(b, commit)
			spec.Env.Base = images.BaseSpec{Source: source, Digest: digest, Platform: "linux/amd64"}
			img := k.build(b, spec)
			t.Cleanup(func() { exec.Command("docker", "rmi", "-f", images.Reference(images.Base, spec.Env.Base.Key())).Run() })
			if out := k.inside(img, "cat a.txt; id -u nonroot"); out != "one1000" {
				t.Errorf("inside: %s", out)
			}
		})
	}
}
