// Package architecture says which package may import which, and finds the
// imports that break those rules in a dependency graph.
//
// The rules are data: the tables in rules.go. A test holds the module to them.
// It must not import any other package of the module.
package architecture

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Package is one package of a dependency graph, as `go list -deps -json` gives it.
type Package struct {
	ImportPath string
	Doc        string   // first sentence of the package comment
	Imports    []string // direct
	Deps       []string // direct and indirect
}

// Check returns what breaks the rules, one line each, sorted. Packages outside
// the module are passed over.
func Check(module string, packages []Package) []string {
	var found []string
	for _, p := range packages {
		name, ours := relative(module, p.ImportPath)
		if !ours {
			continue
		}
		say := func(format string, args ...any) {
			found = append(found, name+": "+fmt.Sprintf(format, args...))
		}
		if p.Doc == "" {
			say("has no package comment; say what it is for and what it must not know")
		}
		if slices.Contains(meaningless, path.Base(name)) {
			say("is named after nothing; name it after what it provides")
		}
		checkOwn(module, name, p, say)
		checkOutside(name, p, say)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// checkOwn holds the imports of our own packages against the table.
func checkOwn(module, name string, p Package, say func(string, ...any)) {
	at := slices.IndexFunc(mayImport, func(r row) bool { return matches(r.pkg, name) })
	if at < 0 {
		say("has no row in mayImport; add one that says what it may import")
		return
	}
	for _, path := range p.Imports {
		other, ours := relative(module, path)
		if ours && !matchesAny(mayImport[at].imports, other) {
			say("imports %s; it may import %s", other, cmp.Or(strings.Join(mayImport[at].imports, ", "), "no package of ours"))
		}
	}
}

// checkOutside holds the imports of other modules and of the standard library
// against the two lists of what is confined and what must stay out of reach.
func checkOutside(name string, p Package, say func(string, ...any)) {
	for _, c := range confined {
		for _, path := range p.Imports {
			if under(c.outside, path) && !matchesAny(c.packages, name) {
				say("imports %s; only %s may", path, strings.Join(c.packages, ", "))
			}
		}
	}
	for _, u := range unreachable {
		if !matchesAny(u.packages, name) {
			continue
		}
		for _, path := range p.Deps {
			if under(u.outside, path) {
				say("reaches %s, directly or through others; it must not", path)
			}
		}
	}
}

// relative is the path of a package within the module.
func relative(module, path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// matches reports whether a pattern names a package: "cache" is that package
// alone, "images/..." it and those below, "..." all.
func matches(pattern, name string) bool {
	if pattern == "..." {
		return true
	}
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == tree || strings.HasPrefix(name, tree+"/")
	}
	return name == pattern
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// under reports whether an import path is one of these trees or below it.
func under(trees []string, path string) bool {
	return slices.ContainsFunc(trees, func(t string) bool { return path == t || strings.HasPrefix(path, t+"/") })
}
