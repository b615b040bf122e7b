package datasets

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"iter"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// What follows reads JSON that package encoding/json has found valid, or leaves it to
// that: predictions come by the gigabyte, and it looks at every byte five times.

// plainObject reports whether raw is an object of nothing but strings, as predictions
// are, and valid JSON. Of what it says no to, encoding/json has to be asked.
func plainObject(raw []byte) bool {
	at := skipSpace(raw, 0)
	if at >= len(raw) || raw[at] != '{' {
		return false
	}
	for more := true; more; {
		for _, after := range []byte{':', ','} {
			end, ok := plainString(raw, skipSpace(raw, at+1))
			if at = skipSpace(raw, end); !ok || at >= len(raw) {
				return false
			}
			if more = raw[at] == after; !more && (after == ':' || raw[at] != '}') {
				return false
			}
		}
	}
	return skipSpace(raw, at+1) == len(raw)
}

// plainString is where the valid string that begins at a place ends.
func plainString(raw []byte, at int) (end int, ok bool) {
	if at >= len(raw) || raw[at] != '"' {
		return 0, false
	}
	for at++; ; {
		if at += plainText(raw[at:]); at >= len(raw) || raw[at] < ' ' {
			return 0, false
		}
		if raw[at] == '"' {
			return at + 1, true
		}
		switch _, unit := escapedUnit(raw[at:]); {
		case unit:
			at += 6
		case at+1 < len(raw) && strings.IndexByte(escaped, raw[at+1]) >= 0:
			at += 2
		default:
			return 0, false
		}
	}
}

// plainText is how many bytes stand for themselves in a JSON string, from the first on.
// Eight at a time: a byte is found where a subtraction borrows.
func plainText(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(b); n += 8 {
		x := binary.LittleEndian.Uint64(b[n:])
		quote, slash := x^(ones*'"'), x^(ones*'\\')
		if found := ((x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash) & highs; found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for n < len(b) && b[n] >= ' ' && b[n] != '"' && b[n] != '\\' {
		n++
	}
	return n
}

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
		if at += plainText(raw[at:]); at >= len(raw) {
			break
		}
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
		if plainText(part) < len(part) {
			return "", false
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

// escaped are what may follow a backslash, but for u.
const escaped = `"\/bfnrt`

// unescape decodes the escape that b begins with; size is 0 where it is none.
func unescape(b []byte) (char rune, size int) {
	if len(b) < 2 {
		return 0, 0
	}
	const meant = "\"\\/\b\f\n\r\t"
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
