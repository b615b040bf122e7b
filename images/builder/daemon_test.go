package builder_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/builder"
)

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

// What a step notes is known of the image, also to those who only find it.
func TestDeviationsOfTheSteps(t *testing.T) {
	k := newKit(t)
	b := k.builder(nil)
	spec := k.spec(b, k.commit("one"))
	spec.Deviations = []string{"known before"}
	spec.Install = []string{"echo 'a deviation: it'\\''s \"odd\"' >> /opt/evalrun/deviations.txt"}
	spec.Build, spec.Test = []string{"echo " + k.nonce, "exit 3"}, "test -f a.txt"
	want := []string{"known before", `a deviation: it's "odd"`, "a build step failed with exit code 3 while the image was made; the tests pass at base_commit without it"}
	if img := k.build(b, spec); !slices.Equal(img.Deviations, want) {
		t.Errorf("deviations %q, want %q", img.Deviations, want)
	}
	if img := k.build(k.builder(nil), spec); !slices.Equal(img.Deviations, want) {
		t.Errorf("of the image in the store: %q, want %q", img.Deviations, want)
	}
	spec.Test = "test -f b.txt"
	_, err := b.Instance(context.Background(), spec)
	var failed *builder.Error
	if !errors.As(err, &failed) || !strings.Contains(failed.Tail, k.nonce) || !strings.Contains(failed.Step, "without a failed build") {
		t.Errorf("a build the tests need: %v", err)
	}
}

func TestDockerfileRow(t *testing.T) {
	k := newKit(t)
	base := k.commit("one")
	later := k.commit("two")
	b := k.builder(func(o *builder.Options) { o.Settings.Env = []string{"no_proxy=of-this-machine", "PIP_PROXY=other"} })
	spec := images.InstanceSpec{
		InstanceID: "o__n-own", Repo: "o/n", BaseCommit: base, Mirror: filepath.Join(k.repo, ".git"),
		Dockerfile: "FROM " + k.base + "\nCOPY repository /testbed\nWORKDIR /testbed\nENV OWN=" + k.nonce + "\nRUN git checkout -q --force --detach HEAD && test -f a.txt\n" +
			// Proxies are there for the steps only.
			"RUN test \"$no_proxy\" = of-this-machine && test -z \"$PIP_PROXY\"\n",
	}
	img := k.build(b, spec)
	if text := k.run("docker", "history", "--no-trunc", img.Ref) + k.run("docker", "image", "inspect", img.Ref); strings.Contains(text, "of-this-machine\"") {
		t.Errorf("the proxy is in the image:\n%s", text)
	}
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
	out := k.inside(img, "git submodule update --init >/dev/null 2>&1 && cat 'vendor/my lib/a.txt' 'vendor/my lib/in/a.txt' && git status --porcelain && git -C 'vendor/my lib' log --format=%H")
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

// An image made elsewhere brings the fix in its history. Scrubbed, it does not.
func TestScrub(t *testing.T) {
	k := newKit(t)
	base := k.commit("one")
	later := k.commit("two")
	b := k.builder(nil)
	ref := "evalrun/test-leaky:" + k.nonce
	context := t.TempDir()
	k.git("clone", "-q", "--no-hardlinks", k.repo, filepath.Join(context, "repository"))
	recipe := "FROM " + k.base + "\nCOPY repository /testbed\nENV OWN=kept\nRUN cd /testbed && git checkout -q " + base + " && echo changed >>a.txt\n"
	if err := os.WriteFile(filepath.Join(context, "Dockerfile"), []byte(recipe), 0o644); err != nil {
		t.Fatal(err)
	}
	k.run("env", "DOCKER_BUILDKIT=0", "docker", "build", "-q", "--network", "none", "-t", ref, context)
	t.Cleanup(func() { k.run("docker", "rmi", "-f", ref) })
	digest, ok, err := k.engine.Image(t.Context(), ref)
	if err != nil || !ok {
		t.Fatal(err)
	}
	look := "cd /testbed; cat a.txt; git rev-parse HEAD; echo $OWN; git cat-file -e " + later + " 2>/dev/null && echo leak; git remote; git status --short a.txt; true"
	if out := k.inside(builder.Image{Ref: ref, Digest: digest}, look); !strings.Contains(out, "leak") {
		t.Fatalf("the image does not leak, so there is nothing to test: %s", out)
	}
	img, err := b.Scrub(t.Context(), ref, digest, []string{"OWN=kept", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
	if err != nil {
		t.Fatal(err)
	}
	if out, want := k.inside(img, look), "onechanged\n"+base+"\nkept\n M a.txt"; out != want {
		t.Errorf("scrubbed: %q, want %q", out, want)
	}
}
