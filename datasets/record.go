package datasets

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"unicode/utf8"
)

// record is one JSON object of a list, of an object by id or of a JSONL file.
type record struct {
	pos    Position
	key    string                     // its key in an object by id, else ""
	fields map[string]json.RawMessage // valid until emit returns
	raw    []byte                     // which the fields are parts of
	offset int64                      // of raw in the file; negative where it cannot be read again from there
}

// place is where in the file a field is.
func (r *record) place(field json.RawMessage) place {
	if r.offset < 0 || len(field) == 0 {
		return place{}
	}
	// Parts of one array share its end.
	return place{r.offset + int64(cap(r.raw)-cap(field)), len(field), true}
}

// recordReader reads the records of one text file, one at a time. Faults go to
// problems; a fault in one record does not keep the others from being read,
// as far as the form of the file allows.
type recordReader struct {
	path     string
	open     func() (io.ReadCloser, error) // may be called twice
	max      int                           // bytes of one record
	problems *Problems
	emit     func(record)

	begin  int64 // of the text in its file
	seekOK bool  // it can be read again from there
}

func (r *recordReader) at(line int) Position { return Position{File: r.path, Line: line} }

func (r *recordReader) read(ctx context.Context) {
	in, err := r.open()
	if err != nil {
		r.problems.fatalErr(r.at(0), "", pathless(err))
		return
	}
	defer in.Close()
	if formatOf(r.path) == formatJSONL {
		if text, ok := in.(*textFile); ok {
			r.begin, r.seekOK = text.offset()
		}
		r.readLines(ctx, in)
		return
	}
	r.readDocument(ctx, in)
}

func (r *recordReader) readLines(ctx context.Context, in io.Reader) {
	lines := &lineReader{r: bufio.NewReaderSize(in, 64<<10), max: r.max}
	for ctx.Err() == nil {
		if r.problems.full() {
			r.problems.stopped(r.at(lines.number))
			return
		}
		line, err := lines.read()
		pos := r.at(lines.number)
		switch {
		case err == io.EOF:
			return
		case err == errTooLong:
			r.tooLong(pos)
			continue
		case err != nil:
			r.problems.fatalErr(r.at(lines.number+1), "", readFault(err))
			return
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if c := bytes.TrimSpace(line)[0]; c == '[' && lines.number == 1 {
			r.problems.fatal(pos, "", "the file starts with a JSON list, not with one object a line", "rename it to .json")
			return
		}
		r.one(line, lines.start, pos, "")
	}
	r.problems.fatalErr(r.at(0), "", ctx.Err())
}

func (r *recordReader) tooLong(pos Position) {
	r.problems.fatal(pos, "", fmt.Sprintf("one record is larger than %d MiB", r.max>>20), "look for a missing line end, or drop the instance")
}

// one decodes a record and emits it, or notes what is wrong with it.
func (r *recordReader) one(raw []byte, offset int64, pos Position, key string) {
	if i := firstInvalidUTF8(raw); i >= 0 {
		r.notUTF8(pos, or(key, guessID(raw)), raw, i, offset)
		return
	}
	fields, twice, err := objectFields(raw)
	switch {
	case err != nil:
		r.problems.fatalErr(pos, or(key, guessID(raw)), err)
	case twice != "":
		r.twice(pos, or(key, guessID(raw)), twice)
	default:
		rec := record{pos: pos, key: key, fields: fields, raw: raw, offset: -1}
		if r.seekOK {
			rec.offset = r.begin + offset
		}
		r.emit(rec)
	}
}

var idInText = regexp.MustCompile(`"instance_id"\s*:\s*"([^"\\]{1,200})"`)

// guessID finds the instance id in a record that cannot be decoded, to name it.
func guessID(raw []byte) string {
	if m := idInText.FindSubmatch(raw); m != nil {
		return string(m[1])
	}
	return ""
}

func (r *recordReader) readDocument(ctx context.Context, in io.Reader) {
	tracker := &lineTracker{r: in, stop: int64(r.max)}
	dec := json.NewDecoder(tracker)
	err := r.readTop(ctx, dec, tracker)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
	case errors.Is(err, errFull):
		r.problems.stopped(r.at(tracker.lineAt(dec.InputOffset())))
	case errors.Is(err, errTooLong):
		r.tooLong(r.at(tracker.lineAt(dec.InputOffset())))
	case errors.As(err, &syntax):
		line, err := r.locateSyntaxError(dec.InputOffset(), syntax)
		r.problems.fatalErr(r.at(line), "", syntaxFault(err))
	case err == io.EOF && dec.InputOffset() == 0:
		r.problems.fatal(r.at(0), "", "the file is empty", "write at least []")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		r.problems.fatal(r.at(tracker.lineAt(tracker.off)), "", "the file ends in the middle of a JSON value", "it is cut off; write or copy it again")
	default:
		r.problems.fatalErr(r.at(tracker.lineAt(dec.InputOffset())), "", readFault(err))
	}
}

