// Package builder drives a BuildKit: it solves the layers of an instance, each
// key once however many ask for it, exports them as images of the engine, and
// keeps what the build printed.
//
// It must not know which engine it drives, nor what the images are used for.
package builder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/client/llb"
	"github.com/tonistiigi/fsutil"
	"golang.org/x/sync/semaphore"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/base"
	"github.com/evalrun/evalrun/images/env"
	"github.com/evalrun/evalrun/images/instance"
	"github.com/evalrun/evalrun/internal/mirror"
)

// Engine is what the builder needs of an engine.
type Engine interface {
	// BuildKit returns a client of the engine's solver, for one build: the engine
	// may keep the solver to itself until done is called.
	BuildKit(ctx context.Context) (c *client.Client, done func(), err error)
	// Image returns the digest of an image in the engine's store, and false when
	// there is none.
	Image(ctx context.Context, ref string) (digest string, ok bool, err error)
	// ImageLabels returns the labels of an image in the engine's store.
	ImageLabels(ctx context.Context, ref string) (map[string]string, error)
	// ResolvesImages reports whether the solver finds images of that store by
	// name. A layer then stands on the image below it, and not on its recipe: what
	// was built once is not built again when the solver's cache is gone.
	ResolvesImages() bool
	// Exporter is the BuildKit exporter that puts an image into that store.
	Exporter() string
	// Pull fetches an image from a registry into that store.
	Pull(ctx context.Context, ref string) error
}

// Options configure a Builder.
type Options struct {
	Engine    Engine
	CacheDir  string // root file systems, locks, build logs
	Lock      *images.Lock
	Settings  Settings
	AptMirror string
	Parallel  int                                                                 // solves at a time
	Progress  func(Event)                                                         // may be nil
	Toolchain func(ctx context.Context, language, version string) (string, error) // folder of a pinned tool chain
	Force     bool                                                                // build even what the store already has
}

// Event tells what the builder does.
type Event struct {
	Kind    images.Kind
	Name    string // for people: what the layer is for
	Step    string // the step running now, "" at start and end
	Done    bool
	Cached  bool // the store already had it
	Seconds float64
	Err     error
}

// Image is one built or pulled image.
type Image struct {
	Ref        string
	Digest     string
	Env        []string
	Deviations []string
}

// Builder builds the images of a run.
type Builder struct {
	o     Options
	slots *semaphore.Weighted

	mu      sync.Mutex
	flights map[string]*flight
	failed  map[string]int         // flights of a key that failed of what passes
	rootfs  map[string]base.RootFS // by digest
}

// New returns a Builder.
func New(o Options) *Builder {
	if o.Progress == nil {
		o.Progress = func(Event) {}
	}
	return &Builder{
		o: o, slots: semaphore.NewWeighted(int64(max(1, o.Parallel))),
		flights: map[string]*flight{}, failed: map[string]int{}, rootfs: map[string]base.RootFS{},
	}
}

// BaseDigest makes a base ready and returns the digest of its content. It is
// the function images.Resolver wants.
func (b *Builder) BaseDigest(ctx context.Context, source images.Source) (string, error) {
	img, err := b.once(ctx, "source "+source.String(), func() (Image, error) {
		if source.Kind == "image" {
			digest, ok, err := b.o.Engine.Image(ctx, source.Ref)
			if err == nil && !ok {
				if err = b.o.Engine.Pull(ctx, source.Ref); err == nil {
					digest, _, err = b.o.Engine.Image(ctx, source.Ref)
				}
			}
			return Image{Ref: source.Ref, Digest: digest}, err
		}
		start, name, made := time.Now(), "root file system of "+source.String(), false
		fs, err := base.Materialize(ctx, source, filepath.Join(b.o.CacheDir, "rootfs"), b.o.AptMirror, func() {
			made = true
			b.o.Progress(Event{Kind: images.Base, Name: name, Step: "make it"})
		})
		if made {
			b.o.Progress(Event{Kind: images.Base, Name: name, Done: true, Seconds: time.Since(start).Seconds(), Err: err})
		}
		if err != nil {
			return Image{}, err
		}
		b.mu.Lock()
		b.rootfs[fs.Digest] = fs
		b.mu.Unlock()
		return Image{Digest: fs.Digest}, nil
	})
	return img.Digest, err
}

