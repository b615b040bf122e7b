package swebench

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/datasets"
)

// Packages the official base image of a language brings and its test suites
// count on, beyond what every base has.
var languageApt = map[string][]string{
	"c": {"autoconf", "automake", "bison", "cmake", "flex", "libffi-dev", "libtool", "pkg-config", "python3-venv", "tcl"},
}

// The locale the evaluation scripts of old Django versions ask for. The list of
// locales is emptied afterwards: the scripts call locale-gen each time they run,
// and with an empty list that costs nothing and takes nothing away.
const makeLocale = "echo 'en_US.UTF-8 UTF-8' > /etc/locale.gen && locale-gen && : > /etc/locale.gen"

// The official base image of Java brings Maven's daemon, which no package has. It
// takes mvn's arguments and prints mvn's results.
const makeMvnd = `printf '#!/bin/sh\nexec mvn "$@"\n' > /usr/local/bin/mvnd && chmod 755 /usr/local/bin/mvnd`

// Versions of pnpm and yarn where the facts name none: the official default,
// and the last yarn that is installed globally (projects bring newer ones).
const (
	defaultPnpm = "9.5.0"
	globalYarn  = "1.22.22"
)

// setUp turns facts into the parts of a recipe that make its images.
func setUp(inst *datasets.Instance, repo *repository, spec *spec) (datasets.Recipe, error) {
	env := datasets.Environment{Language: repo.language, Version: spec.Version}
	env.Apt = appendNew(env.Apt, languageApt[repo.language]...)
	env.Apt = appendNew(env.Apt, spec.Apt...)

	pre, apt, locale := liftSystem(spec.PreInstall)
	env.Apt = appendNew(env.Apt, apt...)
	_, _, evalLocale := liftSystem(spec.EvalCommands)
	addLocale(&env, locale || evalLocale)

	var recipe datasets.Recipe
	if spec.CargoLock != "" {
		f, err := loadFacts()
		if err != nil {
			return recipe, err
		}
		text, ok := f.cargoLocks[spec.CargoLock]
		if !ok {
			return recipe, fmt.Errorf("embedded facts: no Cargo.lock %s", spec.CargoLock)
		}
		pre = append([]string{"cat > Cargo.lock <<'EOF_CARGO_LOCK'\n" + text + "\nEOF_CARGO_LOCK"}, pre...)
	}
	recipe.PreInstall = pre
	recipe.Install = append(recipe.Install, spec.Install...)
	switch repo.language {
	case "py":
		pythonPackages(&env, inst, repo, spec)
	case "js":
		env.Commands = append(env.Commands, nodeTools(spec)...)
		if needsBrowser(spec) {
			addBrowser(&env)
		}
	case "java":
		if mentions(`\bmvnd\b`, spec.Test) {
			env.Commands = append(env.Commands, makeMvnd)
			env.Deviations = append(env.Deviations, "mvnd, Maven's daemon, is a script that calls Debian's mvn")
		}
	}
	if repo.language != "py" {
		recipe.Build = append(recipe.Build, spec.Build...)
	}
	if mentions(`\bjq -r\b`, spec.Test) {
		env.Apt = appendNew(env.Apt, "jq")
	}
	recipe.Environment = env
	if strings.EqualFold(inst.Repo, matplotlib) {
		matplotlibLibraries(&recipe)
	}
	return recipe, nil
}

func addLocale(env *datasets.Environment, wanted bool) {
	if wanted {
		env.Apt = appendNew(env.Apt, "locales")
		env.Commands = appendNew(env.Commands, makeLocale)
	}
}

