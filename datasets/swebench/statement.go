package swebench

import (
	"regexp"
	"slices"
	"strings"
)

// statement is one or more logical lines that belong together: a simple
// command, a list joined by && or ;, or a whole if, loop or function.
type statement struct {
	text     string
	parts    [][]token // the simple commands, cut at ; & && || |
	joints   []string  // the operators between them
	heredocs []heredoc
	compound bool // holds if, for, case, ( or { …
}

// Words that open and close a compound command.
var (
	opening = map[string]bool{"if": true, "for": true, "while": true, "until": true, "select": true, "case": true, "{": true}
	closing = map[string]bool{"fi": true, "done": true, "esac": true, "}": true}
	// After these the next word is a command again.
	leading = map[string]bool{"then": true, "do": true, "else": true, "elif": true, "!": true, "time": true}
)

// statements groups logical lines. Blank lines, comments and the line that
// names the interpreter are dropped. ok is false if a compound command has no
// end.
func statements(lines []logicalLine) (out []statement, ok bool) {
	var texts []string
	var tokens []token
	var docs []heredoc
	open := nesting{command: true}
	for _, l := range lines {
		if l.blank() && len(texts) == 0 {
			continue
		}
		texts = append(texts, l.text)
		tokens = append(tokens, l.tokens...)
		docs = append(docs, l.heredocs...)
		if !open.read(l.tokens) {
			return nil, false
		}
		if continues(tokens) {
			continue
		}
		if open.depth > 0 {
			// The newline ends a command, as a semicolon would.
			newline := token{text: "\n", op: true}
			tokens = append(tokens, newline)
			open.read([]token{newline})
			continue
		}
		s := statement{text: strings.Join(texts, "\n"), heredocs: docs, compound: open.seen}
		s.parts, s.joints = cutParts(tokens)
		out = append(out, s)
		texts, tokens, docs = nil, nil, nil
		open = nesting{command: true}
	}
	return out, len(texts) == 0
}

// nesting counts how many compound commands are open.
type nesting struct {
	depth   int
	seen    bool // there was one
	command bool // the next word is a command
}

// read goes on with more tokens; false if more is closed than was opened.
func (n *nesting) read(tokens []token) bool {
	for _, t := range tokens {
		switch {
		case t.op && t.text == "(":
			n.depth++
			n.seen, n.command = true, true
		case t.op && t.text == ")":
			n.depth--
			n.command = true
		case t.op:
			n.command = slices.Contains([]string{";", ";;", "&", "&&", "||", "|", "|&", "\n"}, t.text)
		case n.command && opening[t.text]:
			n.depth++
			n.seen, n.command = true, t.text != "for" && t.text != "case" && t.text != "select"
		case n.command && closing[t.text]:
			n.depth--
			n.command = false
		case n.command && leading[t.text]:
		default:
			n.command = false
		}
		if n.depth < 0 {
			return false
		}
	}
	return true
}

// continues says whether the command goes on in the next line.
func continues(tokens []token) bool {
	if len(tokens) == 0 {
		return false
	}
	last := tokens[len(tokens)-1]
	return last.op && slices.Contains([]string{"&&", "||", "|", "|&"}, last.text)
}

