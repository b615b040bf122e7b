// Package env builds the env layer: one interpreter or tool chain and its
// dependencies, shared by every instance that needs exactly these.
//
// It knows how environments are laid out on disk; it must not know which
// repository or commit will be checked out on top.
package env

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/moby/buildkit/client/llb"

	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/base"
)

// InterpreterName and ToolchainName are the names under which the folder of a
// pinned interpreter or Go tool chain is offered to the solver.
const (
	InterpreterName = "evalrun-interpreter"
	ToolchainName   = "evalrun-toolchain"
)

//go:embed interpreter.sh
var interpreter string

//go:embed python.sh
var python string

//go:embed conda.sh
var conda string

//go:embed asof.sh
var asOf string

//go:embed activate.sh
var activate string

//go:embed gotoolchain.sh
var gotoolchain string

//go:embed nodetoolchain.sh
var nodetoolchain string

// State is the env layer of a spec on top of its base.
func State(parent llb.State, spec images.EnvSpec) llb.State {
	s := parent
	if len(spec.Apt) > 0 {
		s = base.Run(s, base.AptScript(spec.Apt), "packages "+strings.Join(spec.Apt, " "))
	}
	switch {
	case spec.Language == "py":
		s = pythonState(s, spec)
	case NeedsToolchain(spec):
		s = toolchainState(s, spec)
	}
	s = base.WithEnv(s, Env(spec))
	for _, c := range spec.Commands {
		s = base.Run(s, c, "environment: "+firstLine(c))
	}
	return s
}

// Env is the environment the layer adds to the base's.
func Env(spec images.EnvSpec) []string {
	return append(languageEnv(spec), spec.Vars...)
}

func languageEnv(spec images.EnvSpec) []string {
	const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	switch spec.Language {
	case "go":
		return []string{"PATH=/usr/local/go/bin:/root/go/bin:" + path, "GOPATH=/root/go", "GOTOOLCHAIN=local", "GOFLAGS=-buildvcs=false"}
	case "js":
		// The tool chain brings the headers native modules are compiled with, which
		// would be downloaded else. Packages that are there to drive a browser fetch
		// one when installed; the official images have their own for those that need it.
		return []string{"PATH=/usr/local/node/bin:" + path, "NVM_DIR=/usr/local/nvm", "npm_config_nodedir=/usr/local/node",
			"PUPPETEER_SKIP_DOWNLOAD=true", "PUPPETEER_SKIP_CHROMIUM_DOWNLOAD=true"}
	case "php":
		// One cache for the build, which has a configuration of its own, and the tests;
		// and plug-ins, which Composer leaves out as root unless told.
		return []string{"COMPOSER_CACHE_DIR=/root/.cache/composer", "COMPOSER_ALLOW_SUPERUSER=1"}
	}
	return nil
}

// venv is where official scripts expect the environment they activate.
const venv = "/opt/miniconda3/envs/testbed"

func pythonState(s llb.State, spec images.EnvSpec) llb.State {
	p := spec.Python
	if p.From == "conda" {
		return condaState(s, spec)
	}
	home := "/usr"
	if p.From == "interpreters" {
		home = "/opt/python/" + p.Have
		tree := llb.Local(InterpreterName, llb.ExcludePatterns(images.InterpreterExcludes), llb.SharedKeyHint("python"+p.Digest),
			llb.WithCustomName("interpreter "+p.Have))
		s = s.File(llb.Copy(tree, "/", home, &llb.CopyInfo{CopyDirContentsOnly: true, CreateDestPath: true, ChownOpt: root}),
			llb.WithCustomName("copy interpreter "+p.Have))
		s = base.Run(s, vars("HOME_DIR", home)+interpreter, "check interpreter "+p.Have)
	}
	if p.From == "debian" {
		s = base.Run(s, base.AptScript([]string{"python3-venv", "python3-dev"}), "packages python3-venv python3-dev")
	}
	exe := home + "/bin/python3"
	if strings.HasPrefix(p.Have, "2.") {
		exe = home + "/bin/python2"
	}
	s = base.Run(s, vars("PYTHON", exe, "VENV", venv, "ACTIVATE", activate)+python, "environment: python "+p.Have)
	if script := pipScript(spec); script != "" {
		s = base.Run(s, script, "environment: packages")
	}
	return s
}

// condaState makes the environment with a real conda.
func condaState(s llb.State, spec images.EnvSpec) llb.State {
	installer := llb.Local(InterpreterName, llb.SharedKeyHint("conda"+spec.Python.Digest), llb.WithCustomName("conda installer"))
	s = base.Run(s, vars("WANT", spec.Python.Want, "VENV", venv)+conda, "environment: conda, python "+spec.Python.Want,
		llb.AddMount("/mnt/conda", installer, llb.Readonly))
	if script := pipScript(spec); script != "" {
		s = base.Run(s, script, "environment: packages")
	}
	return s
}

