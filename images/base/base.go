// Package base builds the base layer: an operating system with compilers, git,
// a locale and a non-root user.
//
// It knows BuildKit's LLB and how a root file system is made; it must not know
// which environment or repository will stand on it.
package base

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/moby/buildkit/client/llb"

	"github.com/evalrun/evalrun/images"
)

//go:embed setup.sh
var setup string

//go:embed truststore.sh
var truststore string

// RootFSName is the name under which the folder of the root file system tar is
// offered to the solver, and RootFSFile the tar's name in it.
const (
	RootFSName = "evalrun-rootfs"
	RootFSFile = "rootfs.tar"
)

// Env is the environment of every process in every layer above, fixed so that
// a test sees the same locale, time zone and hash seed everywhere.
var Env = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/root", "LANG=C.UTF-8", "TZ=Etc/UTC", "DEBIAN_FRONTEND=noninteractive", "PYTHONHASHSEED=0",
}

// WithEnv sets "NAME=value" pairs on a state.
func WithEnv(s llb.State, env []string) llb.State {
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		s = s.AddEnv(name, value)
	}
	return s
}

// State is the base layer of a spec.
func State(spec images.BaseSpec) (llb.State, error) {
	source, err := source(spec)
	if err != nil {
		return llb.State{}, err
	}
	s := WithEnv(source.Dir("/"), Env)
	return Run(s, setup, "base "+spec.Source.String()), nil
}

func source(spec images.BaseSpec) (llb.State, error) {
	switch spec.Source.Kind {
	case "debian", "rootfs", "oci-layout":
		// All three are a tar by now: solvers inside older daemons cannot read a layout.
		// Unpacking is left to the solver, so that owners, devices and links of the
		// tar survive whoever runs evalrun.
		tar := llb.Local(RootFSName, llb.IncludePatterns([]string{RootFSFile}),
			llb.SharedKeyHint(RootFSName+spec.Digest), llb.WithCustomName("root file system "+spec.Source.String()))
		return llb.Scratch().File(llb.Copy(tar, "/"+RootFSFile, "/", &llb.CopyInfo{AttemptUnpack: true, CreateDestPath: true}),
			llb.WithCustomName("unpack "+spec.Source.String())), nil
	case "image":
		// By name: the builder has put it into the engine's store, where the digest
		// may be one that no registry knows.
		return llb.Image(spec.Source.Ref, llb.ResolveModePreferLocal, llb.WithCustomName("image "+spec.Source.Ref)), nil
	}
	return llb.State{}, fmt.Errorf("base %s: unknown kind", spec.Source)
}

// Settings are the ids of the secrets offered to every build step, and where
// they are mounted. None of them is part of a layer or of a key.
var Settings = map[string]string{
	"evalrun-env":     "/run/evalrun/env",          // shell assignments: proxies, index settings
	"evalrun-ca":      "/run/evalrun/ca.crt",       // certificate bundle
	"evalrun-apt":     "/run/evalrun/apt.conf",     // points apt at the next one
	"evalrun-sources": "/run/evalrun/sources.list", // package mirrors of the base's suite
	"evalrun-condarc": "/run/evalrun/condarc",      // channels of conda

	"evalrun-composer": "/run/evalrun/composer.json", // repositories of Composer
}

// Both outputs through one pipe: an error would else be shown before, or after,
// what led to it.
const prologue = `set -euo pipefail
exec 2>&1
if [ -f /run/evalrun/env ]; then set -a; . /run/evalrun/env; set +a; fi
if [ -f /run/evalrun/ca.crt ]; then
  for n in SSL_CERT_FILE PIP_CERT REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO NODE_EXTRA_CA_CERTS CARGO_HTTP_CAINFO; do export $n=/run/evalrun/ca.crt; done
fi
if [ -f /run/evalrun/apt.conf ]; then export APT_CONFIG=/run/evalrun/apt.conf; fi
if [ -f /run/evalrun/composer.json ]; then
  mkdir -p /dev/shm/composer
  cp /run/evalrun/composer.json /dev/shm/composer/config.json
  export COMPOSER_HOME=/dev/shm/composer
fi
`

// Run adds one build step: a bash script that may use the network, sees the
// settings of this machine, and fails at its first failing command.
func Run(s llb.State, script, name string, opts ...llb.RunOption) llb.State {
	return s.Run(append(runOptions(script, name), opts...)...).Root()
}

func runOptions(script, name string) []llb.RunOption {
	opts := []llb.RunOption{
		llb.Args([]string{"/bin/bash", "-c", prologue + truststore + script}),
		llb.WithCustomName(name),
		llb.AddMount("/root/.cache/pip", llb.Scratch(), llb.AsPersistentCacheDir("evalrun-pip", llb.CacheMountShared)),
	}
	if strings.Contains(script, "apt-get") {
		// apt does not share its folders: steps that have these wait for each other.
		opts = append(opts,
			llb.AddMount("/var/cache/apt", llb.Scratch(), llb.AsPersistentCacheDir("evalrun-apt-cache", llb.CacheMountLocked)),
			llb.AddMount("/var/lib/apt/lists", llb.Scratch(), llb.AsPersistentCacheDir("evalrun-apt-lists", llb.CacheMountLocked)))
	}
	if os.Getenv("EVALRUN_BUILD_NETWORK") == "host" {
		opts = append(opts, llb.Network(llb.NetModeHost))
	}
	for _, id := range slices.Sorted(maps.Keys(Settings)) {
		opts = append(opts, llb.AddSecret(Settings[id], llb.SecretID(id), llb.SecretOptional, llb.SecretFileOpt(0, 0, 0o444)))
	}
	return opts
}

// AptScript installs operating system packages, or does nothing for none.
func AptScript(packages []string) string {
	if len(packages) == 0 {
		return ""
	}
	return "apt-get update -qq\napt-get install -y -qq --no-install-recommends " + strings.Join(packages, " ") + "\n"
}