func (r *recordReader) readTop(ctx context.Context, dec *json.Decoder, tracker *lineTracker) error {
	top, err := dec.Token()
	if err != nil {
		return err
	}
	switch top {
	case json.Delim('['):
		err = r.readList(ctx, dec, tracker)
	case json.Delim('{'):
		err = r.readObject(ctx, dec, tracker)
	default:
		value := fmt.Sprintf("%.40v", top)
		if top == nil {
			value = "null"
		}
		return &fault{"the file holds the JSON value " + value, "write a list of objects, or an object by instance id"}
	}
	if err != nil {
		return err
	}
	tracker.stop = math.MaxInt64
	switch _, err := dec.Token(); {
	case err == io.EOF:
		return nil
	case err != nil && !errors.As(err, new(*json.SyntaxError)):
		return err
	}
	return &fault{"more follows after the first JSON value", "if it is one object a line, rename the file to .jsonl"}
}

func (r *recordReader) readList(ctx context.Context, dec *json.Decoder, tracker *lineTracker) error {
	for dec.More() {
		raw, pos, offset, err := r.value(ctx, dec, tracker)
		if err != nil {
			return err
		}
		r.one(raw, offset, pos, "")
	}
	_, err := dec.Token()
	return err
}

// member is one key and value of a JSON object.
type member struct {
	key    string
	raw    json.RawMessage
	pos    Position
	offset int64
}

// readObject reads an object by id, or an object that is one record itself, as
// in a folder with one file per instance. Which of the two it is shows in the
// first values, so some are held back.
func (r *recordReader) readObject(ctx context.Context, dec *json.Decoder, tracker *lineTracker) error {
	const enough, enoughBytes = 64, 8 << 20 // members that are all objects: an object by id
	var held []member
	byID, single, size := false, false, 0
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		raw, pos, offset, err := r.value(ctx, dec, tracker)
		if err != nil {
			return err
		}
		m := member{key, raw, pos, offset}
		if byID {
			r.keyed(m)
			continue
		}
		held = append(held, m)
		if size += len(raw); single && size > r.max {
			return errTooLong
		}
		if single && len(held) > maxKeys {
			return errManyKeys
		}
		if raw[0] != '{' && (len(held) == 1 || key == "instance_id") {
			single = true
		}
		if !single && (len(held) >= enough || size > enoughBytes) {
			byID = true
			r.keyed(held...)
			held = nil
		}
	}
	if single {
		r.single(held)
	} else {
		r.keyed(held...)
	}
	_, err := dec.Token()
	return err
}

// keyed emits members of an object by id.
func (r *recordReader) keyed(members ...member) {
	for _, m := range members {
		r.one(m.raw, m.offset, m.pos, m.key)
	}
}

// single emits members as the fields of one record.
func (r *recordReader) single(members []member) {
	fields := map[string]json.RawMessage{}
	for _, m := range members {
		if i := firstInvalidUTF8(m.raw); i >= 0 {
			r.notUTF8(m.pos, memberID(members), m.raw, i, m.offset)
			return
		}
		if _, twice := fields[m.key]; twice {
			r.twice(m.pos, memberID(members), m.key)
			return
		}
		fields[m.key] = m.raw
	}
	r.emit(record{pos: members[0].pos, fields: fields, offset: -1})
}

func memberID(members []member) string {
	for _, m := range members {
		if m.key == "instance_id" {
			id, _ := cellText(m.raw)
			return id
		}
	}
	return ""
}

