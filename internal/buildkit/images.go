package buildkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/gofrs/flock"
	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/evalrun/evalrun/cache"
)

// image is one image of the store. Its layers are BuildKit's snapshots, where
// they are: nothing is packed, copied or unpacked.
type image struct {
	Digest   digest.Digest   `json:"digest"`             // of Config, as Docker's image ids
	Manifest digest.Digest   `json:"manifest,omitempty"` // what a registry calls it, when it was pulled
	CacheID  string          `json:"cache_id"`           // BuildKit's record of the topmost layer; "" when there is none
	Layers   []string        `json:"layers"`             // folders below the worker's, topmost first
	Config   json.RawMessage `json:"config"`
}

func (i *image) manifest() digest.Digest {
	if i.Manifest != "" {
		return i.Manifest
	}
	return i.Digest
}

func (i *image) config() (specs.Image, error) {
	var c specs.Image
	err := json.Unmarshal(i.Config, &c)
	return c, err
}

// tag is the file of one name.
type tag struct {
	Ref    string        `json:"ref"`
	Digest digest.Digest `json:"digest"`
}

// store keeps images as files: one a digest, one a name. They can be read
// without BuildKit's databases, which only one process may have open.
type store struct {
	root string // the worker's folder
}

func openStore(root string) (*store, error) {
	s := &store{root}
	for _, dir := range []string{s.dir("images"), s.dir("refs"), s.dir("empty")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("the embedded engine's images: %w", err)
		}
	}
	return s, nil
}

func (s *store) dir(name string) string { return filepath.Join(s.root, name) }

func (s *store) file(d digest.Digest) string {
	return filepath.Join(s.dir("images"), d.Encoded()+".json")
}

// lock is held shared by everyone who uses the image, and exclusively to remove
// it. Its time is when the image was last used. The file stays: without it, two
// could lock two files of one name.
func (s *store) lock(d digest.Digest) *flock.Flock {
	return flock.New(filepath.Join(s.dir("images"), d.Encoded()+".lock"))
}

func (s *store) tagFile(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(s.dir("refs"), hex.EncodeToString(sum[:16])+".json")
}

// normal spells a reference out, so that its short and long forms are the same.
func normal(ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", fmt.Errorf("image %q: %w", ref, err)
	}
	return reference.TagNameOnly(named).String(), nil
}

// find returns an image by reference, digest or id, and nil when there is none.
func (s *store) find(ref string) (*image, error) {
	d := digest.Digest(ref)
	if d.Validate() != nil {
		name, err := normal(ref)
		if err != nil {
			return nil, err
		}
		var t tag
		ok, err := readJSON(s.tagFile(name), &t)
		if err != nil {
			return nil, err
		}
		if ok && t.Ref == name {
			return s.load(t.Digest)
		}
		_, id, _ := strings.Cut(name, "@")
		if d = digest.Digest(id); d.Validate() != nil {
			return nil, nil
		}
	}
	return s.load(d)
}

// load reads an image, and checks that its layers are there: a crash of the
// machine may have kept the one and lost the other.
func (s *store) load(d digest.Digest) (*image, error) {
	var img image
	if ok, err := readJSON(s.file(d), &img); !ok || err != nil {
		return nil, err
	}
	for _, layer := range img.Layers {
		if _, err := os.Stat(filepath.Join(s.root, layer)); err != nil {
			return nil, nil
		}
	}
	return &img, nil
}

// source finds the image an LLB source is about.
func (s *store) source(identifier string) (*image, bool) {
	ref, ok := strings.CutPrefix(identifier, "docker-image://")
	if !ok {
		return nil, false
	}
	img, err := s.find(ref)
	return img, err == nil && img != nil
}

// put stores an image under its digest and its name. What has the same digest
// has the same content: its layers may be in use, so the first stays.
func (s *store) put(name string, img *image) error {
	if old, err := s.load(img.Digest); err != nil || old == nil {
		if err := writeJSON(s.file(img.Digest), img); err != nil {
			return err
		}
	}
	if err := s.touch(img.Digest); err != nil {
		return err
	}
	return writeJSON(s.tagFile(name), tag{name, img.Digest})
}

// touch notes that an image is used.
func (s *store) touch(d digest.Digest) error {
	path := s.lock(d).Path()
	now := time.Now()
	err := os.Chtimes(path, now, now)
	if errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(path, nil, 0o644)
	}
	return err
}