// Instance makes sure the image of an instance is in the engine's store, with
// the layers below it, and returns it.
func (b *Builder) Instance(ctx context.Context, spec images.InstanceSpec) (Image, error) {
	if spec.Dockerfile != "" {
		return b.dockerfile(ctx, spec)
	}
	// What an image stands on is needed to build it, not to have it.
	if _, ok, err := b.o.Engine.Image(ctx, images.Reference(images.Instance, spec.Key())); err != nil {
		return Image{}, err
	} else if !ok || b.o.Force {
		if _, err := b.base(ctx, spec.Env.Base); err != nil {
			return Image{}, err
		}
		if _, err := b.env(ctx, spec.Env); err != nil {
			return Image{}, err
		}
	}
	img, err := b.instance(ctx, spec)
	if err != nil {
		return img, err
	}
	labels, err := b.o.Engine.ImageLabels(ctx, img.Ref)
	if err != nil {
		return img, err
	}
	img.Env = instance.ConfigEnv(spec)
	img.Deviations = slices.Concat(spec.Env.Deviations, spec.Deviations, lines(labels[deviationsLabel]))
	return img, nil
}

// deviationsLabel holds what the steps of an image wrote into
// instance.Deviations, one deviation a line.
const deviationsLabel = "evalrun.deviations"

