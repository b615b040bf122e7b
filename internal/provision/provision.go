// Package provision decides for each instance of a run where its image comes
// from: pulled under the name the row or a namespace gives, or built from its
// recipe. It must not know what is run in the images.
package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/datasets/swebench"
	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/builder"
	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/runner"
)

// Mode says where images come from.
type Mode string

const (
	Auto  Mode = "auto"  // pull what a row or a namespace names, unless there are local repositories to build from
	Build Mode = "build" // never pull
	Pull  Mode = "pull"  // never build
)

// History is what an audit found.
type History struct {
	Text  string `json:"text"` // for the record of an attempt
	Clean bool   `json:"clean"`
}

// Puller is the image store prebuilt images are pulled into.
type Puller interface {
	Image(ctx context.Context, ref string) (digest string, ok bool, err error)
	Pull(ctx context.Context, ref string) error
	ImageEnv(ctx context.Context, ref string) ([]string, error)
	RepoDigest(ctx context.Context, ref string) string
}

// Uses is told what becomes of images.
type Uses interface {
	Take(image string) // a run uses it: it is not to go before Close
	Gone(image string) // it was removed
	Close()
}

// Provider gives the images of a run's instances.
type Provider struct {
	Mode      Mode
	Namespace string // registry and namespace of prebuilt images; "" takes the row's own name
	Tag       string
	HasRepos  bool // local repositories are given: Auto builds
	Resolver  *images.Resolver
	Builder   *builder.Builder
	Store     Puller
	Lock      *images.Lock
	Recipes   map[string]*datasets.Recipe
	// Audit looks into an image that was not built here for commits after base; nil
	// leaves it at "not checked".
	Audit func(ctx context.Context, digest, base string) (History, error)
	// Scrub makes clean images of those in which the audit found something.
	Scrub bool
	Uses  Uses // of the images it gives; nil is told nothing

	mu     sync.Mutex
	pulled map[string]*pull
}

type pull struct {
	once  sync.Once
	image runner.Image
	err   error
}

// Image implements runner.Images.
func (p *Provider) Image(ctx context.Context, inst *datasets.Instance) (runner.Image, error) {
	img, err := p.image(ctx, inst)
	if err == nil && p.Uses != nil {
		p.Uses.Take(img.Digest)
	}
	return img, err
}

// Close says that no image is used any more.
func (p *Provider) Close() {
	if p.Uses != nil {
		p.Uses.Close()
	}
}

func (p *Provider) image(ctx context.Context, inst *datasets.Instance) (runner.Image, error) {
	if ref := p.Prebuilt(inst); ref != "" {
		return p.pull(ctx, inst, ref)
	}
	spec, err := p.Spec(ctx, inst)
	if err != nil {
		return runner.Image{}, err
	}
	img, err := p.Builder.Instance(ctx, spec)
	if err != nil {
		return runner.Image{}, err
	}
	if img.Env == nil { // a row's own Dockerfile says it
		if img.Env, err = p.Store.ImageEnv(ctx, img.Ref); err != nil {
			return runner.Image{}, err
		}
	}
	built := runner.Image{Ref: img.Ref, Digest: img.Digest, Env: img.Env, Deviations: img.Deviations, History: historyVerified}
	if spec.Dockerfile != "" {
		return p.audited(ctx, inst, built)
	}
	return built, nil
}

// There implements runner.Images. Of an image that would be scrubbed nothing is known.
func (p *Provider) There(ctx context.Context, inst *datasets.Instance) (img runner.Image, ok bool, err error) {
	if p.Scrub {
		return img, false, nil
	}
	if img.Ref = p.Prebuilt(inst); img.Ref == "" {
		spec, err := p.Spec(ctx, inst)
		if err != nil {
			return img, false, err
		}
		img.Ref = images.Reference(images.Instance, spec.Key())
		img.Digest, ok, err = p.Store.Image(ctx, img.Ref)
		return img, ok, err
	}
	from, locked := img.Ref, ""
	if entry, has := p.Lock.Lookup("pull " + img.Ref); has && entry.Digest != "" {
		locked, img.Pinned = entry.Digest, byDigest(img.Ref, entry.Digest)
	}
	img.Digest, ok, err = p.Store.Image(ctx, from)
	if err == nil && locked != "" && (!ok || img.Digest != locked) {
		from = img.Pinned
		img.Digest, ok, err = p.Store.Image(ctx, from)
	}
	if err != nil || !ok {
		return img, false, err
	}
	img.Ref = from
	env, err := p.Store.ImageEnv(ctx, from)
	img.AddEnv = missingEnv(env)
	return img, true, err
}

// audited says of an image made elsewhere what is known of its history, and makes
// a clean one of it where that is wanted.
func (p *Provider) audited(ctx context.Context, inst *datasets.Instance, img runner.Image) (runner.Image, error) {
	img.History = historyUnknown
	if p.Audit == nil || inst.BaseCommit == "" {
		return img, nil
	}
	found, err := p.Audit(ctx, img.Digest, inst.BaseCommit)
	if ctx.Err() != nil {
		return img, context.Cause(ctx)
	}
	if err != nil {
		img.History = historyUnknown + ": " + err.Error()
		return img, nil
	}
	if img.History = found.Text; found.Clean || !p.Scrub {
		return img, nil
	}
	clean, err := p.Builder.Scrub(ctx, img.Ref, img.Digest, img.Env)
	if err != nil {
		return img, fmt.Errorf("instance %s: scrub the history of %s: %w", inst.ID, img.Ref, err)
	}
	if found, err = p.Audit(ctx, clean.Digest, inst.BaseCommit); err != nil || !found.Clean {
		return img, fmt.Errorf("instance %s: the history of %s cannot be scrubbed: %s: %w", inst.ID, img.Ref, found.Text, errors.Join(err, errDirty))
	}
	img.Deviations = append(slices.Clone(img.Deviations), "scrubbed: "+img.Ref+" had "+img.History)
	img.Ref, img.Digest, img.History = clean.Ref, clean.Digest, found.Text
	return img, nil
}

