package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// witness is a sandbox of which can be told from outside which files differ from
// the image. Nothing that runs inside has a say in it.
type witness interface {
	Changed(ctx context.Context) ([]sandbox.Change, error)
}

// witnessTimeout is what looking may take.
const witnessTimeout = 30 * time.Second

// runWith are the paths that tests run with: a set-up adds to them, and neither it
// nor the tests have an honest reason to change what is there.
var runWith = []struct{ kinds, paths *regexp.Regexp }{
	{regexp.MustCompile(`[CD]`), regexp.MustCompile(`^/(?:usr/(?:local/)?)?s?bin/[^/]+$|^/opt/(?:[^/]+/)+bin/(?:python[\d.]*|pytest|node|go|git|ruby|php|java)$`)},
	// Another one first on the path is as good as changing it.
	{regexp.MustCompile(`A`), regexp.MustCompile(`/s?bin/(?:python[\d.]*|sh|bash|env|git|make|cc|gcc|ld|go|node|ruby|php|java|javac|mvn|cargo|rustc|cat|tar|grep|sed)$`)},
	{regexp.MustCompile(`[ACD]`), regexp.MustCompile(`/(?:site|dist)-packages/(?:_pytest|pytest|pluggy|iniconfig)/[^/]+(?:/[^/]+)*\.py$|/(?:sitecustomize|usercustomize)(?:\.py|/__init__\.py)$`)},
	{regexp.MustCompile(`[CD]`), regexp.MustCompile(`/(?:site|dist)-packages/(?:_pytest|pytest|pluggy)/(?:[^/]+/)*__pycache__/[^/]+\.pyc$`)},
	{regexp.MustCompile(`[ACD]`), regexp.MustCompile(`^/(?:usr/(?:local/)?|opt/(?:[^/]+/)+)lib/python3?[\d.]*/(?:[a-z_]+|(?:unittest|json|importlib|encodings|asyncio|collections|logging|re)/\w+)\.py$`)},
	{regexp.MustCompile(`[ACD]`), regexp.MustCompile(`^/usr/(?:local/go|lib/go(?:-[\d.]+)?|share/go(?:-[\d.]+)?)/(?:src|bin|pkg/tool)/.*\w$`)},
	{regexp.MustCompile(`[CD]`), regexp.MustCompile(`^/usr/(?:include|lib/gcc|lib/jvm|share/nodejs|lib/node_modules)/`)},
	{regexp.MustCompile(`[ACD]`), regexp.MustCompile(`^/root/\.config/go/env$`)},
	{regexp.MustCompile(`[ACD]`), regexp.MustCompile(`^/etc/ld\.so\.preload$|^/(?:usr/)?lib(?:64)?/(?:[^/]+-linux-gnu/)?[^/]+\.so(?:\.[\d.]+)?$|^/usr/lib/git-core/[^/]+$`)},
}

// runFrom are the folders above them; none is removed, or replaced by a link, to any
// good end.
var runFrom = regexp.MustCompile(`^/(?:usr/(?:local/)?)?(?:s?bin/|lib(?:64)?/(?:[^/]+-linux-gnu/)?)?$|^/(?:etc|opt)/$|^/opt/(?:[^/]+/)+(?:bin|lib|envs)/$|` +
	`/(?:site|dist)-packages/(?:(?:_pytest|pytest|pluggy|iniconfig)/(?:[a-z]+/)*)?$|/lib/python3?[\d.]*/(?:[a-z_]+/)*$|` +
	`^/usr/(?:local/go|lib/go(?:-[\d.]+)?|share/go(?:-[\d.]+)?)/(?:[^/]+/)*$|^/usr/lib/git-core/$`)

// swapped are the paths among the changed ones that tests run with.
func swapped(changed []sandbox.Change) []string {
	var found []string
	for _, c := range changed {
		kind, path := string(c.Kind), c.Path
		if strings.HasPrefix(path, ourDir+"/") || strings.HasPrefix(path, workDir+"/") {
			continue
		}
		// A link that leads to a folder is as good as the folder.
		if folder := strings.TrimSuffix(path, "/") + "/"; (path == folder || kind != "A") && runFrom.MatchString(folder) && !strings.HasSuffix(folder, "/__pycache__/") {
			found = append(found, path)
			continue
		}
		for _, r := range runWith {
			if r.kinds.MatchString(kind) && r.paths.MatchString(path) {
				found = append(found, path)
				break
			}
		}
	}
	return found
}