func cutParts(tokens []token) (parts [][]token, joints []string) {
	var part []token
	for _, t := range tokens {
		if t.op && slices.Contains([]string{";", "&", "&&", "||", "|", "|&", "\n"}, t.text) {
			joints = append(joints, t.text)
			if len(part) > 0 {
				parts = append(parts, part)
			}
			part = nil
			continue
		}
		part = append(part, t)
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts, joints
}

// words returns the words of the first simple command, quotes removed.
func (s statement) words() []string {
	var words []string
	if len(s.parts) > 0 {
		for _, t := range s.parts[0] {
			if !t.op {
				words = append(words, t.value)
			}
		}
	}
	return words
}

var (
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\+?=`)
	// Tracing switched off without leaving a trace.
	quietSet = regexp.MustCompile(`^\{ set [-+][a-z]+; \} 2>/dev/null$`)
	function = regexp.MustCompile(`^(function\s+\S+|[A-Za-z_][\w:-]*\s*\(\))[\s({]`)

	stateCommands = map[string]bool{
		"source": true, ".": true, "cd": true, "pushd": true, "popd": true, "export": true, "set": true,
		"shopt": true, "unset": true, "ulimit": true, "umask": true, "alias": true, "declare": true,
		"typeset": true, "readonly": true, "hash": true, "eval": true,
	}
	neutral = map[string]bool{"true": true, ":": true, "[": true, "[[": true, "test": true}
)

// setsShell says whether a statement does nothing but change the shell it runs
// in, so that a phase in another shell needs it again. Tests around it ("[ -f x
// ] && source x") and a trailing "|| true" do not matter.
func (s statement) setsShell() bool {
	text := strings.TrimSpace(s.text)
	if quietSet.MatchString(text) || function.MatchString(text) {
		return true
	}
	if len(s.heredocs) > 0 {
		return false
	}
	for _, j := range s.joints {
		if !slices.Contains([]string{"&&", "||", ";", "\n"}, j) {
			return false
		}
	}
	found := false
	for _, part := range s.parts {
		part = withoutKeywords(part)
		switch {
		case len(part) == 0 || neutral[part[0].value]:
		case setsShell(part):
			found = true
		default:
			return false
		}
	}
	return found
}

// mixed says whether a plain list of commands holds one that sets up the shell
// next to others: its effect on later phases would be lost. Going to directory,
// where every phase begins, is none.
func (s statement) mixed(directory string) bool {
	if s.compound {
		return false
	}
	for _, part := range s.parts {
		cdHome := directory != "" && len(part) == 2 && part[0].value == "cd" && part[1].value == directory
		if setsShell(part) && !cdHome {
			return true
		}
	}
	return false
}

// withoutKeywords drops then, do and the like from the head of a command.
func withoutKeywords(part []token) []token {
	for len(part) > 0 && !part[0].op && (leading[part[0].text] || part[0].text == "if" || part[0].text == "fi") {
		part = part[1:]
	}
	return part
}

func setsShell(part []token) bool {
	first, second := part[0].value, ""
	if len(part) > 1 {
		second = part[1].value
	}
	switch {
	case stateCommands[first]:
		return true
	case first == "conda" || first == "mamba" || first == "micromamba":
		return second == "activate" || second == "deactivate"
	case first == "nvm" || first == "sdk" || first == "rvm" || first == "fnm":
		return second == "use"
	case first == "pyenv" || first == "rbenv" || first == "nodenv":
		return second == "shell"
	}
	for _, t := range part {
		if t.op || !assignment.MatchString(t.text) {
			return false
		}
	}
	return true
}

// directories lists where a statement's cd commands go.
func (s statement) directories() []string {
	var dirs []string
	for _, part := range s.parts {
		part = withoutKeywords(part)
		if len(part) == 0 {
			continue
		}
		switch part[0].value {
		case "cd":
			dir := ""
			if len(part) > 1 && part[1].literal {
				dir = part[1].value
			}
			dirs = append(dirs, dir)
		case "pushd", "popd":
			dirs = append(dirs, "-")
		}
	}
	return dirs
}

// harmless says whether a command cannot prepare anything a later source or
// conda activate depends on.
func (s statement) harmless() bool {
	w := s.words()
	return len(s.parts) == 1 && len(w) > 1 && w[0] == "git" && slices.Contains([]string{"config", "status", "show", "-c"}, w[1])
}

// constant says whether a statement that sets up the shell does the same
// wherever it stands: exports of plain values, cd, set.
func (s statement) constant() bool {
	for _, part := range s.parts {
		part = withoutKeywords(part)
		if len(part) == 0 {
			continue
		}
		plain := slices.Contains([]string{"cd", "export", "set", "unset", "ulimit", "umask", "shopt"}, part[0].value) || assignment.MatchString(part[0].text)
		if !plain || slices.ContainsFunc(part, func(t token) bool { return t.op || !t.literal }) {
			return false
		}
	}
	return true
}

// stopsOnError says whether a statement is "set -e" in any spelling.
func (s statement) stopsOnError() bool {
	for _, part := range s.parts {
		if part[0].value != "set" {
			continue
		}
		for i, t := range part[1:] {
			flags := strings.HasPrefix(t.value, "-") && !strings.HasPrefix(t.value, "--") && strings.Contains(t.value, "e")
			if flags || t.value == "errexit" && strings.HasPrefix(part[i].value, "-") {
				return true
			}
		}
	}
	return false
}