var errDirty = errors.New("commits after base_commit are left")

// Spec is what would be built for an instance.
func (p *Provider) Spec(ctx context.Context, inst *datasets.Instance) (images.InstanceSpec, error) {
	spec, err := p.Resolver.Resolve(ctx, inst, p.Recipes[inst.ID])
	if err != nil {
		return spec, fmt.Errorf("instance %s: %w", inst.ID, err)
	}
	return spec, nil
}

// Pulled says whether the image of an instance is pulled, if it is not there.
func (p *Provider) Pulled(inst *datasets.Instance) bool { return p.Prebuilt(inst) != "" }

// Prebuilt is the reference to pull, or "" to build.
func (p *Provider) Prebuilt(inst *datasets.Instance) string {
	named := inst.Image
	if p.Namespace != "" {
		named = swebench.ImageName(inst, p.Namespace, p.Tag)
	}
	switch {
	case p.Mode == Build, named == "" && p.Mode == Auto:
		return ""
	case p.Mode == Auto && p.HasRepos && p.Namespace == "":
		return ""
	case named == "":
		// Pull was asked for: the official name is all there is to go by.
		return swebench.ImageName(inst, "swebench", p.Tag)
	}
	return named
}

func (p *Provider) pull(ctx context.Context, inst *datasets.Instance, ref string) (runner.Image, error) {
	p.mu.Lock()
	if p.pulled == nil {
		p.pulled = map[string]*pull{}
	}
	one, ok := p.pulled[ref]
	if !ok {
		one = &pull{}
		p.pulled[ref] = one
	}
	p.mu.Unlock()
	one.once.Do(func() {
		image, err := p.fetch(ctx, ref)
		p.mu.Lock()
		defer p.mu.Unlock()
		one.image, one.err = image, err
	})
	if c := cause.Of(one.err); c.Passes() && c != cause.Network { // that was tried again and again
		p.forget(ref, one)
	}
	if one.err != nil {
		return runner.Image{}, fmt.Errorf("instance %s: %w", inst.ID, one.err)
	}
	return p.audited(ctx, inst, one.image)
}

// forget has the next that asks try again: that the engine was in trouble says nothing
// of the image.
func (p *Provider) forget(ref string, failed *pull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pulled[ref] == failed {
		delete(p.pulled, ref)
	}
}

// Forget is told of an image that was removed: the next that asks gets it anew.
func (p *Provider) Forget(digest string) {
	p.mu.Lock()
	for ref, one := range p.pulled {
		if one.image.Digest == digest {
			delete(p.pulled, ref)
		}
	}
	p.mu.Unlock()
	if p.Builder != nil {
		p.Builder.Forget(digest)
	}
	if p.Uses != nil {
		p.Uses.Gone(digest)
	}
}

func (p *Provider) fetch(ctx context.Context, ref string) (runner.Image, error) {
	key := "pull " + ref
	entry := images.LockEntry{Kind: images.Instance, Name: ref}
	if err := p.Lock.Check(key, entry); err != nil {
		return runner.Image{}, err
	}
	from, id, fetched, err := p.find(ctx, key, ref)
	if err != nil {
		return runner.Image{}, err
	}
	if entry.Digest = p.Store.RepoDigest(ctx, from); entry.Digest == "" {
		entry.Digest = id // an image made on this machine has no other name
	}
	if err := p.Lock.Record(key, entry); err != nil {
		return runner.Image{}, err
	}
	env, err := p.Store.ImageEnv(ctx, from)
	added := missingEnv(env)
	return runner.Image{Ref: from, Digest: id, Env: append(env, added...), AddEnv: added, History: historyUnknown, Fetched: fetched}, err
}

// find makes sure the image is in the store, and returns the name to use and
// its digest there; fetched says that it was not.
func (p *Provider) find(ctx context.Context, key, ref string) (from, id string, fetched bool, err error) {
	id, have, err := p.Store.Image(ctx, ref)
	if err != nil {
		return "", "", false, err
	}
	if locked, ok := p.Lock.Lookup(key); ok && locked.Digest != "" && (!have || id != locked.Digest) {
		// A tag may have moved since; the digest has not.
		ref = byDigest(ref, locked.Digest)
		if id, have, err = p.Store.Image(ctx, ref); err != nil {
			return "", "", false, err
		}
	}
	if have {
		return ref, id, false, nil
	}
	if err := p.Store.Pull(ctx, ref); err != nil {
		return "", "", false, err
	}
	if id, have, err = p.Store.Image(ctx, ref); err == nil && !have {
		err = fmt.Errorf("image %s was pulled but is not in the engine's store", ref)
	}
	return ref, id, true, err
}

// byDigest is a reference with its tag, or its digest, replaced.
// What an attempt's record says of commits after base_commit.
const (
	historyVerified = "nothing after base_commit (verified when the image was built)"
	historyUnknown  = "not checked"
)

// fixed are the variables whose values must not depend on who made an image.
var fixed = []string{"LANG=C.UTF-8", "TZ=Etc/UTC", "PYTHONHASHSEED=0"}

// missingEnv are those an image does not set.
func missingEnv(env []string) []string {
	var missing []string
	for _, kv := range fixed {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.ContainsFunc(env, func(have string) bool { return strings.HasPrefix(have, name+"=") }) {
			missing = append(missing, kv)
		}
	}
	return missing
}

func byDigest(ref, digest string) string {
	name, _, _ := strings.Cut(ref, "@")
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name = name[:i]
	}
	return name + "@" + digest
}
