package datasets

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Spool is where predictions wait until they are asked for, so that a million of them
// need next to no memory. Patches of a .jsonl file and of patch files stay where they
// are, and are read from there again; others (of a compressed file, or of a JSON
// document) are written to a temporary file. Where each is, and what was read beside it,
// is in another one. Neither has a name, so that it is gone with the process however
// that ends.
type Spool struct {
	texts, entries scratch

	mu    sync.Mutex
	names names // of instances and of files
}

// NewSpool returns a spool whose files, if it needs any, are in dir.
func NewSpool(dir string) *Spool {
	return &Spool{texts: scratch{dir: dir}, entries: scratch{dir: dir}}
}

// Close gives the disk back; predictions cannot be read any more.
func (s *Spool) Close() error { return errors.Join(s.texts.close(), s.entries.close()) }

// scratch is a temporary file. Its methods are safe for concurrent use.
type scratch struct {
	dir string

	mu      sync.Mutex
	file    *os.File // made when there is something for it
	end     int64    // of the file
	pending []byte   // what comes after it, and is not written yet
}

// add writes down and returns where that begins. What is small is written together.
func (s *scratch) add(data []byte) (int64, error) {
	const together = 64 << 10
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return 0, err
		}
		f, err := unnamed(s.dir, os.O_RDWR|unix.O_TMPFILE)
		if err != nil {
			return 0, err
		}
		s.file, s.end, s.pending = f, 0, make([]byte, 0, together)
	}
	if len(s.pending)+len(data) > together {
		if err := s.write(s.pending); err != nil {
			return 0, err
		}
		s.pending = s.pending[:0]
	}
	at := s.end + int64(len(s.pending))
	if len(data) > together {
		return at, s.write(data)
	}
	s.pending = append(s.pending, data...)
	return at, nil
}

func (s *scratch) write(data []byte) error {
	n, err := s.file.WriteAt(data, s.end)
	s.end += int64(n)
	return err
}

func (s *scratch) read(p []byte, off int64) error {
	s.mu.Lock()
	f, begin := s.file, off-s.end
	if begin >= 0 && begin+int64(len(p)) <= int64(len(s.pending)) {
		copy(p, s.pending[begin:])
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	if f == nil {
		return fs.ErrClosed
	}
	_, err := f.ReadAt(p, off)
	return err
}

func (s *scratch) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file, s.pending = nil, nil
	return err
}

// unnamed makes a file without a name. Not every file system can; there it has one for a
// moment, and those of processes that were killed in that moment are removed.
func unnamed(dir string, flags int) (*os.File, error) {
	if f, err := os.OpenFile(dir, flags, 0o600); err == nil {
		return f, nil
	}
	const pattern = ".predictions-*.tmp"
	left, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return nil, err
	}
	for _, name := range left { // also another process's, which needs no name
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// stored is a patch that is not in memory.
type stored struct {
	texts  *scratch // nil: in the file the prediction is from
	offset int64
	length uint32 // there; a record is not larger than maxRecord
	size   uint32 // of the patch
	sum    [sha256.Size]byte
	quoted bool // there it is a JSON string
	empty  bool // nothing but white space
}

// place is where in its own file the patch of a prediction is; without a length it is
// nowhere that can be read again.
type place struct {
	offset int64
	length int
	quoted bool
}

// store says where the patch of a prediction is, and puts it down where it can be read
// again if it is in no such place.
func (s *Spool) store(p *Prediction, at place) (*stored, error) {
	text := []byte(*p.Patch)
	kept := &stored{offset: at.offset, length: uint32(at.length), size: uint32(len(text)), sum: sha256.Sum256(text), quoted: at.quoted, empty: p.Empty()}
	if at.length > 0 {
		return kept, nil
	}
	var err error
	kept.texts, kept.length = &s.texts, kept.size
	kept.offset, err = s.texts.add(text)
	return kept, err
}

// read gives the patch as it was.
func (k *stored) read(file string) (string, error) {
	raw := make([]byte, k.length)
	var err error
	if k.texts != nil {
		err = k.texts.read(raw, k.offset)
	} else {
		err = readPart(file, raw, k.offset)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "", errChanged
	}
	if err != nil {
		return "", pathless(err)
	}
	text := ""
	if !k.quoted {
		text = string(raw)
	} else if text, err = decodeText(raw); err != nil {
		return "", errChanged
	}
	if sha256.Sum256([]byte(text)) != k.sum {
		return "", errChanged
	}
	return text, nil
}

func readPart(path string, p []byte, off int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errChanged // and to open it might never end
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.ReadAt(p, off)
	return err
}

var errChanged = errors.New("it was changed since it was read; give the same command again, and leave the file as it is until the end")

// Null reports whether the prediction has no patch at all, not even "".
func (p *Prediction) Null() bool { return p.Patch == nil && p.stored == nil }

// Text is the patch, byte for byte; nil where there is none. One that is not in
// memory is read again, and is what it was or an error.
func (p *Prediction) Text() (*string, error) {
	if p.stored == nil {
		return p.Patch, nil
	}
	text, err := p.stored.read(p.Source.File)
	if err != nil {
		return nil, fmt.Errorf("the patch of model %s for %s in %s: %w", p.Model, p.InstanceID, p.Source, err)
	}
	return &text, nil
}

// Size is how many bytes the patch has.
func (p *Prediction) Size() int {
	switch {
	case p.stored != nil:
		return int(p.stored.size)
	case p.Patch != nil:
		return len(*p.Patch)
	}
	return 0
}

// SHA256 is the digest of the patch; "" where there is none.
func (p *Prediction) SHA256() string {
	switch {
	case p.stored != nil:
		return hex.EncodeToString(p.stored.sum[:])
	case p.Patch != nil:
		sum := sha256.Sum256([]byte(*p.Patch))
		return hex.EncodeToString(sum[:])
	}
	return ""
}
