package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	testID     = "owner/name"
	testToken  = "hf_secret"
	testCommit = "0123456789abcdef0123456789abcdef01234567"
)

// fakeHub behaves like the hub: an API and resolve addresses on one server,
// large files on a second one, the storage, that no token may reach.
type fakeHub struct {
	t        *testing.T
	api, cdn *httptest.Server

	mu       sync.Mutex
	requests []seen

	commit    string
	files     map[string][]byte
	small     map[string]bool // files that are not in large file storage
	card      any
	perPage   int
	noTree    bool // a mirror that only names the siblings
	converted map[string]map[string][]string

	// Called first; true means that the request is answered.
	onAPI, onCDN func(w http.ResponseWriter, r *http.Request) bool
}

// seen is one request as it arrived.
type seen struct {
	server, method, path string
	header               http.Header
}

func newFakeHub(t *testing.T, files map[string][]byte) *fakeHub {
	t.Helper()
	for _, name := range []string{"HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("EVALRUN_CACHE", t.TempDir())
	h := &fakeHub{t: t, commit: testCommit, files: files, perPage: 1000}
	h.api = httptest.NewServer(h.record("api", h.serveAPI))
	h.cdn = httptest.NewServer(h.record("cdn", h.serveCDN))
	t.Cleanup(h.api.Close)
	t.Cleanup(h.cdn.Close)
	return h
}

// client returns a client of the fake hub that does not really wait, and the
// waits it would have made.
func (h *fakeHub) client(change ...func(*Options)) (*Client, *waits) {
	o := Options{Endpoint: h.api.URL, Token: testToken, Log: func(msg string) { h.t.Log(msg) }}
	for _, f := range change {
		f(&o)
	}
	c := New(o)
	w := &waits{}
	c.sleep = w.sleep
	return c, w
}

type waits struct {
	mu   sync.Mutex
	list []time.Duration
}

func (w *waits) sleep(ctx context.Context, d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, d)
	return context.Cause(ctx)
}

func (h *fakeHub) record(server string, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.requests = append(h.requests, seen{server, r.Method, r.URL.EscapedPath(), r.Header.Clone()})
		h.mu.Unlock()
		if server == "cdn" && r.Header.Get("Authorization") != "" {
			h.t.Errorf("the token reached the storage server: %s %s", r.Method, r.URL)
		}
		next(w, r)
	})
}

// take returns the requests since the last call.
func (h *fakeHub) take() []seen {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.requests
	h.requests = nil
	return list
}

func (h *fakeHub) serveAPI(w http.ResponseWriter, r *http.Request) {
	if h.onAPI != nil && h.onAPI(w, r) {
		return
	}
	if got := r.Header.Get("Authorization"); got != "Bearer "+testToken {
		refuse(w, http.StatusUnauthorized, "RepoNotFound", "Invalid username or password.")
		return
	}
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/api/datasets/"+testID); ok {
		revision := rest[strings.LastIndex(rest, "/")+1:]
		switch {
		case rest == "/parquet":
			h.serveConverted(w)
		case strings.HasPrefix(rest, "/parquet/"):
			w.Header().Set("Location", "/datasets/"+testID+"/resolve/refs%2Fconvert%2Fparquet"+rest[len("/parquet"):])
			w.WriteHeader(http.StatusFound)
		case revision != "main" && revision != h.commit:
			refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
		case strings.HasPrefix(rest, "/revision/"):
			h.serveInfo(w)
		case strings.HasPrefix(rest, "/tree/") && !h.noTree:
			h.serveTree(w, r)
		default:
			refuse(w, http.StatusNotFound, "", "")
		}
		return
	}
	if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/datasets/"+testID+"/resolve/"); ok {
		revision, name, _ := strings.Cut(rest, "/")
		h.serveFile(w, r, revision, name)
		return
	}
	refuse(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
}

func (h *fakeHub) serveInfo(w http.ResponseWriter) {
	type sibling struct {
		Name string `json:"rfilename"`
	}
	var siblings []sibling
	for _, name := range h.names() {
		siblings = append(siblings, sibling{name})
	}
	writeJSON(w, map[string]any{"id": testID, "sha": h.commit, "siblings": siblings, "cardData": h.card})
}

