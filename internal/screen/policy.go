package screen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Action is what is done about a file of the test infrastructure that a patch
// touches.
type Action string

const (
	Allow   Action = "allow"   // nothing, not even a word
	Flag    Action = "flag"    // the patch is suspicious
	Restore Action = "restore" // brought back to base_commit before the tests, and flagged
	Block   Action = "block"   // the patch does not run
)

// Policy says what is done about what a patch touches and does. The zero Policy
// is the default one.
type Policy struct {
	Files map[Class]Action `json:"files,omitempty"` // by class of file
	Rules map[string]Level `json:"rules,omitempty"` // by rule; clean ignores it
}

// defaults are the actions of the default policy. What no honest patch has a
// reason to bring is put back; what one may have to change is left to a person.
var defaults = map[Class]Action{
	Startup: Restore, Bytecode: Restore, Shadow: Restore,
	Overrides: Flag, Pytest: Flag, JSRunner: Flag, CargoConf: Flag, Rspec: Flag, PHPUnit: Flag, Maven: Flag, GitConf: Flag,
}

// action is the strictest of those for the file's classes. By default a file that
// was there before is not put back: it is the project's own, as src/pytest is of
// pytest, and changing it may be the task.
func (p Policy) action(f File, existed bool) Action {
	worst := Allow
	order := []Action{Allow, Flag, Restore, Block}
	for _, c := range f.Classes {
		a, ok := p.Files[c]
		if !ok {
			if a = defaults[c]; a == Restore && existed {
				a = Flag
			}
		}
		if slices.Index(order, a) > slices.Index(order, worst) {
			worst = a
		}
	}
	return worst
}

func (p Policy) level(rule string) Level {
	if l, ok := p.Rules[rule]; ok {
		return l
	}
	return Suspicious
}

func levelOf(a Action) Level {
	switch a {
	case Block:
		return Blocked
	case Flag, Restore:
		return Suspicious
	}
	return Clean
}

func actionWords(a Action) string {
	if a == Restore {
		return "; put back before the tests"
	}
	return ""
}

// ReadPolicy reads a policy file: a JSON object with "files" (class of file ->
// allow, flag, restore or block) and "rules" (name of a rule -> clean,
// suspicious or blocked). Whatever it does not name is as by default.
func ReadPolicy(r io.Reader) (Policy, error) {
	var p Policy
	text, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err != nil {
		return p, err
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return p, errors.New("not a policy: want a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("not a policy: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("not a policy: there is more after the object")
	}
	return p, errors.Join(p.check()...)
}

func (p Policy) check() []error {
	var errs []error
	for c, a := range p.Files {
		if !slices.Contains(classes, c) {
			errs = append(errs, fmt.Errorf("files: there is no class %q; there are %s", c, joined(classes)))
		}
		if !slices.Contains([]Action{Allow, Flag, Restore, Block}, a) {
			errs = append(errs, fmt.Errorf("files: %s: want allow, flag, restore or block, not %q", c, a))
		}
	}
	for name, l := range p.Rules {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.name == name }) {
			errs = append(errs, fmt.Errorf("rules: there is no rule %q; there are %s", name, joined(ruleNames())))
		}
		if rank(l) < 0 {
			errs = append(errs, fmt.Errorf("rules: %s: want clean, suspicious or blocked, not %q", name, l))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

// classes are all there are, in the order of the documentation.
var classes = append([]Class{Source, Tests, Build, Vendored, Docs, Binary, Symlink, Submodule, Executable}, infrastructure...)

func joined[T ~string](list []T) string {
	words := make([]string, len(list))
	for i, w := range list {
		words[i] = string(w)
	}
	return strings.Join(words, ", ")
}

func ruleNames() []string {
	var names []string
	for _, r := range rules {
		if !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	return names
}

// String is the policy as it stands in keys and records: equal policies, equal text.
func (p Policy) String() string {
	text, err := json.Marshal(p) // maps are written in the order of their keys
	if err != nil {
		return err.Error() // cannot be: there is nothing in it but text
	}
	return string(text)
}