// tags are all names.
func (s *store) tags() ([]tag, error) {
	paths, err := filepath.Glob(filepath.Join(s.dir("refs"), "*.json"))
	var tags []tag
	for _, path := range paths {
		var t tag
		if ok, err := readJSON(path, &t); ok && err == nil {
			tags = append(tags, t)
		}
	}
	return tags, err
}

// all are all images.
func (s *store) all() ([]*image, error) {
	paths, err := filepath.Glob(filepath.Join(s.dir("images"), "*.json"))
	var images []*image
	for _, path := range paths {
		var img image
		if ok, err := readJSON(path, &img); ok && err == nil {
			images = append(images, &img)
		}
	}
	return images, err
}

// remove takes an image and its names out of the store, unless it is in use. Its
// layers are for BuildKit to remove.
func (s *store) remove(d digest.Digest) (bool, error) {
	l := s.lock(d)
	defer l.Close()
	if ok, err := l.TryLock(); !ok || err != nil {
		return false, err
	}
	tags, err := s.tags()
	if err != nil {
		return false, err
	}
	for _, t := range tags {
		if t.Digest == d {
			os.Remove(s.tagFile(t.Ref))
		}
	}
	return true, os.Remove(s.file(d))
}

// readJSON reports false for a file that is not there, and for one that is no
// JSON: it is written anew then.
func readJSON(path string, v any) (bool, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return json.Unmarshal(data, v) == nil, nil
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return cache.WriteFile(path, data, 0o644)
}

// Image implements builder.Engine.
func (b *BuildKit) Image(_ context.Context, ref string) (string, bool, error) {
	img, err := b.images.find(ref)
	if err != nil || img == nil {
		return "", false, err
	}
	return img.Digest.String(), true, b.images.touch(img.Digest)
}

// ImageEnv returns the environment an image sets for its processes.
func (b *BuildKit) ImageEnv(_ context.Context, ref string) ([]string, error) {
	c, err := b.configOf(ref)
	return c.Config.Env, err
}

// ImageLabels returns the labels of an image.
func (b *BuildKit) ImageLabels(_ context.Context, ref string) (map[string]string, error) {
	c, err := b.configOf(ref)
	return c.Config.Labels, err
}

func (b *BuildKit) configOf(ref string) (specs.Image, error) {
	img, err := b.images.find(ref)
	if err == nil && img == nil {
		err = fmt.Errorf("image %s is not in the embedded engine's store", ref)
	}
	if err != nil {
		return specs.Image{}, err
	}
	return img.config()
}

// RepoDigest returns the digest an image was pulled by, or "".
func (b *BuildKit) RepoDigest(_ context.Context, ref string) string {
	img, err := b.images.find(ref)
	if err != nil || img == nil {
		return ""
	}
	return img.Manifest.String()
}

// Root is the root file system of an image, and how its processes run.
type Root struct {
	Lower      []string // folders of the layers, topmost first
	Env        []string
	WorkingDir string
	User       string
	Release    func() error
}

// Root holds an image's layers until Release: no process removes them meanwhile.
func (b *BuildKit) Root(_ context.Context, ref string) (Root, error) {
	img, err := b.images.find(ref)
	if err != nil {
		return Root{}, err
	}
	missing := fmt.Errorf("image %s is not in the embedded engine's store", ref)
	if img == nil {
		return Root{}, missing
	}
	l := b.images.lock(img.Digest)
	ok, err := l.TryRLock()
	if err == nil && ok {
		// It may have been removed in between.
		img, err = b.images.load(img.Digest)
	}
	if err != nil || !ok || img == nil {
		l.Close()
		return Root{}, errors.Join(missing, err)
	}
	c, err := img.config()
	if err = errors.Join(err, b.images.touch(img.Digest)); err != nil {
		l.Close()
		return Root{}, fmt.Errorf("image %s: %w", ref, err)
	}
	r := Root{Env: c.Config.Env, WorkingDir: c.Config.WorkingDir, User: c.Config.User, Release: l.Close}
	for _, layer := range img.Layers {
		r.Lower = append(r.Lower, filepath.Join(b.images.root, layer))
	}
	if len(r.Lower) == 0 {
		r.Lower = []string{b.images.dir("empty")}
	}
	return r, nil
}
