package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/evalrun/evalrun/cache"
)

// The cache of one dataset:
//
//	<dir>/<host>/<owner>--<name>/files/<etag>/<base name>   content, shared by all commits that have it
//	<dir>/<host>/<owner>--<name>/splits/<revision>/<split>.json   Snapshot: what the revision stood for last
//
// Files keep their base name so that readers that go by the extension work.

func (c *Client) datasetDir(dataset string) string {
	host := strings.ReplaceAll(c.endpoint.Host+c.endpoint.Path, "/", "_")
	return filepath.Join(c.dir, strings.ReplaceAll(host, ":", "_"), strings.ReplaceAll(dataset, "/", "--"))
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$`)

// localPath is where f is or will be. A file whose content has no name yet
// lies under the name of the place it comes from.
func (c *Client) localPath(s *Snapshot, f *File) string {
	key := f.ETag
	if key == "" {
		key = "at " + s.at() + " " + f.Path
	}
	if !plainKey.MatchString(key) {
		sum := sha256.Sum256([]byte(key))
		key = "x-" + hex.EncodeToString(sum[:])
	}
	return filepath.Join(c.datasetDir(s.Dataset), "files", key, path.Base(f.Path))
}

// cached reports whether f is there with the right size.
func (c *Client) cached(s *Snapshot, f *File) bool {
	info, err := os.Stat(c.localPath(s, f))
	return err == nil && info.Mode().IsRegular() && (f.Size < 0 || info.Size() == f.Size)
}

// missing lists the files of s that are not in the cache.
func (c *Client) missing(s *Snapshot) []string {
	var missing []string
	for i := range s.Files {
		if !c.cached(s, &s.Files[i]) {
			missing = append(missing, s.Files[i].Path)
		}
	}
	return missing
}

func (c *Client) recordPath(s *Snapshot, revision string) string {
	return filepath.Join(c.datasetDir(s.Dataset), "splits", url.PathEscape(revision), url.PathEscape(s.asked)+".json")
}

// load reads what is known about the split at the revision; nil if nothing.
func (c *Client) load(s *Snapshot) (*Snapshot, error) {
	if c.err != nil {
		return nil, c.err
	}
	name := c.recordPath(s, s.Revision)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var known Snapshot
	if json.Unmarshal(data, &known) != nil || len(known.Files) == 0 {
		if c.offline {
			return nil, fmt.Errorf("%w: offline, and the record %s is damaged; run once online", ErrOffline, name)
		}
		c.log(fmt.Sprintf("hub: %s is damaged and is made again", name))
		return nil, nil
	}
	known.Dataset, known.Revision, known.asked = s.Dataset, s.Revision, s.asked
	return &known, nil
}

// save records s under the revision asked for and under its commit, so that a
// later run that names the commit needs no network.
func (c *Client) save(s *Snapshot) error {
	revisions := []string{s.Revision}
	if commitID.MatchString(s.Commit) && s.Commit != s.Revision && !s.Converted {
		revisions = append(revisions, s.Commit)
	}
	for _, revision := range revisions {
		if err := cache.WriteJSON(c.recordPath(s, revision), s, 2); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) neverFetched(s *Snapshot) error {
	splits, _ := filepath.Glob(filepath.Join(filepath.Dir(c.recordPath(s, s.Revision)), "*.json"))
	for i, name := range splits {
		name = strings.TrimSuffix(filepath.Base(name), ".json")
		if plain, err := url.PathUnescape(name); err == nil {
			name = plain
		}
		splits[i] = name
	}
	have := "nothing of this revision"
	if len(splits) > 0 {
		have = "of this revision only the splits " + strings.Join(splits, ", ")
	}
	return fmt.Errorf("%w: offline, and %s has %s; run once online (without HF_HUB_OFFLINE), or copy the folder from a machine that has it", ErrOffline, c.datasetDir(s.Dataset), have)
}

func (c *Client) notCached(s *Snapshot, missing []string) error {
	return fmt.Errorf("%w: offline, and %d of %d files are missing from %s: %s; run once online (without HF_HUB_OFFLINE)",
		ErrOffline, len(missing), len(s.Files), c.datasetDir(s.Dataset), strings.Join(missing, ", "))
}
