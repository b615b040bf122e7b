package mirror

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Git runs git in a repository with the user's own configuration shut out, so
// that the result depends on the repository alone. Nothing the repository's own
// configuration names is run, and no other machine is asked.
func Git(ctx context.Context, repository string, args ...string) ([]byte, error) {
	return run(ctx, repository, nil, localEnv, args...)
}

// localEnv keeps git on this machine. A mirror whose configuration declares a
// promisor remote would otherwise be completed on the fly, through whatever
// transport and program that configuration names.
var localEnv = []string{"GIT_ALLOW_PROTOCOL=file", "GIT_NO_LAZY_FETCH=1"}

// cloneEnv allows the transports people clone by, and not ext::, which is a command.
var cloneEnv = []string{"GIT_ALLOW_PROTOCOL=file:http:https:ssh:git"}

// uploadPack serves a mirror to a fetch. The server side of a fetch drops the
// configuration in the environment, so that it is given once more.
const uploadPack = "git -c safe.directory=* -c uploadpack.allowAnySHA1InWant=true -c pack.threads=1 -c core.fsmonitor=false upload-pack"

func run(ctx context.Context, repository string, input []byte, extra []string, args ...string) ([]byte, error) {
	full := args
	if repository != "" {
		full = append([]string{"-C", repository}, args...)
	}
	cmd := exec.CommandContext(ctx, "git", full...)
	cmd.Env = append(gitEnv(), extra...)
	cmd.Stdin = bytes.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		text := strings.TrimSpace(stderr.String())
		if text == "" {
			text = err.Error()
		}
		return nil, fmt.Errorf("git %s: %s", args[0], text)
	}
	return stdout.Bytes(), nil
}

// overrides beat what a repository's own configuration says.
var overrides = [][2]string{
	{"uploadpack.allowAnySHA1InWant", "true"},
	{"safe.directory", "*"},
	{"pack.threads", "1"},
	{"core.fsmonitor", "false"},
	{"core.hooksPath", os.DevNull},
	{"core.alternateRefsCommand", "true"},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
}

func gitEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		// GIT_SSL_* and the like say how to reach a server; the rest would change results.
		if strings.HasPrefix(kv, "GIT_") && !strings.HasPrefix(kv, "GIT_SSL_") {
			continue
		}
		env = append(env, kv)
	}
	env = append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(overrides)))
	for i, o := range overrides {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, o[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, o[1]))
	}
	return env
}
