package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const shard1of1 = "data/test-00000-of-00001.parquet"

func TestFetchOneShard(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{shard1of1: parquet(5000, 'a'), "README.md": []byte("x")})
	c, waits := h.client()
	h.fetchOK(c, testID, "test", shard1of1)
	if got := h.take(); count(got, "cdn", "GET", "/blob/") != 1 || len(waits.list) != 0 {
		t.Errorf("requests %v, waits %v; want one download at the first try", got, waits.list)
	}
	h.fetchOK(c, testID, "test", shard1of1)
	if got := h.take(); len(got) != 1 {
		t.Errorf("a second fetch makes the requests %v, want only the question for the commit", got)
	}
	var left []string
	filepath.WalkDir(os.Getenv("EVALRUN_CACHE"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (strings.Contains(path, ".part") || strings.HasSuffix(path, ".tmp")) {
			left = append(left, path)
		}
		return err
	})
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestFetchManyShardsOverPages(t *testing.T) {
	files := map[string][]byte{}
	want := []string{"data/test-00000-of-00003.parquet", "data/test-00001-of-00003.parquet", "data/test-00002-of-00003.parquet"}
	for i, name := range want {
		files[name] = parquet(100+i, 'a'+byte(i))
	}
	files["data/train-00000-of-00001.parquet"] = parquet(50, 'z')
	h := newFakeHub(t, files)
	h.perPage = 1
	c, _ := h.client()
	h.fetchOK(c, testID, "test", want...)
	if got := h.take(); count(got, "api", "GET", "/tree/") != 5 || count(got, "cdn", "GET", "train") != 0 {
		t.Errorf("requests %v, want 5 pages and no file of another split", got)
	}
}

func TestResolveSaysCommitAndFiles(t *testing.T) {
	data := parquet(321, 'a')
	h := newFakeHub(t, map[string][]byte{shard1of1: data})
	c, _ := h.client()
	s, err := c.Resolve(t.Context(), testID, "test")
	if err != nil {
		t.Fatal(err)
	}
	want := &Snapshot{
		Dataset: testID, Revision: "main", Commit: testCommit, Config: "default", Split: "test",
		Files: []File{{Path: shard1of1, Size: 321, ETag: sha(data), SHA256: sha(data)}},
	}
	if diff := cmp.Diff(want, s, cmpopts.IgnoreUnexported(Snapshot{}, File{})); diff != "" {
		t.Errorf("Resolve (-want +got):\n%s", diff)
	}
	if count(h.take(), "cdn", "GET", "") != 0 {
		t.Error("Resolve downloads")
	}
	paths, err := c.Download(t.Context(), s)
	if err != nil || len(paths) != 1 || s.Files[0].Local != paths[0] {
		t.Errorf("Download = %q, %v; Local %q", paths, err, s.Files[0].Local)
	}
}

func TestPinnedCommitNeedsNoNetworkTwice(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{shard1of1: parquet(5000, 'a')})
	c, _ := h.client()
	h.fetchOK(c, testID, "test", shard1of1) // by branch
	h.take()
	h.fetchOK(c, testID+"@"+testCommit, "test", shard1of1)
	if got := h.take(); len(got) != 0 {
		t.Errorf("a known commit makes the requests %v", got)
	}
}

func TestMovedBranchFetchesOnlyWhatChanged(t *testing.T) {
	a, b := "data/test-00000-of-00002.parquet", "data/test-00001-of-00002.parquet"
	h := newFakeHub(t, map[string][]byte{a: parquet(100, 'a'), b: parquet(100, 'b')})
	c, _ := h.client()
	h.fetchOK(c, testID, "test", a, b)
	h.take()
	h.files[b], h.commit = parquet(120, 'n'), strings.Repeat("9", 40)
	h.fetchOK(c, testID, "test", a, b)
	if got := h.take(); count(got, "cdn", "GET", a) != 0 || count(got, "cdn", "GET", b) != 1 {
		t.Errorf("requests %v, want a download of the second file only", got)
	}
	// The old commit is still served, from the same cache.
	paths, err := c.Fetch(t.Context(), testID+"@"+testCommit, "test")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(paths[1]); string(got) != string(parquet(100, 'b')) {
		t.Error("the old commit has the new file")
	}
}

