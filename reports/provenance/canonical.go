// Package provenance says in one canonical text what a run was and what came of
// it, so that the text can be hashed, compared and, some day, signed.
//
// It must not know how anything was run or graded. The form is documented in
// docs/report-format.md; a change to it is a new version.
package provenance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
)

// Canonical encodes a value as JSON with one spelling: RFC 8785, of which numbers
// that are not integers are left out. Keys are sorted by their UTF-16 units, there
// is no white space, strings are escaped only where they must be, and integers
// stand within ±(2^53-1). What cannot be spelt so is an error.
func Canonical(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var plain any
	if err := dec.Decode(&plain); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := encode(&out, plain); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func encode(out *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case nil:
		out.WriteString("null")
	case bool:
		out.WriteString(strconv.FormatBool(v))
	case string:
		encodeString(out, v)
	case json.Number:
		const limit = 1<<53 - 1
		n, err := v.Int64()
		if err != nil || n < -limit || n > limit {
			return fmt.Errorf("%s is not an integer within ±(2^53-1)", v)
		}
		out.WriteString(strconv.FormatInt(n, 10))
	case []any:
		out.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := encode(out, e); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case map[string]any:
		return encodeObject(out, v)
	default:
		return errors.New("not a JSON value")
	}
	return nil
}

func encodeObject(out *bytes.Buffer, object map[string]any) error {
	keys := make([]string, 0, len(object))
	for k := range object {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))) })
	out.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			out.WriteByte(',')
		}
		encodeString(out, k)
		out.WriteByte(':')
		if err := encode(out, object[k]); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	out.WriteByte('}')
	return nil
}

func encodeString(out *bytes.Buffer, s string) {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	out.WriteByte('"')
	for _, r := range s {
		switch e, ok := short[r]; {
		case ok:
			out.WriteString(e)
		case r < 0x20:
			fmt.Fprintf(out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
}
