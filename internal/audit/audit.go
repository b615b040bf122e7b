// Package audit looks into an image for what a patch could read there and must
// not: commits after base_commit, which hold the fix.
//
// It must not know where images come from, nor what is run in them.
package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

//go:embed audit.sh
var script string

// History is what the git repositories of an image know.
type History struct {
	Stores []Store
	NoGit  bool // the image has no git, so that nobody looked
}

// Store is one repository of the image, wherever it lies.
type Store struct {
	Dir      string
	HasBase  bool // it holds base_commit
	Copy     bool // it does not, and holds many of its files
	Head     string
	Ahead    int      // commits from base_commit to HEAD
	Commits  int      // all there are
	Others   int      // of those, neither HEAD nor an ancestor of it
	Later    int      // of those, made after base_commit
	Examples []string // ids of a few later ones
}

// setUp is how many commits of its own an image may have on top of base_commit:
// official images commit what their set-up changed.
const setUp = 2

// Clean reports whether nothing after base_commit can be read.
func (h History) Clean() bool { return !h.NoGit && h.found() && h.leak() == nil }

// found reports whether the repository was found at all.
func (h History) found() bool {
	return slices.ContainsFunc(h.Stores, func(s Store) bool { return s.HasBase })
}

func (h History) leak() *Store {
	for i, s := range h.Stores {
		if (s.HasBase || s.Copy) && (s.Later > 0 || s.Ahead > setUp) {
			return &h.Stores[i]
		}
	}
	return nil
}

// String says it in one line, for the record of an attempt.
func (h History) String() string {
	s := h.leak()
	switch {
	case h.NoGit:
		return "not checked: the image has no git"
	case !h.found():
		return "not checked: no repository of the image has base_commit"
	case s == nil:
		return "nothing after base_commit (audited)"
	case s.Later == 0:
		return fmt.Sprintf("the checkout %s is %d commits after base_commit", s.Dir, s.Ahead)
	}
	return fmt.Sprintf("%d commits after base_commit can be read in %s, for example %s", s.Later, s.Dir, strings.Join(s.Examples, ", "))
}

// limits are those of a stranger's image.
var limits = sandbox.Limits{CPUs: 1, MemoryBytes: 2 << 30, Pids: 256, DiskBytes: 1 << 30}

// timeout is what looking may take; the largest repositories need a minute.
const timeout = 10 * time.Minute

// Look looks into an image for commits after base. An error means that it could
// not be looked at, and says nothing about the image.
func Look(ctx context.Context, driver sandbox.Driver, image, base string) (History, error) {
	if !commit.MatchString(base) {
		return History{}, fmt.Errorf("audit %s: %q is not a commit", image, base)
	}
	box, err := driver.Start(ctx, sandbox.Spec{Image: image, Name: "audit", Limits: limits, Expiry: time.Now().Add(2 * timeout)})
	if err != nil {
		return History{}, fmt.Errorf("audit %s: %w", image, err)
	}
	defer box.Destroy(context.WithoutCancel(ctx))
	nonce := newNonce()
	out := &bounded{}
	file := sandbox.File{Path: "/tmp/evalrun-audit.sh", Mode: 0o644, Data: []byte(script)}
	res, err := box.Exec(ctx, sandbox.Command{Argv: []string{"/bin/sh", file.Path, nonce, base}, Dir: "/", Files: []sandbox.File{file}, Output: out, Timeout: timeout})
	if err != nil {
		return History{}, fmt.Errorf("audit %s: %w", image, err)
	}
	if res.TimedOut {
		return History{}, fmt.Errorf("audit %s: not done after %s", image, timeout)
	}
	h, err := parse(nonce, out.String())
	if err != nil {
		return h, fmt.Errorf("audit %s: %w", image, err)
	}
	return h, nil
}

var commit = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

func newNonce() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// parse reads what the script printed.
func parse(nonce, output string) (History, error) {
	var h History
	for line := range strings.Lines(output) {
		rest, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), nonce+" ")
		if !ok {
			continue
		}
		words := strings.Fields(rest)
		switch {
		case len(words) == 1 && words[0] == "done":
			return h, nil
		case len(words) == 1 && words[0] == "nogit":
			h.NoGit = true
			return h, nil
		case len(words) == 9 && words[0] == "store":
			s, err := parseStore(words[1:])
			if err != nil {
				return h, err
			}
			h.Stores = append(h.Stores, s)
		default:
			return h, fmt.Errorf("a line that means nothing: %.200q", rest)
		}
	}
	return h, fmt.Errorf("the script did not get to its end; its output ends in %q", output[max(0, len(output)-300):])
}

func parseStore(words []string) (Store, error) {
	dir, err := base64.StdEncoding.DecodeString(words[0])
	s := Store{Dir: string(dir), HasBase: words[1] == "yes", Copy: words[1] == "copy", Head: words[2]}
	for i, to := range []*int{&s.Ahead, &s.Commits, &s.Others, &s.Later} {
		n, bad := strconv.Atoi(words[3+i])
		if bad != nil {
			err = bad
		}
		*to = n
	}
	for id := range strings.SplitSeq(strings.TrimSuffix(words[7], "-"), ",") {
		if id != "" {
			s.Examples = append(s.Examples, id[:min(len(id), 12)])
		}
	}
	return s, err
}

// bounded keeps the first megabyte.
type bounded struct{ bytes.Buffer }

var _ io.Writer = (*bounded)(nil)

func (b *bounded) Write(p []byte) (int, error) {
	if room := 1<<20 - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
