package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// stampFile, in a repository, holds the digest of what it was made from.
const stampFile = "evalrun-demo-source"

// Materialize makes the bare repositories the instances are about in
// dir/evalrun-demo/NAME.git. Commit ids are the same on every machine, whatever
// its git configuration. A repository that is there and up to date is left as
// it is; an outdated one is replaced. Being killed half way leaves either no
// repository or a whole one, and calls may overlap.
func Materialize(ctx context.Context, dir string) error {
	all, err := readHistories()
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := h.materialize(ctx, filepath.Join(dir, Owner)); err != nil {
			return fmt.Errorf("make demo repository %s/%s: %w", Owner, h.name, err)
		}
	}
	return nil
}

func (h *history) materialize(ctx context.Context, dir string) error {
	target := filepath.Join(dir, h.name+".git")
	stream := h.fastImport()
	stamp := fmt.Sprintf("%x\n", sha256.Sum256(stream))
	if upToDate(target, stamp) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, "."+h.name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	made := filepath.Join(work, "new.git")
	// An empty template keeps the machine's hooks and excludes out.
	if err := git(ctx, nil, "init", "--quiet", "--bare", "--template=", made); err != nil {
		return err
	}
	if err := git(ctx, nil, "--git-dir="+made, "symbolic-ref", "HEAD", "refs/heads/main"); err != nil {
		return err
	}
	if err := git(ctx, stream, "--git-dir="+made, "fast-import", "--quiet", "--done"); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(made, stampFile), []byte(stamp), 0o644); err != nil {
		return err
	}
	return swap(made, target, filepath.Join(work, "old.git"), stamp)
}

// swap puts made in the place of target, which goes to old. Losing a race
// against another process that made the same is no failure.
func swap(made, target, old, stamp string) error {
	if upToDate(target, stamp) {
		return nil
	}
	if err := os.Rename(target, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(made, target); err != nil && !upToDate(target, stamp) {
		return err
	}
	return nil
}

func upToDate(repository, stamp string) bool {
	have, err := os.ReadFile(filepath.Join(repository, stampFile))
	return err == nil && string(have) == stamp
}

// git runs git with nothing of the user's configuration or environment.
func git(ctx context.Context, input []byte, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = gitEnv()
	cmd.Stdin = bytes.NewReader(input)
	output, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: install git", err)
	}
	if err != nil {
		return fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(output))
	}
	return nil
}

func gitEnv() []string {
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "GIT_") {
			env = append(env, variable)
		}
	}
	return append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "LC_ALL=C")
}