// serveTree answers in pages, as the hub does with a cursor.
func (h *fakeHub) serveTree(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("recursive") != "true" {
		h.t.Errorf("the tree is asked for without recursive=true: %s", r.URL)
	}
	list := []map[string]any{{"type": "directory", "path": "data", "oid": "x", "size": 0}}
	for _, name := range h.names() {
		data := h.files[name]
		e := map[string]any{"type": "file", "path": name, "size": len(data), "oid": blobID(data)}
		if !h.small[name] {
			e["oid"] = blobID([]byte("pointer"))
			e["lfs"] = map[string]any{"oid": sha(data), "size": len(data), "pointerSize": 130}
		}
		list = append(list, e)
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	to := min(from+h.perPage, len(list))
	if to < len(list) {
		next := *r.URL
		next.RawQuery = url.Values{"recursive": {"true"}, "cursor": {strconv.Itoa(to)}}.Encode()
		// The address is the public one, as behind a mirror.
		w.Header().Set("Link", fmt.Sprintf(`<https://hub.invalid%s>; rel="next"`, next.String()))
	}
	writeJSON(w, list[from:to])
}

func (h *fakeHub) serveConverted(w http.ResponseWriter) {
	if h.converted == nil {
		refuse(w, http.StatusNotFound, "", "The dataset viewer doesn't support this dataset.")
		return
	}
	writeJSON(w, h.converted)
}

// serveFile answers small files itself and sends others to the storage: first
// by a relative redirect, as for a renamed dataset, then by a signed address.
func (h *fakeHub) serveFile(w http.ResponseWriter, r *http.Request, revision, name string) {
	data, ok := h.files[name]
	if !ok {
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	w.Header().Set("X-Repo-Commit", h.commit)
	if revision == "refs%2Fconvert%2Fparquet" {
		w.Header().Set("X-Repo-Commit", strings.Repeat("c", 40))
	}
	if h.small[name] {
		w.Header().Set("ETag", `W/"`+blobID(data)+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
		return
	}
	w.Header().Set("X-Linked-Etag", `"`+sha(data)+`"`)
	w.Header().Set("X-Linked-Size", strconv.Itoa(len(data)))
	if r.Header.Get("If-None-Match") == `"`+sha(data)+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if r.URL.Query().Get("hop") == "" {
		w.Header().Set("Location", r.URL.EscapedPath()+"?hop=1")
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	}
	w.Header().Set("Location", h.cdn.URL+"/blob/"+name+"?Signature=signed-secret")
	w.WriteHeader(http.StatusFound)
}

func (h *fakeHub) serveCDN(w http.ResponseWriter, r *http.Request) {
	if h.onCDN != nil && h.onCDN(w, r) {
		return
	}
	if r.Method != http.MethodGet {
		w.WriteHeader(http.StatusForbidden) // addresses are signed for GET
		return
	}
	data, ok := h.files[strings.TrimPrefix(r.URL.Path, "/blob/")]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("ETag", `"storage-`+sha(data)[:8]+`"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
}

func (h *fakeHub) names() []string { return slices.Sorted(maps.Keys(h.files)) }

func refuse(w http.ResponseWriter, status int, code, message string) {
	if code != "" {
		w.Header().Set("X-Error-Code", code)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"error": message})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func blobID(data []byte) string {
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(data)), data...))
	return hex.EncodeToString(sum[:])
}

// parquet is content that passes for a Parquet file.
func parquet(size int, letter byte) []byte {
	data := []byte(strings.Repeat(string(letter), size))
	copy(data, "PAR1")
	copy(data[size-4:], "PAR1")
	return data
}

// fetchOK fetches the split and compares the files with what the hub has.
func (h *fakeHub) fetchOK(c *Client, id, split string, want ...string) {
	h.t.Helper()
	paths, err := c.Fetch(h.t.Context(), id, split)
	if err != nil {
		h.t.Fatalf("Fetch(%s, %s): %v", id, split, err)
	}
	if len(paths) != len(want) {
		h.t.Fatalf("Fetch(%s, %s) = %q, want %q", id, split, paths, want)
	}
	for i, name := range want {
		got, err := os.ReadFile(paths[i])
		if err != nil || string(got) != string(h.files[name]) {
			h.t.Errorf("file %d: %d bytes, %v; want those of %s (%d)", i, len(got), err, name, len(h.files[name]))
		}
		if !strings.HasSuffix(paths[i], ".parquet") {
			h.t.Errorf("%s does not end in .parquet", paths[i])
		}
	}
}

// count says how many requests match.
func count(list []seen, server, method, part string) int {
	n := 0
	for _, s := range list {
		if s.server == server && s.method == method && strings.Contains(s.path, part) {
			n++
		}
	}
	return n
}
