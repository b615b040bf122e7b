package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/evalrun/evalrun/cache"
)

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

// fetchFile brings one file into the cache. Only one process downloads a file
// at a time; the others wait and find it there.
func (c *Client) fetchFile(ctx context.Context, s *Snapshot, f *File, previous *Snapshot) error {
	if f.ETag == "" {
		if err := c.describe(ctx, s, f, previous); err != nil {
			return c.explain(s, err)
		}
	}
	path := c.localPath(s, f)
	unlock, err := cache.Lock(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	// Without a tag and a commit nothing says that the file there is the same.
	if c.cached(s, f) && (f.ETag != "" || s.Commit != "") {
		return c.digestCached(path, f, previous)
	}
	part := path + ".part"
	corrupt := 0
	err = c.retry(ctx, f.Path, func() error {
		err := c.attempt(ctx, s, f, part)
		if errors.Is(err, ErrCorrupt) {
			// Once may be a bad line; twice is a bad source.
			if corrupt++; corrupt == 1 {
				return &transient{err: err}
			}
		}
		return err
	})
	if err != nil {
		return c.explain(s, err)
	}
	if err := cache.Replace(part, path); err != nil {
		return err
	}
	os.Remove(validatorPath(part))
	c.log(fmt.Sprintf("hub: %s: %s: %d bytes", s.Dataset, f.Path, f.Size))
	return nil
}

// digestCached fills in what Download promises for a file that is there.
func (c *Client) digestCached(path string, f *File, previous *Snapshot) error {
	if old := previous.find(f.Path); f.SHA256 == "" && old != nil && f.ETag != "" && old.ETag == f.ETag {
		f.SHA256 = old.SHA256
	}
	if f.SHA256 != "" && f.Size >= 0 {
		return nil
	}
	size, sum, _, err := digest(path)
	f.Size, f.SHA256 = size, sum
	return err
}

func (s *Snapshot) find(path string) *File {
	if s != nil {
		for i := range s.Files {
			if s.Files[i].Path == path {
				return &s.Files[i]
			}
		}
	}
	return nil
}

// describe asks for the tag and size of a file that the listing did not give.
// The tag of the copy we have goes along: "not modified" then says it all.
func (c *Client) describe(ctx context.Context, s *Snapshot, f *File, previous *Snapshot) error {
	header := http.Header{"Accept-Encoding": {"identity"}}
	old := previous.find(f.Path)
	if old != nil && old.ETag != "" && c.cached(s, old) {
		header.Set("If-None-Match", `"`+old.ETag+`"`)
	} else {
		old = nil
	}
	return c.retry(ctx, f.Path, func() error {
		// The storage server behind the hub may refuse HEAD: its addresses are
		// signed for GET. What it would say the hub has said already.
		rep, err := c.send(ctx, request{method: http.MethodHead, url: c.fileURL(s, f), header: header, stay: true})
		if err != nil {
			return err
		}
		defer rep.Body.Close()
		switch {
		case rep.StatusCode == http.StatusNotModified && old != nil:
			f.ETag, f.Size, f.SHA256 = old.ETag, old.Size, old.SHA256
			return rep.checkCommit(s)
		case rep.StatusCode == http.StatusMethodNotAllowed || rep.StatusCode == http.StatusNotImplemented:
			return nil // GET will have to do
		case rep.StatusCode != http.StatusOK && !isRedirect(rep.StatusCode):
			return rep.failure()
		}
		f.ETag, f.Size = rep.linked, rep.size
		if rep.StatusCode == http.StatusOK {
			if f.ETag == "" {
				f.ETag = bareETag(rep.Header.Get("ETag"))
			}
			if f.Size < 0 {
				f.Size = rep.ContentLength
			}
		}
		if sha256Hex.MatchString(rep.linked) {
			f.SHA256 = rep.linked
		}
		return rep.checkCommit(s)
	})
}

// checkCommit refuses files of another commit than the one resolved: a split
// must not be mixed from two. Conversions live on a branch of their own.
func (r *reply) checkCommit(s *Snapshot) error {
	if s.Converted || r.commit == "" || r.commit == s.Commit {
		return nil
	}
	if s.Commit == "" {
		s.Commit = r.commit
		return nil
	}
	return fmt.Errorf("%w: the hub sends a file of commit %s, asked for %s", ErrCorrupt, r.commit, s.Commit)
}

func (c *Client) fileURL(s *Snapshot, f *File) *url.URL {
	if f.url != "" {
		return c.below(f.url)
	}
	segments := strings.Split(f.Path, "/")
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	return c.address("datasets", s.Dataset, "resolve", url.PathEscape(s.at()), strings.Join(segments, "/"))
}

// attempt downloads what is missing of f into part, and checks the whole.
func (c *Client) attempt(ctx context.Context, s *Snapshot, f *File, part string) error {
	have, err := partSize(part)
	if err != nil {
		return err
	}
	if f.Size < 0 || have > f.Size || f.SHA256 == "" && f.BlobID == "" && validator(part) == "" {
		have = 0 // nothing would show that the two halves belong together
	}
	if have == 0 || f.Size < 0 || have < f.Size {
		if err := c.transfer(ctx, s, f, part, have); err != nil {
			return err
		}
	}
	if err := verify(part, f); err != nil {
		if errors.Is(err, ErrCorrupt) {
			os.Remove(part)
			os.Remove(validatorPath(part))
		}
		return err
	}
	return nil
}

// transfer asks for the bytes of f from have on, and writes them to part.
func (c *Client) transfer(ctx context.Context, s *Snapshot, f *File, part string, have int64) error {
	header := http.Header{"Accept-Encoding": {"identity"}}
	if have > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		if tag := validator(part); tag != "" {
			header.Set("If-Range", tag)
		}
	}
	rep, err := c.send(ctx, request{method: http.MethodGet, url: c.fileURL(s, f), header: header})
	if err != nil {
		return err
	}
	defer rep.Body.Close()
	switch rep.StatusCode {
	case http.StatusOK:
		have = 0 // the server ignores ranges, or the file is another one now
	case http.StatusPartialContent:
		err := checkRange(rep.Header.Get("Content-Range"), have, f.Size)
		if tag := strongETag(rep.Header); err == nil && f.SHA256 == "" && f.BlobID == "" && tag != validator(part) {
			err = fmt.Errorf("the file changed in the middle of the download: tag %s, before %s", tag, validator(part))
		}
		if err != nil {
			os.Remove(part)
			return &transient{err: err}
		}
	case http.StatusRequestedRangeNotSatisfiable:
		os.Remove(part)
		return &transient{err: rep.failure()}
	default:
		return rep.failure()
	}
	if err := rep.checkCommit(s); err != nil {
		return err
	}
	if err := learn(rep, f, have); err != nil {
		return err
	}
	// The tag must lie on disk while bytes it vouches for do, and no others.
	if have == 0 {
		os.Remove(part)
	}
	if err := os.WriteFile(validatorPath(part), []byte(strongETag(rep.Header)), 0o666); err != nil {
		return err
	}
	return appendTo(part, have, f.Size, rep)
}