func lines(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

func (b *Builder) base(ctx context.Context, spec images.BaseSpec) (Image, error) {
	return b.layer(ctx, images.Base, spec.Key(), spec.Source.String(), func(t *task) error {
		s, err := base.State(spec)
		if err != nil {
			return err
		}
		t.state, t.env = s, base.Env
		return b.mountBase(t, spec)
	})
}

func (b *Builder) env(ctx context.Context, spec images.EnvSpec) (Image, error) {
	name := strings.TrimSpace(spec.Language + " " + spec.Version + " " + spec.Key()[:8])
	return b.layer(ctx, images.Env, spec.Key(), name, func(t *task) error { return b.envTask(ctx, t, spec) })
}

func (b *Builder) envTask(ctx context.Context, t *task, spec images.EnvSpec) error {
	if err := b.below(t, images.Base, spec.Base.Key(), base.Env, func() error {
		parent, err := base.State(spec.Base)
		t.state = parent
		return errors.Join(err, b.mountBase(t, spec.Base))
	}); err != nil {
		return err
	}
	t.state = env.State(t.state, spec)
	t.env = append(append([]string{}, base.Env...), env.Env(spec)...)
	if spec.Python.Path != "" {
		if err := t.mount(env.InterpreterName, spec.Python.Path); err != nil {
			return err
		}
	}
	if env.NeedsToolchain(spec) {
		if b.o.Toolchain == nil {
			return fmt.Errorf("%s %s: nothing gives tool chains here", spec.Language, spec.Version)
		}
		dir, err := b.o.Toolchain(ctx, spec.Language, spec.Version)
		if err != nil {
			return err
		}
		if err := t.mount(env.ToolchainName, dir); err != nil {
			return err
		}
	}
	t.sources = b.sourcesOf(spec.Base)
	return nil
}

// below sets the task's state to the layer it stands on: the image of that key,
// or its recipe.
func (b *Builder) below(t *task, kind images.Kind, key string, environment []string, recipe func() error) error {
	if !b.o.Engine.ResolvesImages() {
		return recipe()
	}
	s := llb.Image("docker.io/"+images.Reference(kind, key), llb.ResolveModePreferLocal, llb.WithCustomName(string(kind)+" image "+key[:12]))
	// An image's environment is that of its containers, not of steps built on it.
	t.state = base.WithEnv(s.Dir("/"), environment)
	return nil
}

func (b *Builder) instance(ctx context.Context, spec images.InstanceSpec) (Image, error) {
	return b.layer(ctx, images.Instance, spec.Key(), spec.InstanceID, func(t *task) error {
		environment := append(append([]string{}, base.Env...), env.Env(spec.Env)...)
		if err := b.below(t, images.Env, spec.Env.Key(), environment, func() error { return b.envTask(ctx, t, spec.Env) }); err != nil {
			return err
		}
		t.sources = b.sourcesOf(spec.Env.Base)
		dir, err := t.tempDir(b.o.CacheDir)
		if err != nil {
			return err
		}
		tag, err := mirror.Cut(ctx, spec.Mirror, spec.BaseCommit, dir)
		if err != nil {
			return err
		}
		if err := mirror.AddSubmodules(ctx, dir, spec.Submodules); err != nil {
			return err
		}
		t.labels["evalrun.tag"] = tag
		t.labels["evalrun.instance"] = spec.InstanceID
		t.labels["evalrun.base_commit"] = spec.BaseCommit
		t.state = instance.State(t.state, spec)
		t.env, t.workdir = instance.ConfigEnv(spec), "/testbed"
		return t.mount(instance.RepositoryName, dir)
	})
}

// Scrub makes an image in which nothing after base_commit can be read of one that
// was made elsewhere and is in the engine's store. env is its environment.
func (b *Builder) Scrub(ctx context.Context, ref, digest string, env []string) (Image, error) {
	if !b.o.Engine.ResolvesImages() {
		return Image{}, errors.New("this engine's solver does not find images of its store by name, which scrubbing needs")
	}
	return b.layer(ctx, images.Instance, instance.ScrubKey(digest), "scrubbed "+ref, func(t *task) error {
		t.state = instance.Scrub(llb.Image(ref, llb.ResolveModePreferLocal))
		t.env, t.workdir, t.elsewhere = env, "/testbed", true
		return nil
	})
}

// mountBase offers the root file system the base is made from.
func (b *Builder) mountBase(t *task, spec images.BaseSpec) error {
	fs, ok := b.rootFS(spec)
	if !ok {
		return nil // the base is an image of the engine
	}
	t.sources = b.sourcesOf(spec)
	return t.mount(base.RootFSName, fs.Dir)
}

// sourcesOf are the package mirrors of a base's suite.
func (b *Builder) sourcesOf(spec images.BaseSpec) string {
	fs, _ := b.rootFS(spec)
	if b.o.AptMirror == "" || fs.Sources == "" {
		return fs.Sources
	}
	// The cached root file system may have been made with another mirror.
	return "deb " + b.o.AptMirror + " " + spec.Source.Ref + " main\n"
}

func (b *Builder) rootFS(spec images.BaseSpec) (base.RootFS, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fs, ok := b.rootfs[spec.Digest]
	return fs, ok
}

// task is one layer about to be solved.
type task struct {
	kind    images.Kind
	key     string
	name    string
	state   llb.State
	env     []string
	workdir string
	labels  map[string]string
	sources string
	mounts  map[string]fsutil.FS
	cleanup []string

	elsewhere bool // of an image made elsewhere, whose steps wrote nothing down

	frontend      string            // "" for LLB
	frontendAttrs map[string]string // for the Dockerfile frontend
}

func (t *task) mount(name, dir string) error {
	fs, err := fsutil.NewFS(dir)
	if err != nil {
		return err
	}
	t.mounts[name] = fs
	return nil
}

func (t *task) tempDir(under string) (string, error) {
	if err := os.MkdirAll(filepath.Join(under, "tmp"), 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Join(under, "tmp"), "repository-")
	if err == nil {
		t.cleanup = append(t.cleanup, dir)
	}
	return dir, err
}

// layer returns the image of a key from the store, or builds it.
func (b *Builder) layer(ctx context.Context, kind images.Kind, key, name string, prepare func(*task) error) (Image, error) {
	return b.once(ctx, string(kind)+" "+key, func() (Image, error) {
		ref := images.Reference(kind, key)
		start := time.Now()
		img, cached, err := b.ensure(ctx, kind, key, name, ref, prepare)
		b.o.Progress(Event{Kind: kind, Name: name, Done: true, Cached: cached, Seconds: time.Since(start).Seconds(), Err: err})
		return img, err
	})
}

func (b *Builder) ensure(ctx context.Context, kind images.Kind, key, name, ref string, prepare func(*task) error) (Image, bool, error) {
	entry := images.LockEntry{Kind: kind, Name: name}
	if err := b.o.Lock.Check(key, entry); err != nil {
		return Image{}, false, err
	}
	if img, ok, err := b.stored(ctx, key, ref, entry); ok || err != nil {
		return img, true, err
	}
	if b.o.Lock.Frozen() {
		return Image{}, false, &Error{Kind: kind, Key: key, Name: name, Err: errors.New(
			"--frozen: the image is not in the engine's store, and a new build would not be the locked one; build without --frozen, or load the image")}
	}
	// Another process may be building the same key: wait for it and look again.
	lockDir := filepath.Join(b.o.CacheDir, "locks")
	if err := os.MkdirAll(lockDir, 0o755); err != nil {
		return Image{}, false, err
	}
	unlock, err := cache.Lock(ctx, filepath.Join(lockDir, string(kind)+"-"+key[:20]))
	if err != nil {
		return Image{}, false, err
	}
	defer unlock()
	if img, ok, err := b.stored(ctx, key, ref, entry); ok || err != nil {
		return img, true, err
	}
	if err := b.slots.Acquire(ctx, 1); err != nil {
		return Image{}, false, context.Cause(ctx)
	}
	defer b.slots.Release(1)
	t := &task{kind: kind, key: key, name: name, labels: map[string]string{}, mounts: map[string]fsutil.FS{}}
	defer func() {
		for _, dir := range t.cleanup {
			os.RemoveAll(dir)
		}
	}()
	b.o.Progress(Event{Kind: kind, Name: name, Step: "prepare"})
	if err := prepare(t); err != nil {
		return Image{}, false, &Error{Kind: kind, Key: key, Name: name, Err: err}
	}
	if err := b.solve(ctx, t, ref); err != nil {
		return Image{}, false, err
	}
	digest, ok, err := b.o.Engine.Image(ctx, ref)
	if err == nil && !ok {
		err = errors.New("the image was built but is not in the engine's store")
	}
	if err != nil {
		return Image{}, false, &Error{Kind: kind, Key: key, Name: name, Err: err}
	}
	entry.Digest = digest
	return Image{Ref: ref, Digest: digest}, false, b.o.Lock.Record(key, entry)
}

func (b *Builder) stored(ctx context.Context, key, ref string, entry images.LockEntry) (Image, bool, error) {
	if b.o.Force {
		return Image{}, false, nil
	}
	digest, ok, err := b.o.Engine.Image(ctx, ref)
	if err != nil || !ok {
		return Image{}, false, err
	}
	entry.Digest = digest
	return Image{Ref: ref, Digest: digest}, true, b.o.Lock.Record(key, entry)
}

// mostPassing is how often a layer may fail of what passes before that is remembered.
const mostPassing = 3

// Error is a failed build. Its text ends with the end of the build's log.
type Error struct {
	Kind images.Kind
	Key  string
	Name string
	Step string // the step that failed
	Tail string // end of what it printed
	Log  string // file with all of it
	Err  error
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Step != "" {
		fmt.Fprintf(&b, "step %q of the %s image failed: %v", e.Step, e.Kind, e.Err)
		if i := strings.LastIndex(e.Tail, "| "); i >= 0 {
			fmt.Fprintf(&b, ": %s", strings.TrimSpace(e.Tail[i+2:]))
		}
	} else {
		fmt.Fprintf(&b, "%s image of %s: %v", e.Kind, e.Name, e.Err)
	}
	if e.Tail != "" {
		fmt.Fprintf(&b, "\n%s", e.Tail)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }
