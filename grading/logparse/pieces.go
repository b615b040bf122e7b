package logparse

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"strings"
)

const (
	// pieceSize is how much of a log is read at once.
	pieceSize = 64 << 10
	// maxLine is where a line read from a stream is cut. No result line comes near
	// it; a log of one endless line must not end up in memory.
	maxLine = 16 << 20
)

// Pieces reads a log, normalised as by Normalise, in pieces of whole lines; only
// the last piece may lack its newline. A line longer than 16 MiB is cut to that. A
// reading error ends the pieces and comes with the last of them.
func Pieces(r io.Reader) iter.Seq2[string, error] { return pieces(r, Normalise, "\r\n") }

// VerbatimPieces is Pieces for text whose carriage returns stay as they are.
func VerbatimPieces(r io.Reader) iter.Seq2[string, error] { return pieces(r, validUTF8, "\n") }

// pieces reads lines that end with any of the bytes of ends.
func pieces(r io.Reader, read func(string) string, ends string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		buf := make([]byte, 0, pieceSize)
		skipping := false // inside the rest of a line that was cut
		for {
			if len(buf) == cap(buf) {
				buf = append(make([]byte, 0, 2*cap(buf)), buf...)
			}
			n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
			buf = buf[:len(buf)+n]
			if skipping {
				buf, skipping = afterLine(buf, ends)
			}
			if err != nil {
				if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
					err = nil
				}
				if len(buf) > 0 || err != nil {
					yield(read(string(buf)), err)
				}
				return
			}
			if end := wholeLines(buf, ends); end > 0 {
				if !yield(read(string(buf[:end])), nil) {
					return
				}
				rest := buf[end:]
				if cap(buf) > pieceSize && len(rest) <= pieceSize/2 {
					buf = make([]byte, 0, pieceSize) // a long line is over
				}
				buf = append(buf[:0], rest...)
			} else if len(buf) >= maxLine {
				if !yield(read(string(trimPartial(buf)))+"\n", nil) {
					return
				}
				buf, skipping = make([]byte, 0, pieceSize), true
			}
		}
	}
}

// wholeLines returns the length of the part of b that ends with a line: after the
// last newline, or after the last lone carriage return if there is none. What
// follows a final carriage return must be known first.
func wholeLines(b []byte, ends string) int {
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		return i + 1
	}
	if len(b) == 0 || ends == "\n" {
		return 0
	}
	return bytes.LastIndexByte(b[:len(b)-1], '\r') + 1
}

// afterLine drops what is left of a line that was cut.
func afterLine(b []byte, ends string) (rest []byte, skipping bool) {
	i := bytes.IndexAny(b, ends)
	if i < 0 {
		return b[:0], true
	}
	return append(b[:0], b[i+1:]...), false
}

// trimPartial takes the beginning of a character off the end of a cut line.
func trimPartial(b []byte) []byte {
	for i := 1; i <= 3 && i <= len(b); i++ {
		if c := b[len(b)-i]; c >= 0xc0 {
			return b[:len(b)-i]
		} else if c < 0x80 {
			break
		}
	}
	return b
}

// A Reader runs a parser on a log that comes in pieces, as Pieces gives them.
// Parsers whose patterns cross lines keep the text until the end.
type Reader struct {
	out    Result
	parser parser
	in     Context
	lines  lineParser
	text   strings.Builder
	last   bool // the last piece ended with a newline
}

// NewReader prepares the named parser. An unknown name gives no statuses and a
// reason, as with Parse.
func NewReader(name string, in Context) *Reader {
	r := &Reader{in: in, last: true}
	p, ok := registry[name]
	if !ok {
		r.out.complain("no log parser is called %q", name)
		return r
	}
	r.parser = p
	if p.lines != nil {
		r.lines = p.lines(in, &r.out)
	}
	return r
}

// Feed reads the next piece.
func (r *Reader) Feed(piece string) {
	if r.lines == nil {
		if r.parser.text != nil {
			r.text.WriteString(piece)
		}
		return
	}
	if piece == "" {
		return
	}
	for {
		i := strings.IndexByte(piece, '\n')
		if i < 0 {
			break
		}
		r.lines.line(piece[:i])
		piece = piece[i+1:]
	}
	if piece != "" {
		r.lines.line(piece)
	}
	r.last = piece == ""
}

// Result ends the log and returns what was read. Feed must not follow.
func (r *Reader) Result() Result {
	switch {
	case r.lines != nil:
		if r.last {
			r.lines.line("") // what stands after the last newline
		}
		r.lines.end()
	case r.parser.text != nil:
		r.parser.text(r.in, r.text.String(), &r.out)
	}
	return r.out
}

// SuiteSigns is SuiteRan for a log that comes in pieces.
type SuiteSigns struct {
	Ran   bool
	carry string // last lines of the piece before: a sign can reach over them
}

// Feed looks at the next piece.
func (s *SuiteSigns) Feed(piece string) {
	if s.Ran {
		return
	}
	text := s.carry + piece
	s.Ran = SuiteRan(text)
	const reach = 1 << 10
	if from := len(text) - reach; from > 0 {
		// From the beginning of a line, or a sign for those would be seen elsewhere.
		_, text, _ = strings.Cut(text[from:], "\n")
	}
	s.carry = text
}