// learn takes the size from the answer when nothing else told it, and refuses
// an answer of another size before a byte of it is written.
func learn(rep *reply, f *File, have int64) error {
	announced := int64(-1)
	if rep.ContentLength >= 0 {
		announced = rep.ContentLength + have
	}
	for _, told := range []int64{rep.size, announced} {
		if f.Size < 0 {
			f.Size = told
		}
		if told >= 0 && told != f.Size {
			return fmt.Errorf("%w: %s sends %d bytes, expected %d", ErrCorrupt, rep.Request.URL.Host, told, f.Size)
		}
	}
	if f.SHA256 == "" && sha256Hex.MatchString(rep.linked) {
		f.SHA256 = rep.linked
	}
	return nil
}

// appendTo writes the body to part from have on. One byte beyond the size is
// enough to see that the answer is wrong; no server gets to fill the disk.
func appendTo(part string, have, size int64, rep *reply) error {
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Truncate(have); err != nil {
		return err
	}
	if _, err := file.Seek(have, io.SeekStart); err != nil {
		return err
	}
	body := &source{Reader: rep.Body}
	limited := io.Reader(body)
	if size >= 0 {
		limited = io.LimitReader(body, size-have+1)
	}
	n, err := io.Copy(file, limited)
	if body.err != nil {
		return &transient{
			err:      fmt.Errorf("the connection to %s broke after %d bytes: %w", rep.Request.URL.Host, have+n, body.err),
			progress: n >= 1<<20,
		}
	}
	if err != nil {
		return fmt.Errorf("the cache cannot be written: %w", err)
	}
	return file.Close()
}

