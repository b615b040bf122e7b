package swebench

import "strings"

// token is a word or an operator of a shell script.
type token struct {
	text    string // as written
	value   string // a word with its quotes removed
	literal bool   // the word holds no expansion or glob: value is what the command receives
	op      bool   // one of ; & | && || ( ) < > and their relatives
}

// heredoc is a here-document of a logical line.
type heredoc struct {
	quoted    bool // the delimiter was quoted, so the body is taken as it is
	stripTabs bool // <<-
	delimiter string
	body      string // with its final newline
}

// logicalLine is what bash reads as one line: the physical lines that quotes, a
// backslash at the end or here-documents hold together.
type logicalLine struct {
	text     string // as written, without the newline at its end, here-documents included
	tokens   []token
	heredocs []heredoc
}

func (l logicalLine) blank() bool { return len(l.tokens) == 0 }

// lexer reads a script. It knows quoting, comments and here-documents, which is
// enough to find where commands begin and end; it is no parser.
type lexer struct {
	src string
	pos int
}

// logicalLines cuts a script into logical lines. ok is false if a quote or a
// here-document has no end or something is used that the lexer does not know.
func logicalLines(script string) (lines []logicalLine, ok bool) {
	lx := &lexer{src: script}
	for lx.pos < len(lx.src) {
		line, ok := lx.line()
		if !ok {
			return nil, false
		}
		lines = append(lines, line)
	}
	return lines, true
}

func (lx *lexer) line() (logicalLine, bool) {
	start := lx.pos
	var line logicalLine
	for lx.pos < len(lx.src) {
		c := lx.src[lx.pos]
		switch {
		case c == '\n':
			return lx.endLine(line, start)
		case c == ' ' || c == '\t' || c == '\r':
			lx.pos++
		case strings.HasPrefix(lx.src[lx.pos:], "\\\n"):
			lx.pos += 2
		case c == '#':
			lx.skipTo('\n')
		case strings.HasPrefix(lx.src[lx.pos:], "<<") && !strings.HasPrefix(lx.src[lx.pos:], "<<<"):
			doc, ok := lx.heredocStart()
			if !ok {
				return line, false
			}
			line.heredocs = append(line.heredocs, doc)
		case strings.IndexByte(";&|()<>", c) >= 0:
			line.tokens = append(line.tokens, lx.operator())
		default:
			w, ok := lx.word()
			if !ok {
				return line, false
			}
			line.tokens = append(line.tokens, w)
		}
	}
	return lx.endLine(line, start)
}

// endLine stands at the newline that ends a line, or at the end of the script,
// and reads the here-documents that begin after it.
func (lx *lexer) endLine(line logicalLine, start int) (logicalLine, bool) {
	end := lx.pos
	if lx.pos < len(lx.src) {
		lx.pos++
	}
	for i := range line.heredocs {
		doc := &line.heredocs[i]
		from := lx.pos
		for {
			if lx.pos >= len(lx.src) {
				return line, false
			}
			at := lx.pos
			row := lx.src[lx.pos:]
			if n := strings.IndexByte(row, '\n'); n >= 0 {
				row = row[:n]
			}
			end = at + len(row)
			lx.pos = min(end+1, len(lx.src))
			if doc.stripTabs {
				row = strings.TrimLeft(row, "\t")
			}
			if row == doc.delimiter {
				doc.body = lx.src[from:at]
				break
			}
		}
	}
	line.text = lx.src[start:end]
	return line, true
}

func (lx *lexer) skipTo(c byte) {
	if n := strings.IndexByte(lx.src[lx.pos:], c); n >= 0 {
		lx.pos += n
		return
	}
	lx.pos = len(lx.src)
}

func (lx *lexer) operator() token {
	for _, op := range []string{"<<<", "&>>", "&&", "||", ";;", ">>", ">&", "<&", "&>", "|&", ">|", "<>"} {
		if strings.HasPrefix(lx.src[lx.pos:], op) {
			lx.pos += len(op)
			return token{text: op, op: true}
		}
	}
	lx.pos++
	return token{text: lx.src[lx.pos-1 : lx.pos], op: true}
}

func (lx *lexer) heredocStart() (heredoc, bool) {
	lx.pos += 2
	var doc heredoc
	if strings.HasPrefix(lx.src[lx.pos:], "-") {
		doc.stripTabs = true
		lx.pos++
	}
	for lx.pos < len(lx.src) && (lx.src[lx.pos] == ' ' || lx.src[lx.pos] == '\t') {
		lx.pos++
	}
	if lx.pos >= len(lx.src) || strings.IndexByte(";&|()<>\n", lx.src[lx.pos]) >= 0 {
		return doc, false
	}
	w, ok := lx.word()
	if !ok || w.value == "" || !w.literal {
		return doc, false
	}
	doc.quoted = w.value != w.text
	doc.delimiter = w.value
	return doc, true
}

