// Package instance builds the instance layer: the repository at base_commit in
// /testbed, with nothing later reachable, and the project's install step.
//
// It must not know the patch, the tests' results or how they are graded.
package instance

import (
	"cmp"
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/buildkit/client/llb"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/base"
	"github.com/evalrun/evalrun/images/env"
	"github.com/evalrun/evalrun/internal/mirror"
)

// RepositoryName is the name under which the cut git directory is offered to
// the solver.
const RepositoryName = "evalrun-repository"

// Deviations is the file in which steps note where the image is not the pinned
// one, one line each. Every image has it.
const Deviations = "/opt/evalrun/deviations.txt"

//go:embed checkout.sh
var checkout string

//go:embed history.sh
var history string

//go:embed modules.sh
var modules string

//go:embed offline.sh
var offline string

//go:embed scrub.sh
var scrub string

//go:embed build.sh
var build string

//go:embed unbuilt.sh
var unbuilt string

//go:embed warmup.sh
var warmup string

//go:embed wheelhouse.py
var wheelhouse string

// Env is what makes package tools work from what the image holds. It applies to
// the tests, not to the install step, which may use the network.
var Env = []string{
	"PIP_CONFIG_FILE=/opt/evalrun/pip.conf", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_ROOT_USER_ACTION=ignore",
	"GOPROXY=off", "GOSUMDB=off", "CARGO_NET_OFFLINE=true", "COMPOSER_DISABLE_NETWORK=1",
	"npm_config_offline=true", "npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false",
	"EVALRUN=1",
}

// State is the instance layer of a spec on top of its env layer.
func State(parent llb.State, spec images.InstanceSpec) llb.State {
	repository := llb.Local(RepositoryName, llb.SharedKeyHint("repo"+spec.Key()), llb.WithCustomName("history of "+spec.Repo))
	s := base.Run(parent, fmt.Sprintf("BASE=%s\n", spec.BaseCommit)+submodules(spec)+checkout, "checkout "+spec.Repo+" "+short(spec.BaseCommit),
		llb.AddMount("/mnt/repository", repository, llb.Readonly)).Dir("/testbed")
	if spec.Env.Language == "py" {
		s = base.Run(s, prepare(spec)+"python - <<'EVALRUN_END'\n"+wheelhouse+"\nEVALRUN_END\n", "build requirements for offline installs")
	}
	if spec.Env.Language == "go" {
		s = base.Run(s, modules, "fetch modules "+spec.InstanceID,
			llb.AddMount("/mnt/modules", llb.Scratch(), llb.AsPersistentCacheDir("evalrun-go-modules", llb.CacheMountShared)))
	}
	if steps := installSteps(spec); steps != "" {
		s = base.Run(s, prepare(spec)+steps, "install "+spec.InstanceID)
	}
	if len(spec.Build) > 0 {
		s = buildState(s, spec)
	}
	if spec.Warmup != "" {
		s = base.Run(s, prepare(spec)+fmt.Sprintf("BASE=%s\nwarmup() {\n%s\n}\n", spec.BaseCommit, strings.TrimSpace(spec.Warmup))+warmup, "fetch what the tests need "+spec.InstanceID)
	}
	s = base.Run(s, fmt.Sprintf("BASE=%s\n", spec.BaseCommit)+history+offline, "check history, go offline", llb.Network(llb.NetModeNone))
	return base.WithEnv(s, Env)
}

// Scrub is an image made elsewhere, with nothing left of its repositories'
// histories but what their checkouts stand on.
func Scrub(image llb.State) llb.State {
	return image.Run(llb.Args([]string{"/bin/sh", "-c", scrub}), llb.Network(llb.NetModeNone), llb.WithCustomName("scrub the history")).Root()
}

// ScrubKey names what Scrub makes of an image.
func ScrubKey(digest string) string {
	return cache.NewKey("scrub").String("image", digest).String("script", scrub).Sum()
}

