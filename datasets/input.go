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

// What one record may have, so that a broken file ends in a clear error and not in
// all memory used: bytes of a row or a prediction, keys, names in a list of tests.
const (
	maxRecord = 64 << 20
	maxKeys   = 1000
	maxTests  = 1 << 18
)

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

// OpenText opens a text file for reading, decompressed if it is gzip or zstd; - is
// standard input.
func OpenText(path string) (io.ReadCloser, error) {
	if path == "-" {
		return newText(os.Stdin)
	}
	return openText(path)
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
	r, closeInner, err := decompress(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	text := bufio.NewReaderSize(r, 64<<10)
	mark, err := checkHead(text)
	if err != nil {
		closeInner()
		f.Close()
		return nil, err
	}
	_, compressed := r.(*expanding)
	return &textFile{Reader: text, closeInner: closeInner, file: f, compressed: compressed, mark: int64(mark)}, nil
}

// maxZstdWindow is what the zstd program reads without being told to.
const maxZstdWindow = 128 << 20

type textFile struct {
	io.Reader
	closeInner func()
	file       io.Closer
	compressed bool
	mark       int64 // bytes of a byte order mark, which were left out
}

// offset is where in its file the text begins, if it is there as it is read.
func (t *textFile) offset() (int64, bool) {
	f, ok := t.file.(*os.File)
	if !ok || t.compressed {
		return 0, false
	}
	info, err := f.Stat()
	return t.mark, err == nil && info.Mode().IsRegular()
}

func (t *textFile) Close() error {
	t.closeInner()
	return t.file.Close()
}

func decompress(f io.Reader) (io.Reader, func(), error) {
	compressed := &counted{r: f}
	r := bufio.NewReaderSize(compressed, 64<<10)
	head, err := r.Peek(4)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, readFault(fmt.Errorf("read gzip header: %w", err))
		}
		return &expanding{r: z, from: compressed}, func() { z.Close() }, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, nil, readFault(fmt.Errorf("read zstd header: %w", err))
		}
		return &expanding{r: z, from: compressed}, z.Close, nil
	}
	return r, func() {}, nil
}

// checkHead drops a UTF-8 byte order mark and refuses what is no UTF-8 text at
// all, where the JSON error would only confuse.
func checkHead(r *bufio.Reader) (mark int, err error) {
	head, err := r.Peek(20)
	if err != nil && err != io.EOF {
		return 0, readFault(err)
	}
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return r.Discard(3)
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return 0, &fault{"the file is UTF-16", "save it as UTF-8"}
	case bytes.HasPrefix(head, []byte("version https://git-")):
		return 0, &fault{"the file is a Git LFS pointer, not the data", `run "git lfs pull" where it came from`}
	case bytes.HasPrefix(head, []byte("PAR1")):
		return 0, &fault{"the file is Parquet, whatever its name says", "rename it to .parquet"}
	}
	return 0, nil
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
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, zstd.ErrCRCMismatch) {
		return &fault{"the compressed file is cut off or damaged: " + err.Error(), "copy or download it again"}
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return &fault{fmt.Sprintf("the compressed file wants a window of more than %d MiB", maxZstdWindow>>20), "compress it without --long, or not at all"}
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