func TestListingWithoutTreeUsesEntityTags(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{shard1of1: parquet(5000, 'a')})
	h.noTree = true
	c, _ := h.client()
	h.fetchOK(c, testID, "test", shard1of1)
	got := h.take()
	if count(got, "api", "HEAD", "/resolve/") != 2 || count(got, "cdn", "HEAD", "") != 0 {
		t.Errorf("requests %v, want HEAD along the hub's redirect but not at the storage", got)
	}
	h.commit = strings.Repeat("9", 40) // a new commit that leaves the file alone
	h.fetchOK(c, testID, "test", shard1of1)
	got = h.take()
	if count(got, "cdn", "GET", "") != 0 {
		t.Errorf("an unchanged file is downloaded again: %v", got)
	}
	last := got[len(got)-1]
	if want := `"` + sha(h.files[shard1of1]) + `"`; last.method != "HEAD" || last.header.Get("If-None-Match") != want {
		t.Errorf("last request %v, want HEAD with If-None-Match %s", last, want)
	}
}

func TestSmallFileFromTheHubItself(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{"test.parquet": parquet(40, 'a')})
	h.small = map[string]bool{"test.parquet": true}
	for _, noTree := range []bool{false, true} {
		h.noTree = noTree
		c, _ := h.client(func(o *Options) { o.CacheDir = t.TempDir() })
		h.fetchOK(c, testID, "test", "test.parquet")
		if count(h.take(), "cdn", "GET", "") != 0 {
			t.Error("a small file is looked for at the storage")
		}
	}
}

func TestConvertedDataset(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{"test.jsonl": []byte("{}"), "default/test/0.parquet": parquet(300, 'a'), "default/test/1.parquet": parquet(300, 'b')})
	hidden := h.files
	listing := "https://hub.invalid/api/datasets/" + testID + "/parquet/default/test/"
	h.converted = map[string]map[string][]string{"default": {"test": {listing + "0.parquet", listing + "1.parquet"}}}
	h.onAPI = func(w http.ResponseWriter, r *http.Request) bool {
		h.files = hidden
		if strings.Contains(r.URL.Path, "/tree/") {
			h.files = map[string][]byte{"test.jsonl": []byte("{}")}
		}
		return false
	}
	c, _ := h.client()
	s, err := c.Resolve(t.Context(), testID, "test")
	if err != nil {
		t.Fatal(err)
	}
	if !s.Converted || s.Commit != testCommit {
		t.Errorf("Converted %v, Commit %s", s.Converted, s.Commit)
	}
	h.fetchOK(c, testID, "test", "default/test/0.parquet", "default/test/1.parquet")
	h.take()
	h.fetchOK(c, testID, "test", "default/test/0.parquet", "default/test/1.parquet")
	if got := h.take(); len(got) != 1 {
		t.Errorf("a second fetch makes the requests %v", got)
	}

	_, err = c.Fetch(t.Context(), testID, "dev")
	wantError(t, err, ErrNotFound, "there are test")
	_, err = c.Fetch(t.Context(), testID+"@"+testCommit, "test")
	wantError(t, err, ErrNotFound, "converts only", testCommit)
	h.converted = nil
	_, err = c.Fetch(t.Context(), testID, "dev")
	wantError(t, err, ErrNotFound, "has not converted it")
}

func TestOffline(t *testing.T) {
	a, b := "data/test-00000-of-00002.parquet", "data/test-00001-of-00002.parquet"
	h := newFakeHub(t, map[string][]byte{a: parquet(100, 'a'), b: parquet(100, 'b')})
	online, _ := h.client()
	paths, err := online.Fetch(t.Context(), testID, "test")
	if err != nil {
		t.Fatal(err)
	}
	h.take()

	t.Setenv("HF_HUB_OFFLINE", "1")
	c, _ := h.client()
	h.fetchOK(c, testID, "test", a, b)
	h.fetchOK(c, testID+"@"+testCommit, "test", a, b)
	s, err := c.Resolve(t.Context(), testID, "test")
	if err != nil || s.Commit != testCommit || s.Files[0].SHA256 != sha(h.files[a]) {
		t.Errorf("Resolve = %+v, %v", s, err)
	}

	_, err = c.Fetch(t.Context(), testID, "dev")
	wantError(t, err, ErrOffline, testID, `"dev"`, "only the splits test", "HF_HUB_OFFLINE")
	_, err = c.Fetch(t.Context(), "owner/other", "test")
	wantError(t, err, ErrOffline, "owner/other", "nothing of this revision")
	_, err = c.Fetch(t.Context(), testID+"@v2", "test")
	wantError(t, err, ErrOffline, testID+"@v2", "nothing of this revision")

	if err := os.Truncate(paths[1], 7); err != nil {
		t.Fatal(err)
	}
	_, err = c.Fetch(t.Context(), testID, "test")
	wantError(t, err, ErrOffline, "1 of 2 files are missing", b)
	if got := h.take(); len(got) != 0 {
		t.Errorf("offline makes the requests %v", got)
	}

	t.Setenv("HF_HUB_OFFLINE", "0")
	c, _ = h.client()
	h.fetchOK(c, testID, "test", a, b) // and online mends the damage
}

