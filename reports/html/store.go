package html

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/reports"
)

// store takes the pieces of the details: into the page as long as they fit into
// its budget, then all of them into files beside it. What is written lies in a
// folder of its own until everything is whole, so that a page that fails leaves
// the one before it as it was.
type store struct {
	path    string // of the page
	folder  string // where files go in the end
	stage   string // where they are until then; "" before there are any
	budget  int
	held    [][]byte // pieces for the page
	count   int
	size    int64
	spilled bool // there are files
}

// newStore is for the page at path.
func newStore(path string, budget int) *store {
	return &store{path: path, folder: folderOf(path), budget: budget}
}

func folderOf(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + "_files" }

// add takes the next piece.
func (s *store) add(text []byte) error {
	s.size += int64(len(text))
	s.count++
	if !s.spilled && s.size <= int64(s.budget) {
		s.held = append(s.held, text)
		return nil
	}
	if !s.spilled {
		s.spilled = true
		for n, text := range s.held {
			if err := s.piece(n, text); err != nil {
				return err
			}
		}
		s.held = nil
	}
	return s.piece(s.count-1, text)
}

// pieceHead is how the file of a piece begins.
const pieceHead = "evalrunDetails("

func (s *store) piece(n int, text []byte) error {
	return s.write(pieceName(n), fmt.Appendf(nil, "%s%d,%q)\n", pieceHead, n, text))
}

// write puts a file onto the stage.
func (s *store) write(name string, text []byte) error {
	if s.stage == "" {
		stage := filepath.Join(filepath.Dir(s.path), fmt.Sprintf(".%s.%016x.tmp", short(filepath.Base(s.path)), rand.Uint64()))
		if err := os.MkdirAll(stage, 0o777); err != nil {
			return err
		}
		s.stage = stage
	}
	return os.WriteFile(filepath.Join(s.stage, name), text, 0o666)
}

func short(name string) string { return name[:min(len(name), 100)] }

// discard removes what is on the stage.
func (s *store) discard() {
	if s.stage != "" {
		os.RemoveAll(s.stage)
	}
}

func pieceName(n int) string { return fmt.Sprintf("%05d.js", n) }

var piecePattern = regexp.MustCompile(`^\d{5,}\.js$`)

// publish moves everything to its place: pieces, files beside the page, the page.
// It removes what an earlier page of this name has left and this one has not replaced.
func (s *store) publish(page string, beside []File) error {
	if s.spilled {
		if err := os.MkdirAll(s.folder, 0o777); err != nil {
			return err
		}
		for n := range s.count {
			if err := os.Rename(filepath.Join(s.stage, pieceName(n)), filepath.Join(s.folder, pieceName(n))); err != nil {
				return err
			}
		}
	}
	for _, f := range beside {
		if err := cache.Replace(filepath.Join(s.stage, f.Name), filepath.Join(filepath.Dir(s.path), f.Name)); err != nil {
			return err
		}
	}
	if err := cache.Replace(filepath.Join(s.stage, page), s.path); err != nil {
		return err
	}
	return s.removeOld()
}

func (s *store) removeOld() error {
	entries, err := os.ReadDir(s.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	if s.spilled {
		for n := range s.count {
			keep[pieceName(n)] = true
		}
	}
	left := 0
	for _, e := range entries {
		path := filepath.Join(s.folder, e.Name())
		if keep[e.Name()] || !isPiece(path) {
			left++
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if left == 0 {
		return os.Remove(s.folder)
	}
	return nil
}

// isPiece tells a file of ours by its name and its beginning.
func isPiece(path string) bool {
	return piecePattern.MatchString(filepath.Base(path)) && reports.MayReplace(path, pieceHead, false) == nil
}

// MayReplace says whether a page may be written at path, and its details beside it:
// only a page of this package is replaced, or with force any file.
func MayReplace(path string, force bool) error {
	const mark = `<meta name="generator" content="evalrun">`
	if err := reports.MayReplace(path, mark, force); err != nil || force {
		return err
	}
	entries, err := os.ReadDir(folderOf(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if file := filepath.Join(folderOf(path), e.Name()); !isPiece(file) {
			return fmt.Errorf("%s is there, and evalrun has not written it: a page of this name could need its folder; give another name, or --force", file)
		}
	}
	return nil
}

// packer compresses pieces one after the other.
type packer struct {
	out bytes.Buffer
	zip *gzip.Writer
}

func newPacker() *packer {
	p := &packer{}
	p.zip, _ = gzip.NewWriterLevel(&p.out, gzip.BestSpeed+2) // a level there is
	return p
}

// pack is gzip in base64.
func (p *packer) pack(raw []byte) ([]byte, error) {
	p.out.Reset()
	p.zip.Reset(&p.out)
	if _, err := p.zip.Write(raw); err != nil {
		return nil, err
	}
	if err := p.zip.Close(); err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, p.out.Bytes()), nil
}
