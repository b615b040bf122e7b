package patch

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

//go:embed scripts/lib.sh
var libScript string

//go:embed scripts/apply.sh
var applyScript string

//go:embed scripts/restore.sh
var restoreScript string

// Attempts returns the commands that are tried in order on each variant; each
// gets the patch's file as one more argument. They are the official harness's,
// and patch is told two things besides: to read unified diffs only, so that no
// text around one is taken for an ed script, and to leave no backups.
//
// git apply --reject counts when nothing was rejected, and patch never applies a
// patch in reverse.
func Attempts() [][]string {
	return [][]string{
		{"git", "apply", "--verbose"},
		{"git", "apply", "--verbose", "--3way"},
		{"git", "apply", "--verbose", "--reject"},
		{"patch", "--batch", "--forward", "--fuzz=5", "-p1", "--unified", "--no-backup-if-mismatch", "-i"},
	}
}

// AlreadyApplied stands for the command when none applied the patch, but its
// reverse would apply: it is there already, for the official harness too.
const AlreadyApplied = "already applied"

// reverseCheck follows the attempts.
const reverseCheck = "git apply --check --reverse"

func commandName(n int) (string, bool) {
	all := Attempts()
	switch {
	case n >= 1 && n <= len(all):
		return strings.Join(all[n-1], " "), true
	case n == len(all)+1:
		return reverseCheck, true
	}
	return "", false
}

// ApplyScript returns a script that applies the patch in the checkout at root.
// files are where the texts of p.Variants have been put, in their order. The
// script is one process: it keeps what the commands might change, tries them on
// each variant, restores the kept state exactly after each that fails, and stops
// at the first that succeeds. Uncommitted changes, untracked files and the index
// stay as they are, but for an untracked file standing where the patch makes one.
//
// nonce must be unguessable: it marks the lines ParseResult reads.
func (p *Prepared) ApplyScript(root, nonce string, files []string) (string, error) {
	if len(p.Unsafe) > 0 {
		return "", &UnsafeError{Problems: p.Unsafe}
	}
	if len(files) != len(p.Variants) {
		return "", fmt.Errorf("apply script: %d files for %d variants of the patch", len(files), len(p.Variants))
	}
	head, err := scriptHead(root, nonce, p.watch, p.created)
	if err != nil {
		return "", fmt.Errorf("apply script: %w", err)
	}
	return head + setArguments(files) + libScript + applyScript, nil
}

// Restore is what RestoreScript needs.
type Restore struct {
	Root      string   // the checkout
	Base      string   // commit the files come from
	Nonce     string   // as for ApplyScript
	Paths     []string // files to bring back, or to delete where Base has none; all that TestPatch touches must be among them
	TestPatch string   // file with the patch to apply afterwards; "" for none
}

// RestoreScript returns a script that brings each path to what it is in the base
// commit, on its own, so that one unknown path does not keep the others as they
// are, and then applies the test patch with the same commands as a model's patch.
// Nothing that stands where a path or one of its folders belongs survives: links
// and folders planted there are removed, never followed.
func RestoreScript(r Restore) (string, error) {
	for _, name := range r.Paths {
		if why := pathReason(name); why != "" {
			return "", fmt.Errorf("restore script: %q: %s", name, why)
		}
	}
	if !commitName.MatchString(r.Base) {
		return "", fmt.Errorf("restore script: %q is not a commit", r.Base)
	}
	head, err := scriptHead(r.Root, r.Nonce, r.Paths, nil)
	if err != nil {
		return "", fmt.Errorf("restore script: %w", err)
	}
	var files []string
	if r.TestPatch != "" {
		files = []string{r.TestPatch}
	}
	return head + "base=" + quote(r.Base) + "\n" + setArguments(files) + libScript + restoreScript, nil
}

var (
	commitName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._/~^-]*$`)
	nonceForm  = regexp.MustCompile(`^[0-9A-Za-z_-]{8,128}$`)
)

// scriptHead sets the variables of the script's common part. The paths are here
// documents, which need no quoting and know no limit of length.
func scriptHead(root, nonce string, watch, created []string) (string, error) {
	if !nonceForm.MatchString(nonce) {
		return "", fmt.Errorf("the nonce %q is not 8 to 128 letters, digits, - or _", nonce)
	}
	if !strings.HasPrefix(root, "/") || strings.ContainsAny(root, "\"\\\n") {
		return "", fmt.Errorf("the folder %q is not absolute, or has quotes, backslashes or line breaks in it", root)
	}
	end := "end-" + nonce
	var spare []string
	known := newSet()
	known.add(watch...)
	for _, name := range watch {
		for _, suffix := range []string{".rej", ".orig"} {
			if !known.has[name+suffix] {
				spare = append(spare, name+suffix)
			}
		}
	}
	if slices.Contains(watch, end) {
		return "", fmt.Errorf("the patch writes to a file named like the nonce")
	}
	var b strings.Builder
	b.WriteString("#!/bin/sh\n")
	fmt.Fprintf(&b, "nonce=%s\nroot=%s\nlists() {\n", nonce, quote(root))
	for _, list := range []struct {
		name  string
		paths []string
	}{{"watch", watch}, {"spare", spare}, {"created", created}} {
		fmt.Fprintf(&b, "cat >\"$tmp/%s\" <<'%s' || return\n", list.name, end)
		for _, p := range list.paths {
			b.WriteString(p)
			b.WriteByte('\n')
		}
		b.WriteString(end + "\n")
	}
	b.WriteString("}\n")
	return b.String(), nil
}

func setArguments(files []string) string {
	if len(files) == 0 {
		return "set --\n"
	}
	words := make([]string, len(files))
	for i, f := range files {
		words[i] = quote(f)
	}
	return "set -- " + strings.Join(words, " ") + "\n"
}

// quote makes one word of sh.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