// word reads one word with its quotes.
func (lx *lexer) word() (token, bool) {
	start := lx.pos
	var value strings.Builder
	literal := true
	for lx.pos < len(lx.src) {
		c := lx.src[lx.pos]
		switch {
		case strings.IndexByte(" \t\r\n;&|()<>", c) >= 0:
			return token{text: lx.src[start:lx.pos], value: value.String(), literal: literal}, true
		case c == '\'':
			lx.pos++
			from := lx.pos
			lx.skipTo('\'')
			if lx.pos >= len(lx.src) {
				return token{}, false
			}
			value.WriteString(lx.src[from:lx.pos])
			lx.pos++
		case c == '"':
			lx.pos++
			if !lx.double(&value, &literal) {
				return token{}, false
			}
		case c == '\\':
			if lx.pos+1 < len(lx.src) && lx.src[lx.pos+1] != '\n' {
				value.WriteByte(lx.src[lx.pos+1])
			}
			lx.pos = min(lx.pos+2, len(lx.src))
		case c == '`' || c == '$':
			literal = false
			if !lx.expansion() {
				return token{}, false
			}
		default:
			if strings.IndexByte("*?[]{}~!", c) >= 0 {
				literal = literal && !globs(c, lx.pos == start)
			}
			value.WriteByte(c)
			lx.pos++
		}
	}
	return token{text: lx.src[start:lx.pos], value: value.String(), literal: literal}, true
}

// globs says whether an unquoted character makes bash change a word. A tilde
// does only at the beginning; "a.json~" is a plain name.
func globs(c byte, first bool) bool {
	switch c {
	case '~':
		return first
	case ']', '}', '!':
		return false
	}
	return true
}

// double reads the inside of a double-quoted string and its end.
func (lx *lexer) double(value *strings.Builder, literal *bool) bool {
	for lx.pos < len(lx.src) {
		switch c := lx.src[lx.pos]; c {
		case '"':
			lx.pos++
			return true
		case '\\':
			if lx.pos+1 >= len(lx.src) {
				return false
			}
			next := lx.src[lx.pos+1]
			switch {
			case next == '\n':
			case strings.IndexByte("$`\"\\", next) >= 0:
				value.WriteByte(next)
			default:
				value.WriteString(lx.src[lx.pos : lx.pos+2])
			}
			lx.pos += 2
		case '$', '`':
			*literal = false
			if !lx.expansion() {
				return false
			}
		default:
			value.WriteByte(c)
			lx.pos++
		}
	}
	return false
}

// expansion skips $name, ${…}, $(…), $'…' or `…`.
func (lx *lexer) expansion() bool {
	rest := lx.src[lx.pos:]
	switch {
	case rest[0] == '`':
		for i := 1; i < len(rest); i++ {
			if rest[i] == '\\' {
				i++
			} else if rest[i] == '`' {
				lx.pos += i + 1
				return true
			}
		}
		return false
	case strings.HasPrefix(rest, "$'"):
		for i := 2; i < len(rest); i++ {
			if rest[i] == '\\' {
				i++
			} else if rest[i] == '\'' {
				lx.pos += i + 1
				return true
			}
		}
		return false
	case strings.HasPrefix(rest, "$("), strings.HasPrefix(rest, "${"):
		lx.pos += 2
		return lx.nested(rest[1])
	}
	lx.pos++
	return true
}

// nested skips to the bracket that closes the one just read. A here-document
// inside is not understood.
func (lx *lexer) nested(open byte) bool {
	closing := map[byte]byte{'(': ')', '{': '}'}[open]
	var ignored strings.Builder
	var literal bool
	for lx.pos < len(lx.src) {
		c := lx.src[lx.pos]
		switch {
		case c == closing:
			lx.pos++
			return true
		case c == open:
			lx.pos++
			if !lx.nested(open) {
				return false
			}
		case c == '\'' && open == '(':
			lx.pos++
			lx.skipTo('\'')
			lx.pos++
		case c == '"':
			lx.pos++
			if !lx.double(&ignored, &literal) {
				return false
			}
		case c == '\\':
			lx.pos += 2
		case c == '$' || c == '`':
			if !lx.expansion() {
				return false
			}
		case strings.HasPrefix(lx.src[lx.pos:], "<<"):
			return false
		default:
			lx.pos++
		}
	}
	return false
}
