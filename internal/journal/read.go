package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"
)

// Event is one line.
type Event struct {
	Seq  uint64          `json:"seq"` // from 1, each one more than the last
	At   time.Time       `json:"at"`
	Kind string          `json:"event"`
	Data json.RawMessage `json:"data,omitempty"`

	Place Place `json:"-"`
}

// Place is where in its file an event stands.
type Place struct {
	Offset int64
	Size   int // with the newline
}

// Damage is a part of a journal that holds no events, or lacks some.
type Damage struct {
	Offset int64
	Size   int64 // 0 where events are missing
	Reason string
}

func (d Damage) String() string {
	return fmt.Sprintf("at byte %d, %d bytes: %s", d.Offset, d.Size, d.Reason)
}

// Scan is what a whole journal looked like.
type Scan struct {
	Last   uint64   // number of the last event, 0 if there is none
	End    int64    // where the last whole event ends
	Torn   int64    // bytes after it, which are no event
	Damage []Damage // before it
}

// maxLine bounds one event.
const maxLine = 256 << 20

const (
	crcHead = `{"crc":"`
	crcLen  = 8
	bodyAt  = len(crcHead) + crcLen + len(`",`)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Read gives each event to f, which may keep it. The error is f's, or one of
// reading; damage is none.
func Read(r io.Reader, f func(Event) error) (Scan, error) {
	var s Scan
	in := bufio.NewReaderSize(r, 1<<16)
	var offset int64
	var bad *Damage
	cut := false // what is bad is no more than the beginning of a line
	for {
		line, size, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return s, err
		}
		if size == 0 {
			break
		}
		ev, reason := parse(line)
		if reason == "" && ev.Seq <= s.Last {
			reason = fmt.Sprintf("event %d after event %d", ev.Seq, s.Last)
		}
		if reason != "" {
			cut = bad == nil && begins(line)
			if bad == nil {
				bad = &Damage{Offset: offset, Reason: reason}
			}
			offset += size
			bad.Size = offset - bad.Offset
			continue
		}
		if bad != nil {
			s.Damage = append(s.Damage, *bad)
			bad = nil
		} else if ev.Seq != s.Last+1 {
			s.Damage = append(s.Damage, Damage{Offset: offset, Reason: fmt.Sprintf("event %d follows event %d", ev.Seq, s.Last)})
		}
		ev.Place = Place{offset, int(size)}
		offset += size
		s.Last, s.End = ev.Seq, offset
		if err := f(ev); err != nil {
			return s, err
		}
	}
	s.Torn = offset - s.End
	if bad != nil && !cut {
		s.Damage = append(s.Damage, *bad)
	}
	return s, nil
}

// begins reports whether a line that has no end is what a crash leaves: the beginning
// of an event, or the zeros of a block that was never written.
func begins(line []byte) bool {
	n := min(len(line), len(crcHead))
	return !bytes.HasSuffix(line, []byte("\n")) && (string(line[:n]) == crcHead[:n] || len(bytes.Trim(line, "\x00")) == 0)
}

// readLine returns the next line with its newline, and its size. Of one that is
// too long to be an event it returns nothing but the size.
func readLine(in *bufio.Reader) (line []byte, size int64, err error) {
	for {
		part, err := in.ReadSlice('\n')
		size += int64(len(part))
		if size <= maxLine {
			line = append(line, part...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, size, err
		}
	}
}

// parse reads a line, or says why it is no event.
func parse(line []byte) (Event, string) {
	var ev Event
	switch {
	case !bytes.HasSuffix(line, []byte("\n")):
		return ev, "the line has no end"
	case len(line) <= bodyAt || !bytes.HasPrefix(line, []byte(crcHead)):
		return ev, "no event"
	}
	body := line[bodyAt : len(line)-1]
	if !bytes.Equal(line[:bodyAt], head(body)) {
		return ev, "the checksum does not fit"
	}
	// The data are not looked at: the checksum says that they are as they were
	// written, and they may be long.
	envelope, data, hasData := bytes.Cut(body, []byte(`,"data":`))
	if hasData {
		ev.Data, envelope = json.RawMessage(bytes.TrimSuffix(data, []byte("}"))), append(bytes.Clone(envelope), '}')
	}
	if err := json.Unmarshal(append([]byte{'{'}, envelope...), &ev); err != nil {
		return ev, "no event: " + err.Error()
	}
	if ev.Kind == "" || ev.Seq == 0 {
		return ev, "no event: it has no kind, or no number"
	}
	return ev, ""
}

// head is what a line begins with.
func head(body []byte) []byte {
	return fmt.Appendf(nil, `%s%08x",`, crcHead, crc32.Checksum(body, castagnoli))
}

// encode writes an event as a line.
func encode(ev Event) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(ev); err != nil {
		return nil, err
	}
	body := bytes.TrimSuffix(buf.Bytes()[1:], []byte("\n"))
	line := slices.Concat(head(body), body, []byte("\n"))
	if len(line) > maxLine {
		return nil, fmt.Errorf("a %s event of %d bytes, more than %d", ev.Kind, len(line), maxLine)
	}
	return line, nil
}
