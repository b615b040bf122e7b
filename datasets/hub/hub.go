// Package hub fetches the Parquet files of a dataset from a Hugging Face hub,
// or from a mirror that speaks its protocol, into a cache on disk.
//
// It finds the shards of a split, pins them to a commit, downloads them so
// that a broken line costs no more than the bytes that were lost, checks size
// and hash, and serves them again without network. Its errors name the dataset
// and say what to do.
//
// It must not know what the rows mean: it hands out paths.
package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/evalrun/evalrun/cache"
)

// DefaultEndpoint is the public hub.
const DefaultEndpoint = "https://huggingface.co"

// What an error of this package is about; test with errors.Is.
var (
	ErrNotFound = errors.New("not found")             // no such dataset, revision, split or file
	ErrDenied   = errors.New("access denied")         // private or gated, or the token is not accepted
	ErrOffline  = errors.New("not in the cache")      // offline, and something was never downloaded
	ErrCorrupt  = errors.New("damaged or incomplete") // what arrived is not what the hub announced
)

// Options configures a Client. The zero value is the public hub with the
// user's own settings.
type Options struct {
	Endpoint string // address of the hub; "" means $HF_ENDPOINT, else DefaultEndpoint
	// Token is sent to the endpoint, and to no other host; "" means $HF_TOKEN,
	// else the file at $HF_TOKEN_PATH or $HF_HOME/token.
	Token    string
	CacheDir string           // "" means the folder "hub" in evalrun's cache
	Offline  bool             // never use the network; $HF_HUB_OFFLINE sets it too
	Client   *http.Client     // for its transport; redirects are handled here
	Log      func(msg string) // told about downloads, retries and deviations
}

// Client talks to one hub. It is safe for concurrent use.
type Client struct {
	endpoint *url.URL
	token    string
	dir      string
	offline  bool
	http     *http.Client
	log      func(string)
	err      error // bad options, reported by the first call

	// Replaced by tests.
	sleep func(ctx context.Context, d time.Duration) error
	idle  time.Duration // a connection that is silent for so long is dropped
}

// New returns a client. It does not touch the network; an endpoint that is no
// URL is reported by the first use.
func New(o Options) *Client {
	c := &Client{
		token:   o.Token,
		dir:     o.CacheDir,
		offline: o.Offline || truthy(os.Getenv("HF_HUB_OFFLINE")),
		log:     o.Log,
		sleep:   sleep,
		idle:    time.Minute,
	}
	address := o.Endpoint
	if address == "" {
		address = os.Getenv("HF_ENDPOINT")
	}
	if address == "" {
		address = DefaultEndpoint
	}
	c.endpoint, c.err = parseEndpoint(address)
	if c.token == "" {
		c.token = tokenFromEnvironment()
	}
	if c.dir == "" {
		c.dir = filepath.Join(cache.Dir(), "hub")
	}
	if c.log == nil {
		c.log = func(string) {}
	}
	client := http.Client{}
	if o.Client != nil {
		client = *o.Client
	}
	// net/http would send the token on to subdomains and to other ports of the
	// same host; send follows redirects itself.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &client
	return c
}

// Fetch makes sure that all Parquet files of a split are in the cache and
// returns their paths in shard order. id is "owner/name" or
// "owner/name@revision"; split may be "config/split" when several
// configurations have it.
func (c *Client) Fetch(ctx context.Context, id, split string) ([]string, error) {
	s, err := c.Resolve(ctx, id, split)
	if err != nil {
		return nil, err
	}
	return c.Download(ctx, s)
}

// Snapshot is one split of a dataset at one commit.
type Snapshot struct {
	Dataset  string `json:"dataset"`
	Revision string `json:"revision"` // as asked for: a branch, a tag or a commit
	Commit   string `json:"commit"`   // what the revision stood for
	Config   string `json:"config"`
	Split    string `json:"split"`
	// Converted says that the files are the hub's own conversion to Parquet of
	// a dataset published in another format.
	Converted bool   `json:"converted,omitempty"`
	Files     []File `json:"files"` // in shard order

	asked string // the split as the caller wrote it; names the record in the cache
}

