// Package images says which images a run needs: three cached layers, base ->
// env -> instance, each named by a key over everything that determines it.
//
// It plans and de-duplicates, keeps the lock file, and turns the facts of a
// row into specifications the layer packages (base, env, instance) build from.
// It must not import BuildKit or Docker, nor know how tests are run or graded.
package images

import (
	"fmt"
	"path"
	"strings"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/internal/mirror"
)

// Revision is the revision of the layer definitions. It is part of every key:
// raising it rebuilds all images, so it changes only when the built content does.
const Revision = 4

// Kind names one of the three layers.
type Kind string

const (
	Base     Kind = "base"
	Env      Kind = "env"
	Instance Kind = "instance"
)

// Reference is the name an image has in an engine's store.
func Reference(kind Kind, key string) string {
	return fmt.Sprintf("evalrun/%s:%s", kind, key[:20])
}

// BaseSpec is the base layer: an operating system with compilers, git, a
// locale and a non-root user.
type BaseSpec struct {
	Source   Source
	Digest   string // content of the source: SHA-256 of a root file system tar, digest of an image
	Platform string // os/arch
}

// Key names the layer.
func (s BaseSpec) Key() string {
	return cache.NewKey("base").Int("revision", Revision).
		String("platform", s.Platform).String("source", s.Source.Kind).
		String("suite", s.Source.suite()).String("digest", s.Digest).Sum()
}

// EnvSpec is the env layer: one environment, shared by every instance that
// needs exactly it.
type EnvSpec struct {
	Base     BaseSpec
	Language string
	Version  string // wanted interpreter or tool chain version

	Python PythonSpec
	Apt    []string
	// Pip and PipLate are requirement specifiers; Requirements is the text of a
	// requirements file, taken from the repository and already normalised.
	Pip, PipLate []string
	Requirements string
	// FromConda says that Requirements were a conda file's: a package pip cannot
	// install is left out and reported, where else it would fail the build.
	FromConda bool
	// AsOf is the date packages without a pinned version are held to; "" takes the
	// newest.
	AsOf     string
	Commands []string
	Vars     []string // NAME=value, set for everything above this layer
	// Deviations say, in words, where this environment differs from the pinned
	// one. They are reported with every attempt that used it.
	Deviations []string
}

// PythonSpec says where the interpreter comes from.
type PythonSpec struct {
	Want   string // "3.9"
	Have   string // "3.9.18"
	From   string // "interpreters", "debian" or "conda"
	Digest string // content of the interpreter's folder, or of the conda installer
	Path   string // on this machine; never part of a key, a layer or a report
}

// Key names the layer.
func (s EnvSpec) Key() string {
	key := cache.NewKey("env").Int("revision", Revision).
		String("base", s.Base.Key()).String("language", s.Language).String("version", s.Version).
		String("python", s.Python.Have).String("from", s.Python.From).String("interpreter", s.Python.Digest).
		Strings("apt", s.Apt).Strings("pip", s.Pip).Strings("late", s.PipLate).
		String("requirements", s.Requirements).Bool("conda", s.FromConda).Strings("commands", s.Commands).Strings("vars", s.Vars)
	if s.AsOf != "" {
		key.String("as-of", s.AsOf)
	}
	return key.Sum()
}

// InstanceSpec is the instance layer: the checkout at base_commit and the
// project's install step.
type InstanceSpec struct {
	Env        EnvSpec
	InstanceID string
	Repo       string
	BaseCommit string
	// Mirror is the bare repository to take the history from. It is not part of
	// the key: the commit id names the content.
	Mirror     string
	PreInstall []string
	Install    []string
	// Build are the steps that are run again before the tests. One that fails here
	// fails the image, unless Test, the test command, passes without it.
	Build []string
	Test  string
	// Warmup is the test command, run once at base_commit with the network on and
	// its result ignored: some tools fetch what they need only when tests run.
	Warmup     string
	Dockerfile string // built by BuildKit's Dockerfile frontend instead of the layers when set
	// AsOf is the same as an environment's, for what the install step takes.
	AsOf string
	// Submodules are the repositories pinned in the tree at base_commit, those
	// that cannot be had included.
	Submodules []mirror.Submodule
	// Deviations say, in words, what of the checkout is missing.
	Deviations []string
}

// Key names the layer. The instance's id is left out on purpose: two rows with
// the same commit and steps share an image.
func (s InstanceSpec) Key() string {
	key := cache.NewKey("instance").Int("revision", Revision).
		String("env", s.Env.Key()).String("repo", s.Repo).String("commit", s.BaseCommit).
		Strings("pre", s.PreInstall).Strings("install", s.Install).
		Strings("build", s.Build).String("test", s.Test).
		String("warmup", s.Warmup).String("dockerfile", s.Dockerfile)
	// Which submodules there are follows from the commit; which of them could be
	// had does not.
	if have := checkedOut("", s.Submodules); len(have) > 0 {
		key.Strings("submodules", have)
	}
	if s.AsOf != "" {
		key.String("as-of", s.AsOf)
	}
	return key.Sum()
}

// checkedOut lists the submodules that can be had, and theirs, as "path commit".
func checkedOut(parent string, submodules []mirror.Submodule) []string {
	var have []string
	for _, m := range submodules {
		if m.Missing == "" {
			at := path.Join(parent, m.Path)
			have = append(append(have, at+" "+m.Commit), checkedOut(at, m.Submodules)...)
		}
	}
	return have
}

// Source is where a base comes from.
type Source struct {
	Kind string // "debian", "image", "oci-layout", "rootfs"
	Ref  string // suite, image reference, folder or tar file
}

// ParseSource reads "debian:SUITE", "image:REF", "oci-layout:DIR[@TAG]" or "rootfs:TAR".
func ParseSource(text string) (Source, error) {
	kind, ref, ok := strings.Cut(text, ":")
	if ok && ref != "" {
		switch kind {
		case "debian":
			if _, known := debianPython[ref]; !known {
				return Source{}, fmt.Errorf("base %q: unknown Debian suite; known are bullseye, bookworm, trixie", text)
			}
			return Source{kind, ref}, nil
		case "image", "oci-layout", "rootfs":
			return Source{kind, ref}, nil
		}
	}
	return Source{}, fmt.Errorf("base %q: want debian:SUITE, image:REF, oci-layout:DIR[@TAG] or rootfs:TAR", text)
}

func (s Source) String() string { return s.Kind + ":" + s.Ref }

// suite is the part of the source that shapes how the layer is built; paths and
// references do not, their content has a digest.
func (s Source) suite() string {
	if s.Kind == "debian" {
		return s.Ref
	}
	return ""
}

// debianPython maps a Debian suite to the version of its python3.
var debianPython = map[string]string{"bullseye": "3.9", "bookworm": "3.11", "trixie": "3.13"}
