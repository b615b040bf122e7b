package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	maxAnswer = 64 << 20 // bytes of one API answer
	maxPages  = 1000
)

// repoInfo is what the hub says about a dataset at a revision.
type repoInfo struct {
	ID       string `json:"id"`
	SHA      string `json:"sha"`
	Siblings []struct {
		Name string `json:"rfilename"`
	} `json:"siblings"`
	CardData json.RawMessage `json:"cardData"`
}

// entry is one file of a repository.
type entry struct {
	path   string
	size   int64 // -1 if not known
	sha256 string
	blobID string
}

func (e entry) file() File {
	f := File{Path: e.path, Size: e.size, SHA256: e.sha256, BlobID: e.blobID, ETag: e.sha256}
	if f.ETag == "" {
		f.ETag = e.blobID
	}
	return f
}

func (c *Client) repoInfo(ctx context.Context, s *Snapshot) (*repoInfo, error) {
	var info repoInfo
	u := c.address("api", "datasets", s.Dataset, "revision", url.PathEscape(s.Revision))
	if _, err := c.getJSON(ctx, u, &info); err != nil {
		return nil, c.explain(s, err)
	}
	if info.ID != "" && info.ID != s.Dataset {
		c.log(fmt.Sprintf("hub: dataset %s is called %s now", s.Dataset, info.ID))
	}
	return &info, nil
}

// listFiles lists the repository at s.Commit. The tree has sizes and hashes; a
// mirror without it still names the files in the answer we have.
func (c *Client) listFiles(ctx context.Context, s *Snapshot, info *repoInfo) ([]entry, error) {
	files, err := c.tree(ctx, s)
	if status := (*statusError)(nil); errors.As(err, &status) && status.status == http.StatusNotFound && len(info.Siblings) > 0 {
		files = nil
		for _, sibling := range info.Siblings {
			files = append(files, entry{path: sibling.Name, size: -1})
		}
		return files, nil
	}
	if err != nil {
		return nil, c.explain(s, err)
	}
	return files, nil
}