func TestDamagedRecord(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{shard1of1: parquet(100, 'a')})
	c, _ := h.client()
	h.fetchOK(c, testID, "test", shard1of1)
	s, err := parseRequest(testID, "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.recordPath(s, "main"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	offline, _ := h.client(func(o *Options) { o.Offline = true })
	_, err = offline.Fetch(t.Context(), testID, "test")
	wantError(t, err, ErrOffline, "damaged", "run once online")
	h.fetchOK(c, testID, "test", shard1of1)
	h.fetchOK(offline, testID, "test", shard1of1)
}

func TestTwoClientsShareOneCache(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{shard1of1: parquet(1<<20, 'a')})
	var wg sync.WaitGroup
	for range 4 {
		c, _ := h.client()
		wg.Go(func() {
			if _, err := c.Fetch(t.Context(), testID, "test"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := count(h.take(), "cdn", "GET", ""); n != 1 {
		t.Errorf("%d downloads of one file", n)
	}
}

func TestEnvironment(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{shard1of1: parquet(100, 'a')})
	tests := map[string]func(t *testing.T){
		"HF_TOKEN": func(t *testing.T) { t.Setenv("HF_TOKEN", testToken) },
		"token file": func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(os.Getenv("HF_HOME"), "token"), []byte(testToken+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, set := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HF_HOME", t.TempDir())
			t.Setenv("HF_ENDPOINT", h.api.URL+"/")
			set(t)
			c := New(Options{CacheDir: t.TempDir()})
			h.fetchOK(c, testID, "test", shard1of1)
		})
	}
	if got := New(Options{}).endpoint.String(); got != DefaultEndpoint {
		t.Errorf("endpoint %s", got)
	}
	_, err := New(Options{Endpoint: "mirror.example"}).Fetch(t.Context(), testID, "test")
	wantError(t, err, nil, "mirror.example", "HF_ENDPOINT")
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	tests := []struct{ id, split, want string }{
		{"", "test", "not a dataset id"},
		{"a/b/c", "test", "not a dataset id"},
		{"../b", "test", "not a dataset id"},
		{"a/..", "test", "not a dataset id"},
		{"https://hub.example/datasets/a/b", "test", "owner/name"},
		{"a/b@", "test", "not a revision"},
		{"a/b@../../x", "test", "not a revision"},
		{"a/b", "", "not a split"},
		{"a/b", "..", "not a split"},
		{"a/b", "/test", "not a split"},
		{"a/b", "c/d/e", "not a split"},
	}
	c := New(Options{Endpoint: "http://127.0.0.1:1", CacheDir: t.TempDir()})
	for _, tt := range tests {
		_, err := c.Fetch(t.Context(), tt.id, tt.split)
		wantError(t, err, nil, tt.want)
	}
}

func TestCancelledFetch(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{shard1of1: parquet(100, 'a')})
	c, waits := h.client()
	ctx, cancel := context.WithCancel(t.Context())
	h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
		cancel()
		<-r.Context().Done()
		return true
	}
	_, err := c.Fetch(ctx, testID, "test")
	wantError(t, err, context.Canceled, testID)
	if len(waits.list) != 0 {
		t.Errorf("a cancelled fetch is tried again: %v", waits.list)
	}
}

func TestNotAHub(t *testing.T) {
	h := newFakeHub(t, nil)
	h.onAPI = func(w http.ResponseWriter, r *http.Request) bool {
		fmt.Fprint(w, "<html>")
		return true
	}
	c, _ := h.client()
	_, err := c.Fetch(t.Context(), testID, "test")
	wantError(t, err, nil, "HF_ENDPOINT")
}

// wantError checks that err is of a kind (nil: any) and says all the parts.
func wantError(t *testing.T, err, kind error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	if kind != nil && !errors.Is(err, kind) {
		t.Errorf("error %q is not %q", err, kind)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}