// File is one Parquet file of a snapshot.
type File struct {
	Path   string `json:"path"` // in the repository
	Size   int64  `json:"size"` // bytes; -1 if not known yet
	ETag   string `json:"etag,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // of the content; always known after Download
	// BlobID is git's name of the content, for files that are not in large
	// file storage.
	BlobID string `json:"blob_id,omitempty"`
	Local  string `json:"-"` // path in the cache, set by Download

	url string // below the endpoint, for converted files
}

// Resolve finds the commit of a dataset's revision and the files of a split,
// without downloading them. Offline it answers from the cache.
func (c *Client) Resolve(ctx context.Context, id, split string) (*Snapshot, error) {
	s, err := parseRequest(id, split)
	if err == nil {
		err = c.err
	}
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	if s, err = c.resolve(ctx, s); err != nil {
		return nil, fmt.Errorf("hub: dataset %s, split %q: %w", id, split, err)
	}
	return s, nil
}

func (c *Client) resolve(ctx context.Context, s *Snapshot) (*Snapshot, error) {
	known, err := c.load(s)
	if err != nil {
		return nil, err
	}
	if c.offline {
		if known == nil {
			return nil, c.neverFetched(s)
		}
		return known, nil
	}
	// A full commit id never changes its meaning, so there is nothing to ask.
	if known != nil && commitID.MatchString(s.Revision) && len(c.missing(known)) == 0 {
		return known, nil
	}
	info, err := c.repoInfo(ctx, s)
	if err != nil {
		return nil, err
	}
	if known != nil && info.SHA != "" && known.Commit == info.SHA && len(c.missing(known)) == 0 {
		return known, nil
	}
	s.Commit = info.SHA
	files, err := c.listFiles(ctx, s, info)
	if err != nil {
		return nil, err
	}
	config, shards, err := chooseShards(files, info.configs(), splitName{s.Config, s.Split})
	switch {
	case errors.Is(err, errNoParquet):
		err = c.converted(ctx, s)
	case err == nil:
		s.Config = config
		for _, e := range shards {
			s.Files = append(s.Files, e.file())
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Download brings the files of s into the cache, sets their Local, SHA256 and
// Size, and returns the paths. What is there already is not fetched again.
func (c *Client) Download(ctx context.Context, s *Snapshot) ([]string, error) {
	paths, err := c.download(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("hub: dataset %s, split %q: %w", s.name(), s.Split, err)
	}
	return paths, nil
}

func (c *Client) download(ctx context.Context, s *Snapshot) ([]string, error) {
	if c.err != nil {
		return nil, c.err
	}
	if c.offline {
		if missing := c.missing(s); len(missing) > 0 {
			return nil, c.notCached(s, missing)
		}
	}
	previous, err := c.load(s)
	if err != nil {
		return nil, err
	}
	var paths []string
	for i := range s.Files {
		f := &s.Files[i]
		if !c.offline {
			if err := c.fetchFile(ctx, s, f, previous); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Path, err)
			}
		}
		f.Local = c.localPath(s, f)
		paths = append(paths, f.Local)
	}
	if c.offline {
		return paths, nil
	}
	return paths, c.save(s)
}

// name is the dataset as a user would write it, with its revision.
func (s *Snapshot) name() string {
	if s.Revision == defaultRevision {
		return s.Dataset
	}
	return s.Dataset + "@" + s.Revision
}

const defaultRevision = "main"

var (
	commitID  = regexp.MustCompile(`^[0-9a-f]{40}$`)
	datasetID = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)?$`)
	splitPart = regexp.MustCompile(`^[\w-][\w.+-]*$`)
)

// parseRequest reads "owner/name[@revision]" and "[config/]split".
func parseRequest(id, split string) (*Snapshot, error) {
	name, revision, pinned := strings.Cut(id, "@")
	if !pinned {
		revision = defaultRevision
	}
	if !datasetID.MatchString(name) {
		return nil, fmt.Errorf("%q is not a dataset id; write owner/name or owner/name@revision", id)
	}
	if revision == "" || strings.ContainsAny(revision, " \t\r\n\\?*[") || strings.Contains(revision, "..") || strings.HasPrefix(revision, ".") {
		return nil, fmt.Errorf("%q: %q is not a revision; write a branch, a tag or a commit after the @", id, revision)
	}
	config, part, found := strings.Cut(split, "/")
	if !found {
		config, part = "", split
	}
	if found && !splitPart.MatchString(config) || !splitPart.MatchString(part) {
		return nil, fmt.Errorf("dataset %s: %q is not a split; write for example test, or config/test", id, split)
	}
	return &Snapshot{Dataset: name, Revision: revision, Config: config, Split: part, asked: split}, nil
}

func parseEndpoint(address string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("endpoint %q is not an http(s) URL; check HF_ENDPOINT", address)
	}
	u.RawQuery, u.Fragment = "", ""
	return u, nil
}

func tokenFromEnvironment() string {
	if token := strings.TrimSpace(os.Getenv("HF_TOKEN")); token != "" {
		return token
	}
	path := os.Getenv("HF_TOKEN_PATH")
	if path == "" {
		home := os.Getenv("HF_HOME")
		if home == "" {
			base, err := os.UserHomeDir()
			if err != nil {
				return ""
			}
			home = filepath.Join(base, ".cache", "huggingface")
		}
		path = filepath.Join(home, "token")
	}
	// Most people have no such file, and public datasets need none.
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func truthy(s string) bool {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "1", "true", "yes", "on":
		return true
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