// pipScript installs the packages of the environment in the order the classic
// harness does: the named ones, the requirements, the late ones.
func pipScript(spec images.EnvSpec) string {
	var b strings.Builder
	pip := venv + "/bin/python -m pip install -q --no-warn-script-location "
	if len(spec.Pip) > 0 {
		b.WriteString(pip + quoteAll(spec.Pip) + "\n")
	}
	if spec.Requirements != "" {
		fmt.Fprintf(&b, "cat > /tmp/requirements.txt <<'EVALRUN_END'\n%s\nEVALRUN_END\n", strings.TrimRight(spec.Requirements, "\n"))
		b.WriteString(AsOf(spec.AsOf, "-r /tmp/requirements.txt"))
		if spec.FromConda {
			fmt.Fprintf(&b, "cat > /tmp/pins.txt <<'EVALRUN_END'\n%s\nEVALRUN_END\n%s", strings.Join(pins(spec.PipLate), "\n"), condaPackages)
		} else {
			b.WriteString(pip + "-r /tmp/requirements.txt\n")
		}
		b.WriteString("rm -f /tmp/requirements.txt /tmp/pins.txt\n")
	}
	if len(spec.PipLate) > 0 {
		b.WriteString(pip + quoteAll(spec.PipLate) + "\n")
	}
	if b.Len() == 0 {
		return ""
	}
	return "export PIP_CONSTRAINT=/opt/evalrun/constraints.txt\n" + b.String() + venv + "/bin/python -m pip freeze --all > /opt/evalrun/frozen.txt\n"
}

// AsOf is a script that holds what pip is about to install to a date: the
// constraints file gets the versions of that day. It is empty for no date.
func AsOf(date, arguments string) string {
	if date == "" {
		return ""
	}
	return asOf + "as_of " + images.ShellQuote(date) + " " + arguments + "\n"
}

// toolchains says where the pinned tool chain of a language goes and what
// checks it.
var toolchains = map[string]struct{ dir, check string }{
	"go": {"/usr/local/go", gotoolchain},
	"js": {"/usr/local/node", nodetoolchain},
}

// NeedsToolchain reports whether the environment has a pinned tool chain that is
// copied in from this machine.
func NeedsToolchain(spec images.EnvSpec) bool {
	_, ok := toolchains[spec.Language]
	return ok && spec.Version != ""
}

// condaPackages installs what a conda file names, as far as pip has it, in
// versions that agree with the pins that follow.
const condaPackages = `pip="` + venv + `/bin/python -m pip install -q --no-warn-script-location -c /tmp/pins.txt"
: > /opt/evalrun/not-installed.txt
$pip -r /tmp/requirements.txt || while IFS= read -r line; do
  $pip "$line" </dev/null || { echo "$line" >> /opt/evalrun/not-installed.txt; echo "evalrun: pip cannot install $line" >&2; }
done < /tmp/requirements.txt
[ ! -s /opt/evalrun/not-installed.txt ] || echo "without the conda packages pip cannot install: $(paste -sd, /opt/evalrun/not-installed.txt | sed 's/,/, /g')" >> /opt/evalrun/deviations.txt
`

// pins are the specifiers that can stand in a constraints file.
func pins(specifiers []string) []string {
	var out []string
	for _, s := range specifiers {
		if strings.Contains(s, "==") && !strings.ContainsAny(s, "[@") {
			out = append(out, s)
		}
	}
	return out
}

func toolchainState(s llb.State, spec images.EnvSpec) llb.State {
	t := toolchains[spec.Language]
	name := spec.Language + " " + spec.Version
	tree := llb.Local(ToolchainName, llb.SharedKeyHint(name), llb.WithCustomName("tool chain "+name))
	s = s.File(llb.Copy(tree, "/", t.dir, &llb.CopyInfo{CopyDirContentsOnly: true, CreateDestPath: true, ChownOpt: root}),
		llb.WithCustomName("copy tool chain "+name))
	return base.Run(s, vars("WANT", spec.Version)+t.check, "check tool chain "+name)
}

var root = &llb.ChownOpt{User: &llb.UserOpt{UID: 0}, Group: &llb.UserOpt{UID: 0}}

// vars renders shell assignments; values are single-quoted.
func vars(pairs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%s=%s\n", pairs[i], images.ShellQuote(pairs[i+1]))
	}
	return b.String()
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = images.ShellQuote(w)
	}
	return strings.Join(quoted, " ")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