func pythonPackages(env *datasets.Environment, inst *datasets.Instance, repo *repository, spec *spec) {
	switch spec.Packages {
	case "requirements.txt":
		env.RequirementFiles = repo.RequirementFiles
	case "environment.yml":
		env.EnvironmentFiles = repo.EnvironmentFiles
	default:
		env.Pip = pipRequirements(spec.Packages, spec.Version)
	}
	env.PipLate = append(env.PipLate, spec.PipPackages...)
	// Only where files are read at it: else instances of one environment would
	// have different ones.
	if len(env.RequirementFiles)+len(env.EnvironmentFiles) > 0 {
		env.RequirementCommit = inst.EnvironmentSetupCommit
		if env.RequirementCommit == "" {
			env.RequirementCommit = inst.BaseCommit
		}
	}
}

// condaOnly maps what conda has for an interpreter and pip has not, to the
// nearest pip has. The pins have no wheels for Python 3.9, the next patch release
// does. A bare cython means 0.29 where conda's channels end there; pip would take
// version 3, which does not compile the sources of that time.
var condaOnly = map[string]map[string]string{
	"3.9": {"numpy==1.19.2": "numpy==1.19.3", "scipy==1.5.2": "scipy==1.5.4"},
	"3.6": {"cython": "cython<3"},
	"3.5": {"cython": "cython<3"},
}

var condaPin = regexp.MustCompile(`^([A-Za-z0-9_.-]+)=([0-9][^=]*)$`)

// pipRequirements turns literal arguments of conda create into requirement
// specifiers of pip.
func pipRequirements(packages, python string) []string {
	words := wordsOf(packages)
	var out []string
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "-c" || w == "--channel":
			i++ // channels mean nothing to pip
			continue
		case strings.HasPrefix(w, "-"):
			continue
		}
		if _, name, found := strings.Cut(w, "::"); found {
			w = name
		}
		if m := condaPin.FindStringSubmatch(w); m != nil {
			w = m[1] + "==" + strings.TrimSuffix(strings.TrimSuffix(m[2], "*"), ".") + ".*"
		}
		if w == "python" || strings.HasPrefix(w, "python=") || w == "pip" {
			continue // the interpreter and its installer are there
		}
		if other, found := condaOnly[python][w]; found {
			w = other
		}
		out = appendNew(out, w)
	}
	return out
}

// wordsOf splits by blanks outside quotes. Unlike bash it takes < and > for
// letters, since conda arguments like pandas<2 are not always quoted.
func wordsOf(s string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	inWord := false
	for _, c := range s {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inWord = c, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}

// nodeTools installs the package managers a JavaScript project's commands call
// and do not install themselves.
func nodeTools(spec *spec) []string {
	var commands []string
	all := append(append(append([]string{}, spec.Install...), spec.Build...), spec.Test...)
	if spec.Pnpm != "" || mentions(`\bpnpm\b`, all) {
		version := spec.Pnpm
		if version == "" {
			version = defaultPnpm
		}
		commands = append(commands, "npm install --global pnpm@"+version)
	}
	if mentions(`(^|[;&|] *)yarn\b`, all) && !mentions(`npm (i|install) -g yarn`, all) {
		commands = append(commands, "npm install --global yarn@"+globalYarn)
	}
	return commands
}

// needsBrowser reports whether a project's tests run in the Chrome that every
// official JavaScript image has. It is large, so only those get one.
func needsBrowser(spec *spec) bool {
	return slices.Contains(spec.CapAdd, "SYS_ADMIN") || mentions(`(?i)karma|puppeteer|chrome`, slices.Concat(spec.Install, spec.Build, spec.Test))
}

// addBrowser gives an environment Debian's Chromium, where test runners look for
// it.
func addBrowser(env *datasets.Environment) {
	env.Apt = appendNew(env.Apt, "chromium")
	env.Env = append(env.Env, "CHROME_BIN=/usr/bin/chromium", "PUPPETEER_EXECUTABLE_PATH=/usr/bin/chromium")
	env.Deviations = append(env.Deviations, "Debian's Chromium in place of Google Chrome")
}

func mentions(pattern string, commands []string) bool {
	re := regexp.MustCompile(pattern)
	for _, c := range commands {
		if re.MatchString(c) {
			return true
		}
	}
	return false
}