func (c *Client) tree(ctx context.Context, s *Snapshot) ([]entry, error) {
	u := c.address("api", "datasets", s.Dataset, "tree", url.PathEscape(s.at()))
	u.RawQuery = "recursive=true"
	var files []entry
	seen := map[string]bool{}
	for u != nil {
		if seen[u.String()] || len(seen) == maxPages {
			return nil, fmt.Errorf("the file listing at %s does not end", shown(u))
		}
		seen[u.String()] = true
		var page []struct {
			Type string
			Path string
			OID  string
			Size int64
			LFS  *struct {
				OID  string
				Size int64
			}
		}
		rep, err := c.getJSON(ctx, u, &page)
		if err != nil {
			return nil, err
		}
		for _, f := range page {
			if f.Type != "file" {
				continue
			}
			e := entry{path: f.Path, size: f.Size}
			if f.LFS != nil {
				e.sha256, e.size = strings.TrimPrefix(f.LFS.OID, "sha256:"), f.LFS.Size
			} else {
				e.blobID = f.OID
			}
			files = append(files, e)
		}
		if u, err = c.nextPage(rep); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// nextPage finds rel="next" in the Link header. A mirror may pass on the
// address of the hub it copies; the path is the same on the mirror.
func (c *Client) nextPage(rep *reply) (*url.URL, error) {
	for _, header := range rep.Header.Values("Link") {
		for link := range strings.SplitSeq(header, ",") {
			target, params, _ := strings.Cut(link, ";")
			target = strings.TrimSpace(target)
			params = strings.ReplaceAll(params, " ", "")
			if !strings.Contains(params, `rel="next"`) && !strings.Contains(params, "rel=next") {
				continue
			}
			next, err := rep.Request.URL.Parse(strings.Trim(target, "<>"))
			if err != nil {
				return nil, fmt.Errorf("%s: Link header %q: %w", shown(rep.Request.URL), header, err)
			}
			if !c.isHome(next) {
				next.Scheme, next.Host, next.User = c.endpoint.Scheme, c.endpoint.Host, c.endpoint.User
			}
			return next, nil
		}
	}
	return nil, nil
}

// converted fills s from the hub's own conversion to Parquet. There is one of
// the default branch only.
func (c *Client) converted(ctx context.Context, s *Snapshot) error {
	if s.Revision != defaultRevision {
		return fmt.Errorf("%w: the repository has no Parquet files at this revision, and the hub converts only the revision %q", ErrNotFound, defaultRevision)
	}
	var listing map[string]map[string][]string // config, split, addresses
	if _, err := c.getJSON(ctx, c.address("api", "datasets", s.Dataset, "parquet"), &listing); err != nil {
		if status := (*statusError)(nil); errors.As(err, &status) && status.status == http.StatusNotFound {
			return fmt.Errorf("%w: the repository has no Parquet files, and the hub has not converted it", ErrNotFound)
		}
		return c.explain(s, err)
	}
	known := map[string][]string{}
	for config, splits := range listing {
		known[config] = slices.Collect(maps.Keys(splits))
	}
	config, err := pickConfig(known, "", splitName{s.Config, s.Split})
	if err != nil {
		return err
	}
	s.Config, s.Converted = config, true
	for _, address := range listing[config][s.Split] {
		// Only config/split/number.parquet counts: a mirror may pass on addresses
		// of the hub it copies, and a renamed dataset those of its new name.
		u, err := url.Parse(address)
		if err != nil {
			return fmt.Errorf("the hub lists a converted file at %q: %w", address, err)
		}
		segments := strings.Split(u.EscapedPath(), "/")
		after := strings.Join(segments[max(len(segments)-3, 0):], "/")
		path, err := url.PathUnescape(after)
		if err != nil || !strings.HasSuffix(path, ".parquet") || strings.Contains(path, "..") {
			return fmt.Errorf("the hub lists a converted file at %q, which is no address of one", address)
		}
		s.Files = append(s.Files, File{Path: path, Size: -1, url: "/api/datasets/" + s.Dataset + "/parquet/" + after})
	}
	if len(s.Files) == 0 {
		return fmt.Errorf("%w: the hub's conversion to Parquet has no file of this split", ErrNotFound)
	}
	c.log(fmt.Sprintf("hub: dataset %s has no Parquet files; using the hub's conversion", s.Dataset))
	return nil
}

// at is the most exact name of the revision there is.
func (s *Snapshot) at() string {
	if s.Commit != "" {
		return s.Commit
	}
	return s.Revision
}

// address joins parts that are escaped already to the endpoint.
func (c *Client) address(parts ...string) *url.URL {
	return c.below("/" + strings.Join(parts, "/"))
}

func (c *Client) below(escaped string) *url.URL {
	u := *c.endpoint
	full := u.EscapedPath() + escaped
	if path, err := url.PathUnescape(full); err == nil {
		u.Path, u.RawPath = path, full
	}
	return &u
}

func (c *Client) getJSON(ctx context.Context, u *url.URL, v any) (*reply, error) {
	var rep *reply
	err := c.retry(ctx, shown(u), func() error {
		var err error
		rep, err = c.send(ctx, request{method: http.MethodGet, url: u})
		if err != nil {
			return err
		}
		defer rep.Body.Close()
		if rep.StatusCode != http.StatusOK {
			return rep.failure()
		}
		data, err := io.ReadAll(io.LimitReader(rep.Body, maxAnswer+1))
		if err != nil {
			return &transient{err: fmt.Errorf("reading the answer of %s: %w", shown(u), err)}
		}
		if len(data) > maxAnswer {
			return fmt.Errorf("%s answers with more than %d bytes", shown(u), maxAnswer)
		}
		if err := json.Unmarshal(data, v); err != nil {
			return fmt.Errorf("%s does not answer as a hub does (is HF_ENDPOINT right?): %w", shown(u), err)
		}
		return nil
	})
	return rep, err
}

func decodeJSON(r io.Reader, v any) error { return json.NewDecoder(r).Decode(v) }

// explain says what the hub's refusal means and what to do about it.
func (c *Client) explain(s *Snapshot, err error) error {
	var e *statusError
	if !errors.As(err, &e) || e.away {
		if t := (*transient)(nil); errors.As(err, &t) {
			if known, _ := c.load(s); known != nil && len(c.missing(known)) == 0 {
				return fmt.Errorf("%w (the cache has commit %s; HF_HUB_OFFLINE=1 uses it)", err, known.Commit)
			}
		}
		return err
	}
	page := shown(c.endpoint) + "/datasets/" + s.Dataset
	switch {
	case e.code == "GatedRepo" && c.token == "":
		return fmt.Errorf("%w: it is gated; accept its conditions at %s and set HF_TOKEN (%w)", ErrDenied, page, err)
	case e.status == http.StatusForbidden || e.code == "GatedRepo":
		return fmt.Errorf("%w: the account of HF_TOKEN may not read it; if it is gated, ask for access at %s (%w)", ErrDenied, page, err)
	case e.status == http.StatusUnauthorized && c.token == "":
		// The hub does not tell strangers whether a private dataset exists.
		return fmt.Errorf("%w: it does not exist, or it is private or gated; check its name, or set HF_TOKEN (%w)", ErrDenied, err)
	case e.status == http.StatusUnauthorized:
		return fmt.Errorf("%w: it does not exist, or HF_TOKEN is not accepted (%w)", ErrDenied, err)
	case e.status == http.StatusNotFound:
		what := "dataset or revision"
		switch e.code {
		case "RepoNotFound":
			what = "dataset"
		case "RevisionNotFound":
			what = "revision " + s.Revision
		case "EntryNotFound":
			what = "file"
		}
		return fmt.Errorf("%w: the hub has no such %s; see %s (%w)", ErrNotFound, what, page, err)
	}
	return err
}
