package datasets

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// maxRecord bounds one row or prediction, so that a broken file ends in a clear
// error and not in all memory used.
const maxRecord = 256 << 20

// format is what a file holds, told by its name without .gz or .zst.
type format int

const (
	formatUnknown format = iota
	formatJSON
	formatJSONL
	formatParquet
)

func formatOf(name string) format {
	name = strings.ToLower(name)
	plain := strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	switch {
	case strings.HasSuffix(plain, ".json"):
		return formatJSON
	case strings.HasSuffix(plain, ".jsonl"):
		return formatJSONL
	case strings.HasSuffix(name, ".parquet"):
		return formatParquet
	}
	return formatUnknown
}

// textStem is a file name without .json or .jsonl, compressed or not.
func textStem(name string) string {
	plain := strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	return strings.TrimSuffix(strings.TrimSuffix(plain, ".json"), ".jsonl")
}

// openText opens a text file for reading: decompressed when its first bytes
// say so (whatever its name says) and without a byte order mark.
func openText(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return newText(f)
}

// newText does the same with an open file, and closes it in the end.
func newText(f io.ReadCloser) (io.ReadCloser, error) {
	r, closeInner, err := decompress(bufio.NewReaderSize(f, 64<<10))
	if err != nil {
		f.Close()
		return nil, err
	}
	text := bufio.NewReaderSize(r, 64<<10)
	if err := checkHead(text); err != nil {
		closeInner()
		f.Close()
		return nil, err
	}
	return &textFile{Reader: text, closeInner: closeInner, file: f}, nil
}

type textFile struct {
	io.Reader
	closeInner func()
	file       io.Closer
}

func (t *textFile) Close() error {
	t.closeInner()
	return t.file.Close()
}

func decompress(r *bufio.Reader) (io.Reader, func(), error) {
	head, err := r.Peek(4)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, fmt.Errorf("read gzip header: %w", err)
		}
		return z, func() { z.Close() }, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, fmt.Errorf("read zstd header: %w", err)
		}
		return z, z.Close, nil
	}
	return r, func() {}, nil
}

// checkHead drops a UTF-8 byte order mark and refuses what is no UTF-8 text at
// all, where the JSON error would only confuse.
func checkHead(r *bufio.Reader) error {
	head, err := r.Peek(20)
	if err != nil && err != io.EOF {
		return readFault(err)
	}
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		_, err := r.Discard(3)
		return err
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return &fault{"the file is UTF-16", "save it as UTF-8"}
	case bytes.HasPrefix(head, []byte("version https://git-")):
		return &fault{"the file is a Git LFS pointer, not the data", `run "git lfs pull" where it came from`}
	case bytes.HasPrefix(head, []byte("PAR1")):
		return &fault{"the file is Parquet, whatever its name says", "rename it to .parquet"}
	}
	return nil
}

// pathless drops the path of a file error: the position names the file already.
func pathless(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// readFault turns an error of reading (not of what was read) into words.
func readFault(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, zstd.ErrCRCMismatch) {
		return &fault{"the compressed file is cut off or damaged: " + err.Error(), "copy or download it again"}
	}
	return err
}

// lineReader cuts a stream at "\n", with no limit but max on a line's length.
type lineReader struct {
	r      *bufio.Reader
	max    int
	buf    []byte
	number int   // of the line last returned, from 1
	start  int64 // its offset in the stream
	next   int64
}

var errTooLong = errors.New("line is too long")

// read returns the next line without its end; the bytes are valid until the
// next call. After errTooLong the next line can be read.
func (l *lineReader) read() ([]byte, error) {
	if cap(l.buf) > 8<<20 {
		l.buf = nil // one giant line must not hold its memory for the whole file
	}
	l.buf = l.buf[:0]
	l.start = l.next
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		l.next += int64(len(part))
		if !tooLong {
			l.buf = append(l.buf, part...)
			if len(l.buf) > l.max {
				tooLong, l.buf = true, nil
			}
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && l.next == l.start:
			return nil, io.EOF
		case err != nil && err != io.EOF:
			return nil, err
		}
		l.number++
		if tooLong {
			return nil, errTooLong
		}
		return bytes.TrimSuffix(l.buf, []byte("\n")), nil
	}
}

// lineTracker passes a stream through and remembers where its lines end, so
// that an offset of a JSON decoder can be told as a line.
type lineTracker struct {
	r        io.Reader
	off      int64
	stop     int64   // reading past it is errTooLong
	newlines []int64 // offsets of "\n" not yet passed by lineAt
	passed   int     // lines that end before the last asked offset
}

func (t *lineTracker) Read(p []byte) (int, error) {
	if t.off > t.stop {
		return 0, errTooLong
	}
	// Small reads, so that stop means what it says and not "up to the decoder's buffer".
	n, err := t.r.Read(p[:min(len(p), 64<<10)])
	for i, c := range p[:n] {
		if c == '\n' {
			t.newlines = append(t.newlines, t.off+int64(i))
		}
	}
	t.off += int64(n)
	return n, err
}

// lineAt returns the 1-based line of an offset; offsets must not go back.
func (t *lineTracker) lineAt(off int64) int {
	i := 0
	for i < len(t.newlines) && t.newlines[i] < off {
		i++
	}
	t.newlines = t.newlines[i:]
	t.passed += i
	return t.passed + 1
}