func (r *recordReader) notUTF8(pos Position, id string, raw []byte, i int, offset int64) {
	at := r.at(pos.Line + bytes.Count(raw[:i], []byte("\n")))
	r.problems.fatal(at, id, fmt.Sprintf("not UTF-8: byte 0x%02x at offset %d of the file", raw[i], offset+int64(i)),
		"JSON is UTF-8; write the file again, or give such a patch as a .diff file")
}

func (r *recordReader) twice(pos Position, id, key string) {
	r.problems.fatal(pos, id, fmt.Sprintf("key %q appears twice in one record", key), "keep the right one")
}

// value reads the next JSON value, and says where it starts.
func (r *recordReader) value(ctx context.Context, dec *json.Decoder, tracker *lineTracker) (json.RawMessage, Position, int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, Position{}, 0, err
	}
	tracker.stop = dec.InputOffset() + int64(r.max)
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return nil, Position{}, 0, err
	}
	if r.problems.full() {
		return nil, Position{}, 0, errFull
	}
	start := dec.InputOffset() - int64(len(raw))
	return raw, r.at(tracker.lineAt(start)), start, nil
}

// locateSyntaxError finds the line of a syntax error in the value that starts
// at an offset. The decoder itself counts bytes inside values only, so the file
// is read again up to there.
func (r *recordReader) locateSyntaxError(start int64, syntax error) (int, error) {
	in, err := r.open()
	if err != nil {
		return 0, syntax
	}
	defer in.Close()
	tracker := &lineTracker{r: in, stop: math.MaxInt64}
	text := bufio.NewReader(tracker)
	if _, err := io.CopyN(io.Discard, text, start); err != nil {
		return 0, syntax
	}
	for {
		c, err := text.ReadByte()
		if err != nil {
			return tracker.lineAt(start), syntax
		}
		if !strings.ContainsRune(" \t\r\n,:", rune(c)) {
			break
		}
		start++
	}
	if err := text.UnreadByte(); err != nil {
		return 0, syntax
	}
	var raw json.RawMessage
	var exact *json.SyntaxError
	if err := json.NewDecoder(text).Decode(&raw); errors.As(err, &exact) {
		return tracker.lineAt(start + exact.Offset - 1), exact
	}
	return tracker.lineAt(start), syntax
}

var errManyKeys = &fault{fmt.Sprintf("one record has more than %d keys", maxKeys), "leave out what no row or prediction has"}

// objectFields splits a JSON object into its fields. twice names a key that
// appears more than once.
func objectFields(raw []byte) (fields map[string]json.RawMessage, twice string, err error) {
	if err := wholeValue(raw); err != nil {
		return nil, "", err
	}
	if kind := kindOf(raw); kind != "an object" {
		return nil, "", &fault{"the record is " + kind + ", not an object", "write one JSON object per record"}
	}
	fields = map[string]json.RawMessage{}
	for quoted, value := range validFields(raw) {
		key, err := decodeKey(quoted)
		if err != nil {
			return nil, "", err
		}
		if _, ok := fields[key]; ok {
			twice = key
		}
		if fields[key] = value; len(fields) > maxKeys {
			return nil, "", errManyKeys
		}
	}
	return fields, twice, nil
}

// wholeValue checks that raw is one JSON value, and says in words why not.
func wholeValue(raw []byte) error {
	if plainObject(raw) || json.Valid(raw) {
		return nil
	}
	if n := len(raw) - len(bytes.TrimLeft(raw, "\x00")); n > 0 {
		return &fault{fmt.Sprintf("starts with %d NUL bytes: the file is damaged", n), "copy or download it again"}
	}
	var discard json.RawMessage
	err := json.Unmarshal(raw, &discard)
	return syntaxFault(err)
}

func syntaxFault(err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	const ended = "unexpected end of JSON input"
	switch text := syntax.Error(); {
	case text == ended:
		return &fault{"bad JSON: the record ends too early", "it is cut off; write or copy it again"}
	case strings.Contains(text, "'N'"), strings.Contains(text, "'I'"):
		return &fault{fmt.Sprintf("bad JSON at byte %d of the record: %s", syntax.Offset, text), "NaN and Infinity are no JSON; write null"}
	default:
		return &fault{fmt.Sprintf("bad JSON at byte %d of the record: %s", syntax.Offset, text), "correct the record"}
	}
}

func kindOf(raw []byte) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

func firstInvalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