// watch finds out whether what the sandbox writes is seen from outside.
func (t *trial) watch(ctx context.Context) {
	_, err := t.changed(ctx)
	t.watched = err == nil
}

// changed asks the witness, if there is one.
func (t *trial) changed(ctx context.Context) ([]sandbox.Change, error) {
	w, ok := t.box.(witness)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	return w.Changed(ctx)
}

// noteWritten takes down what is written as the tests find it.
func (t *trial) noteWritten(ctx context.Context) {
	if !t.watched {
		return
	}
	list, err := t.changed(ctx)
	t.blind = err
	t.written = map[string]sandbox.Change{}
	for _, c := range list {
		if strings.HasPrefix(c.Path, workDir+"/") {
			t.written[c.Path] = c
		}
	}
}

// aftermath looks, once the tests are over, for what was changed of all that tests run
// with, and for tracked files and test files that are not as the tests found them.
// From outside where that can be; else the sandbox is asked, which may deny it, but has
// no reason to make it up.
func (t *trial) aftermath(ctx context.Context) error {
	if !t.watched {
		if err := t.askChanges(ctx); err != nil {
			return err
		}
		t.rewritten(t.a.ChangedByTests)
		return nil
	}
	list, err := t.changed(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if found := swapped(list); len(found) > 0 && t.modelRan {
		t.odd = append(t.odd, "what tests run with was changed before they ended: "+listed(found))
	}
	if err == nil {
		err = t.blind
	}
	if err != nil {
		// What runs inside can bring it about: it must not pass for nothing.
		t.odd = append(t.odd, fmt.Sprintf("which test files were changed, and what tests run with, is not known for sure: %v", err))
		return nil
	}
	changes := since(t.written, list)
	t.rewritten(changes)
	return t.askTracked(ctx, changes)
}

// leavings are the folders in which runners leave what no test file is.
var leavings = regexp.MustCompile(`(?:^|/)(?:__pycache__|\.pytest_cache)/|^\.git/`)

// since are the files of the checkout that were there before the tests and have been
// written to or removed, as "M path" and "D path", a folder with a slash at its end; the
// checkout itself is "./".
func since(before map[string]sandbox.Change, after []sandbox.Change) []string {
	var list []string
	add := func(status, path string) {
		name, ok := strings.CutPrefix(path, workDir+"/")
		if name = cmp.Or(name, "./"); ok && !leavings.MatchString(name) && !strings.Contains(name, "\n") {
			list = append(list, status+" "+name)
		}
	}
	there := map[string]bool{}
	for _, c := range after {
		there[c.Path] = true
		was, known := before[c.Path]
		switch {
		case known && was == c, !known && c.Kind == sandbox.Added, known && was.Kind == sandbox.Deleted:
		case c.Kind == sandbox.Deleted:
			add("D", c.Path)
		default:
			add("M", c.Path)
		}
	}
	for path, was := range before {
		if !there[path] && was.Kind != sandbox.Deleted {
			add("D", path)
		}
	}
	slices.Sort(list)
	return list
}

// rewritten notes the test files among the changed files.
func (t *trial) rewritten(changes []string) {
	var found []string
	for _, line := range changes {
		_, path, _ := strings.Cut(line, " ")
		for _, name := range t.testFiles {
			if name == path || path == "./" || strings.HasSuffix(path, "/") && strings.HasPrefix(name, path) {
				found = append(found, name)
			}
		}
	}
	if len(found) > 0 {
		slices.Sort(found)
		t.odd = append(t.odd, "test files were changed after they were restored: "+listed(slices.Compact(found)))
	}
}

// listed names the first of some paths.
func listed(paths []string) string {
	const first = 3
	if len(paths) <= first {
		return strings.Join(paths, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(paths[:first], ", "), len(paths)-first)
}
