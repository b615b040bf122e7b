package datasets

import (
	"bytes"
	"encoding/json"
	"iter"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// What follows reads JSON that package encoding/json has found valid, or leaves it to
// that: predictions come by the gigabyte, and it looks at every byte five times.

// validFields gives the keys, quoted, and the values of an object that is valid JSON.
// They are parts of raw.
func validFields(raw []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) {
		at := skipSpace(raw, 0) + 1 // the brace
		for {
			at = skipSpace(raw, at)
			if at >= len(raw) || raw[at] != '"' {
				return
			}
			end := valueEnd(raw, at)
			key := raw[at:end]
			at = skipSpace(raw, skipSpace(raw, end)+1) // the colon
			end = valueEnd(raw, at)
			if at >= end || !yield(key, json.RawMessage(raw[at:end])) {
				return
			}
			at = skipSpace(raw, end) + 1 // the comma, or the last brace
		}
	}
}

func skipSpace(raw []byte, at int) int {
	for at < len(raw) && (raw[at] == ' ' || raw[at] == '\n' || raw[at] == '\t' || raw[at] == '\r') {
		at++
	}
	return at
}

// valueEnd is where the value that begins at a place ends.
func valueEnd(raw []byte, at int) int {
	depth := 0
	for at < len(raw) {
		switch raw[at] {
		case '"':
			at = stringEnd(raw, at)
		case '{', '[':
			depth++
			at++
			continue
		case '}', ']':
			depth--
			at++
		case ',', ':', ' ', '\n', '\t', '\r':
			at++
			continue
		default: // a number, or a word
			for at < len(raw) && !strings.ContainsRune(",:]} \n\t\r", rune(raw[at])) {
				at++
			}
		}
		if depth <= 0 {
			return at
		}
	}
	return len(raw)
}

func stringEnd(raw []byte, at int) int {
	for at++; at < len(raw); at++ {
		switch raw[at] {
		case '"':
			return at + 1
		case '\\':
			at++ // and what is escaped
		}
	}
	return len(raw)
}

// decodeKey decodes the key of an object.
func decodeKey(quoted []byte) (string, error) {
	if s, ok := unquote(quoted); ok {
		return s, nil
	}
	var s string
	err := json.Unmarshal(quoted, &s)
	return s, err
}

// unquote decodes a JSON string. It is false where that is none, or one with half a
// surrogate pair.
func unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' || !utf8.Valid(raw) {
		return "", false
	}
	in := raw[1 : len(raw)-1]
	var b strings.Builder
	b.Grow(len(in))
	for {
		at := bytes.IndexByte(in, '\\')
		part := in
		if at >= 0 {
			part = in[:at]
		}
		for _, c := range part {
			if c < ' ' || c == '"' {
				return "", false
			}
		}
		b.Write(part)
		if at < 0 {
			return b.String(), true
		}
		char, size := unescape(in[at:])
		switch {
		case size == 0:
			return "", false
		case size == 2:
			b.WriteByte(byte(char))
		default:
			b.WriteRune(char)
		}
		in = in[at+size:]
	}
}

// unescape decodes the escape that b begins with; size is 0 where it is none.
func unescape(b []byte) (char rune, size int) {
	if len(b) < 2 {
		return 0, 0
	}
	const escaped, meant = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := strings.IndexByte(escaped, b[1]); i >= 0 {
		return rune(meant[i]), 2
	}
	first, ok := escapedUnit(b)
	if !ok || !utf16.IsSurrogate(first) {
		if ok {
			size = 6
		}
		return first, size
	}
	second, ok := escapedUnit(b[6:])
	if char = utf16.DecodeRune(first, second); !ok || char == utf8.RuneError {
		return 0, 0
	}
	return char, 12
}
