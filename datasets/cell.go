package datasets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A cell is one value of a row: nil (null or absent), string or []string (from
// Parquet), json.RawMessage (from JSON), or error (it could not be read).

var errLoneSurrogate = &fault{
	"holds half a surrogate pair (\\ud800 to \\udfff): the text was not UTF-8 when the file was written",
	"write the file again, or give such a patch as a .diff file",
}

// cellText returns a cell as text; numbers give their literal.
func cellText(cell any) (string, error) {
	switch v := cell.(type) {
	case nil:
		return "", nil
	case error:
		return "", v
	case string:
		if !utf8.ValidString(v) {
			return "", &fault{"is not UTF-8", "write the file again"}
		}
		return v, nil
	case []string:
		return "", errors.New("is a list, not a string")
	case json.RawMessage:
		switch kind := kindOf(v); kind {
		case "nothing", "null":
			return "", nil
		case "a number":
			return string(v), nil
		case "a string":
			return decodeText(v)
		default:
			return "", errors.New("is " + kind + ", not a string")
		}
	}
	return "", fmt.Errorf("is a %T, not a string", cell)
}

// decodeText decodes a JSON string. The standard decoder turns half surrogate
// pairs into U+FFFD without a word, which would change a patch.
func decodeText(raw json.RawMessage) (string, error) {
	if s, ok := unquote(raw); ok {
		return s, nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", err
	}
	if strings.ContainsRune(s, utf8.RuneError) && hasLoneSurrogate(raw) {
		return s, errLoneSurrogate
	}
	return s, nil
}

func hasLoneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		first, ok := escapedUnit(raw[i:])
		if !ok {
			i++ // skip the escaped character, which may be a backslash
			continue
		}
		i += 5
		if !utf16.IsSurrogate(first) {
			continue
		}
		second, ok := escapedUnit(raw[i+1:])
		if !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escapedUnit reads \uXXXX at the start of b.
func escapedUnit(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		d := strings.IndexByte("0123456789abcdefABCDEF", c)
		if d >= 16 {
			d -= 6
		}
		if d < 0 {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

// cellList returns a cell that is a list of strings, or JSON text of one.
func cellList(cell any) ([]string, error) {
	switch v := cell.(type) {
	case nil:
		return nil, nil
	case error:
		return nil, v
	case []string:
		return v, nil
	case string:
		return parseListText(v)
	case json.RawMessage:
		switch kind := kindOf(v); kind {
		case "nothing", "null":
			return nil, nil
		case "a list":
			return parseList(v)
		case "a string":
			text, err := decodeText(v)
			if err != nil {
				return nil, err
			}
			return parseListText(text)
		default:
			return nil, notAList("is " + kind)
		}
	}
	return nil, notAList(fmt.Sprintf("is a %T", cell))
}

func notAList(what string) error {
	return &fault{what + ", not a list of test names", `write ["name", …], or the same as JSON text`}
}

// parseListText reads a list kept as JSON text, as the Python sets have it.
func parseListText(text string) ([]string, error) {
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "", trimmed == "null":
		return nil, nil
	case strings.HasPrefix(trimmed, "['"):
		return nil, &fault{"is the text of a Python list, not of a JSON list", "write it with json.dumps"}
	case trimmed[0] != '[':
		return nil, notAList(fmt.Sprintf("is the text %.40q", trimmed))
	}
	if !utf8.ValidString(trimmed) {
		return nil, &fault{"is not UTF-8", "write the file again"}
	}
	return parseList([]byte(trimmed))
}

func parseList(raw []byte) ([]string, error) {
	if err := wholeValue(raw); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var names []string
	for i := 0; dec.More(); i++ {
		var item json.RawMessage
		if err := dec.Decode(&item); err != nil {
			return nil, err
		}
		if i == maxTests {
			return nil, &fault{fmt.Sprintf("has more than %d elements", maxTests), "split the row, or leave it out"}
		}
		if kind := kindOf(item); kind != "a string" {
			return nil, &fault{fmt.Sprintf("element %d is %s, not a test name", i, kind), "write every test name as a string"}
		}
		name, err := decodeText(item)
		if err != nil {
			return nil, prefixed(fmt.Sprintf("element %d ", i), err, "")
		}
		names = append(names, name)
	}
	return names, nil
}

// cellRecipe decodes the column "evalrun": an object, or JSON text of one.
// Unknown keys are refused, since a misspelt key would change what is run.
func cellRecipe(cell any) (*Recipe, error) {
	var raw []byte
	switch v := cell.(type) {
	case nil:
		return nil, nil
	case error:
		return nil, v
	case string:
		raw = []byte(v)
	case json.RawMessage:
		raw = v
		if kindOf(v) == "a string" {
			text, err := decodeText(v)
			if err != nil {
				return nil, err
			}
			raw = []byte(text)
		}
	default:
		return nil, errors.New("is a list, not an object")
	}
	switch kind := kindOf(raw); kind {
	case "nothing", "null":
		return nil, nil
	case "an object":
	default:
		return nil, errors.New("is " + kind + ", not an object")
	}
	if err := wholeValue(raw); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	recipe := new(Recipe)
	if err := dec.Decode(recipe); err != nil {
		return nil, errors.New("does not fit: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("holds more than one object")
	}
	return recipe, nil
}