// source remembers its own error, to tell a broken line from a full disk.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// verify compares part with everything that is known about f, and fills in
// what is not.
func verify(part string, f *File) error {
	size, sum, blob, err := digest(part)
	if err != nil {
		return err
	}
	switch {
	case f.Size >= 0 && size < f.Size:
		return &transient{err: fmt.Errorf("the connection ended after %d of %d bytes", size, f.Size)}
	case f.Size >= 0 && size > f.Size:
		return fmt.Errorf("%w: %d bytes arrived, expected %d", ErrCorrupt, size, f.Size)
	case f.SHA256 != "" && sum != f.SHA256:
		return fmt.Errorf("%w: its SHA-256 is %s, the hub says %s; is a proxy changing downloads?", ErrCorrupt, sum, f.SHA256)
	case f.SHA256 == "" && f.BlobID != "" && blob != f.BlobID:
		return fmt.Errorf("%w: its git blob id is %s, the hub says %s; is a proxy changing downloads?", ErrCorrupt, blob, f.BlobID)
	case f.SHA256 == "" && f.BlobID == "":
		if err := looksLikeParquet(part, size); err != nil {
			return err
		}
	}
	f.Size, f.SHA256 = size, sum
	return nil
}

// digest returns the size of a file, its SHA-256 and its git blob id.
func digest(path string) (size int64, sum, blob string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, "", "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, "", "", err
	}
	var content, git hash.Hash = sha256.New(), sha1.New()
	fmt.Fprintf(git, "blob %d\x00", info.Size())
	size, err = io.Copy(io.MultiWriter(content, git), file)
	return size, hex.EncodeToString(content.Sum(nil)), hex.EncodeToString(git.Sum(nil)), err
}

// looksLikeParquet catches the page of a captive portal where no hash would.
func looksLikeParquet(path string, size int64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	const magic = "PAR1"
	var head, tail [len(magic)]byte
	if size >= 3*int64(len(magic)) {
		if _, err := file.ReadAt(head[:], 0); err != nil {
			return err
		}
		if _, err := file.ReadAt(tail[:], size-int64(len(magic))); err != nil {
			return err
		}
	}
	if string(head[:]) != magic || string(tail[:]) != magic {
		return fmt.Errorf("%w: what arrived is no Parquet file", ErrCorrupt)
	}
	return nil
}

func partSize(part string) (int64, error) {
	info, err := os.Stat(part)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, os.MkdirAll(filepath.Dir(part), 0o777)
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// The tag of the server that sent a partial file lies beside it. It is often
// not the hub's tag, and only it is right in If-Range.
func validatorPath(part string) string { return part + ".etag" }

func validator(part string) string {
	data, err := os.ReadFile(validatorPath(part))
	if err != nil {
		return ""
	}
	return string(data)
}

// strongETag is the entity tag as sent; a weak one does not promise the same
// bytes.
func strongETag(h http.Header) string {
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return ""
}

var contentRange = regexp.MustCompile(`^bytes (\d+)-(\d+)/(\d+|\*)$`)

// checkRange makes sure that a partial answer starts where we stopped, in a
// file of the same size.
func checkRange(header string, have, size int64) error {
	m := contentRange.FindStringSubmatch(header)
	if m == nil {
		return fmt.Errorf("partial answer with Content-Range %q", header)
	}
	from, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || from != have {
		return fmt.Errorf("asked for the bytes from %d on, got %q", have, header)
	}
	if total, err := strconv.ParseInt(m[3], 10, 64); err == nil && size >= 0 && total != size {
		return fmt.Errorf("the file has %d bytes, Content-Range says %q", size, header)
	}
	return nil
}