// installSteps is one script, since steps may set variables for one another. What
// packages the project wants is asked after the first steps: they edit its files.
func installSteps(spec images.InstanceSpec) string {
	steps := slices.Clone(spec.PreInstall)
	if asOf := env.AsOf(spec.AsOf, strings.Join(projectTargets(spec.Install), " ")); asOf != "" {
		steps = append(steps, "pushd /testbed >/dev/null", asOf+"popd >/dev/null")
	}
	if steps = append(steps, spec.Install...); len(steps) == 0 {
		return ""
	}
	return strings.Join(steps, "\n") + "\n"
}

var projectTarget = regexp.MustCompile(`(?:^|\s)['"]?(\.(?:\[[A-Za-z0-9_., -]+\])?)['"]?(?:\s|;|$)`)

// projectTargets are the arguments by which the steps have pip install the
// project: "." with the extras it is wanted with.
func projectTargets(steps []string) []string {
	var targets []string
	for _, step := range steps {
		if m := projectTarget.FindStringSubmatch(step); m != nil && strings.Contains(step, "pip install") {
			targets = append(targets, images.ShellQuote(m[1]))
		}
	}
	if len(targets) == 0 {
		return []string{"."}
	}
	return targets
}

// buildState runs the steps that are run again before the tests. One that fails
// fails the image, unless the tests pass without it and without the network: a
// project may fetch figures for its own web site there.
func buildState(s llb.State, spec images.InstanceSpec) llb.State {
	steps := fmt.Sprintf("steps() {\n%s\n}\n", strings.Join(spec.Build, "\n"))
	s = base.Run(s, prepare(spec)+steps+build, "build "+spec.InstanceID)
	test := fmt.Sprintf("tests() {\n%s\n}\n", cmp.Or(strings.TrimSpace(spec.Test), "false"))
	opts := []llb.RunOption{llb.Network(llb.NetModeNone)}
	for _, kv := range Env {
		name, value, _ := strings.Cut(kv, "=")
		opts = append(opts, llb.AddEnv(name, value))
	}
	return base.Run(s, prepare(spec)+test+unbuilt, "test without a failed build "+spec.InstanceID, opts...)
}

// submodules lists the submodules that lie ready in the cut repository: the
// repository that pins each, and its path there.
func submodules(spec images.InstanceSpec) string {
	words := ready(".", spec.Submodules)
	if len(words) == 0 {
		return ""
	}
	return "SUBMODULES=(" + strings.Join(words, " ") + ")\n"
}

func ready(parent string, submodules []mirror.Submodule) []string {
	var words []string
	for _, m := range submodules {
		if m.Missing == "" {
			words = append(words, images.ShellQuote(parent), images.ShellQuote(m.Path))
			words = append(words, ready(path.Join(parent, m.Path), m.Submodules)...)
		}
	}
	return words
}

// prepare is what precedes an install step. The steps were written for a script
// that goes on after a failure, but a failed install must fail the build: a
// stale or missing package would be graded as the model's failure later.
func prepare(spec images.InstanceSpec) string {
	text := "cd /testbed\n"
	if spec.Env.Language == "py" {
		text += "set +u\nsource /opt/miniconda3/bin/activate\nconda activate testbed\n" +
			"export PIP_CONSTRAINT=/opt/evalrun/constraints.txt PIP_FIND_LINKS=/opt/wheelhouse PIP_ROOT_USER_ACTION=ignore\n"
	}
	return text
}

// ConfigEnv is the whole environment of the image's processes.
func ConfigEnv(spec images.InstanceSpec) []string {
	merged := map[string]string{}
	var order []string
	for _, list := range [][]string{base.Env, env.Env(spec.Env), Env} {
		for _, kv := range list {
			name, _, _ := strings.Cut(kv, "=")
			if _, seen := merged[name]; !seen {
				order = append(order, name)
			}
			merged[name] = kv
		}
	}
	out := make([]string, len(order))
	for i, name := range order {
		out[i] = merged[name]
	}
	return out
}

func short(commit string) string {
	if len(commit) > 12 {
		return commit[:12]
	}
	return commit
}
