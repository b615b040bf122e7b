package hub

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// cut answers the whole length but hangs up after n bytes.
func cut(w http.ResponseWriter, data []byte, n int, tag string) {
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if tag != "" {
		w.Header().Set("ETag", tag)
	}
	w.Write(data[:n])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func TestResumeAfterCut(t *testing.T) {
	data := parquet(100_000, 'a')
	tests := []struct {
		name      string
		tag       string // of the first, broken answer
		wantRange string // of the second request
		wantIf    string
	}{
		{"same file", `"storage-` + sha(data)[:8] + `"`, "bytes=40000-", `"storage-` + sha(data)[:8] + `"`},
		{"other tag: the server sends the whole file", `"old"`, "bytes=40000-", `"old"`},
		{"weak tag is not used", `W/"weak"`, "bytes=40000-", ""},
		{"no tag", "", "bytes=40000-", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newFakeHub(t, map[string][]byte{shard1of1: data})
			var n atomic.Int32
			h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
				if n.Add(1) == 1 {
					cut(w, data, 40_000, tt.tag)
				}
				return false
			}
			c, waits := h.client()
			h.fetchOK(c, testID, "test", shard1of1)
			var downloads []seen
			for _, r := range h.take() {
				if r.server == "cdn" {
					downloads = append(downloads, r)
				}
			}
			if len(downloads) != 2 || len(waits.list) != 1 {
				t.Fatalf("%d downloads, waits %v; want 2 and one wait", len(downloads), waits.list)
			}
			second := downloads[1].header
			if second.Get("Range") != tt.wantRange || second.Get("If-Range") != tt.wantIf {
				t.Errorf("Range %q, If-Range %q; want %q, %q", second.Get("Range"), second.Get("If-Range"), tt.wantRange, tt.wantIf)
			}
		})
	}
}

func TestResumeInALaterRun(t *testing.T) {
	data := parquet(100_000, 'a')
	h := newFakeHub(t, map[string][]byte{shard1of1: data})
	down := true
	h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case !down:
			return false
		case r.Header.Get("Range") == "":
			cut(w, data, 60_000, `"storage-`+sha(data)[:8]+`"`)
		}
		w.WriteHeader(http.StatusBadGateway)
		return true
	}
	c, waits := h.client()
	_, err := c.Fetch(t.Context(), testID, "test")
	wantError(t, err, nil, testID, shard1of1, "gave up after 5 tries", "502")
	if strings.Contains(err.Error(), "Signature") || strings.Contains(fmt.Sprint(err), "signed-secret") {
		t.Errorf("error shows a signed address: %v", err)
	}
	if len(waits.list) != 4 {
		t.Errorf("waits %v, want 4", waits.list)
	}
	down = false
	h.take()
	again, _ := h.client() // another process
	h.fetchOK(again, testID, "test", shard1of1)
	for _, r := range h.take() {
		if r.server == "cdn" && r.header.Get("Range") != "bytes=60000-" {
			t.Errorf("Range %q, want the rest only", r.header.Get("Range"))
		}
	}
}

func TestServersThatAreBadAtRanges(t *testing.T) {
	data := parquet(50_000, 'a')
	other := parquet(50_000, 'b')
	tests := map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"ignores Range": func(w http.ResponseWriter, r *http.Request) bool {
			w.Write(data)
			return true
		},
		"answers 416 to any Range": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Range") == "" {
				return false
			}
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return true
		},
		"sends another range": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Range") == "" {
				return false
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 10-%d/%d", len(data)-1, len(data)))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(data[10:])
			return true
		},
		"sends no Content-Range": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Range") == "" {
				return false
			}
			w.WriteHeader(http.StatusPartialContent)
			w.Write(data[20_000:])
			return true
		},
		"ignores If-Range and sends the end of another file": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Range") == "" {
				return false
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 20000-%d/%d", len(data)-1, len(data)))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(other[20_000:])
			return true
		},
	}
	for name, handle := range tests {
		t.Run(name, func(t *testing.T) {
			h := newFakeHub(t, map[string][]byte{shard1of1: data})
			var n atomic.Int32
			h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
				if n.Add(1) == 1 {
					cut(w, data, 20_000, `"x"`)
				}
				return handle(w, r)
			}
			c, _ := h.client()
			h.fetchOK(c, testID, "test", shard1of1)
		})
	}
}

// A mirror without tree, tags and sizes leaves only the content to go by.
func TestNothingKnownAboutAFile(t *testing.T) {
	data := parquet(50_000, 'a')
	h := newFakeHub(t, map[string][]byte{shard1of1: data})
	h.noTree = true
	var n atomic.Int32
	answer := data
	h.onAPI = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/resolve/") {
			return false
		}
		switch {
		case r.Method == http.MethodHead:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case n.Add(1) == 1:
			cut(w, data, 100, "")
		default:
			w.Write(answer)
		}
		return true
	}
	c, _ := h.client()
	h.fetchOK(c, testID, "test", shard1of1)
	for _, r := range h.take() {
		if r.header.Get("Range") != "" {
			t.Errorf("resumed without anything that shows that the halves belong together: %v", r)
		}
	}

	answer = []byte("<html>Please log in to the wireless network</html>")
	c, _ = h.client(func(o *Options) { o.CacheDir = t.TempDir() })
	_, err := c.Fetch(t.Context(), testID, "test")
	wantError(t, err, ErrCorrupt, testID, "no Parquet file")
}

func TestDamagedDownloads(t *testing.T) {
	data := parquet(5000, 'a')
	tests := []struct {
		name  string
		small bool
		wrong []byte
		want  string
	}{
		{"wrong SHA-256", false, parquet(5000, 'b'), "SHA-256"},
		{"wrong blob id", true, parquet(5000, 'b'), "git blob id"},
		{"too long", false, parquet(5001, 'a'), "5001 bytes arrived, expected 5000"},
		{"without end", false, parquet(50_000_000, 'a'), "5001 bytes arrived, expected 5000"},
		{"login page", false, []byte("<html>log in</html>"), "sends 19 bytes, expected 5000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newFakeHub(t, map[string][]byte{shard1of1: data})
			h.small = map[string]bool{shard1of1: tt.small}
			var n, bad atomic.Int32
			bad.Store(1)
			wrong := func(w http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(r.URL.Path, "/resolve/") && !tt.small || strings.HasPrefix(r.URL.Path, "/api/") || n.Add(1) > bad.Load() {
					return false
				}
				w.Write(tt.wrong)
				return true
			}
			h.onAPI, h.onCDN = wrong, wrong
			c, _ := h.client()
			h.fetchOK(c, testID, "test", shard1of1) // damaged once: tried again

			n.Store(0)
			bad.Store(100)
			c, _ = h.client(func(o *Options) { o.CacheDir = t.TempDir() })
			_, err := c.Fetch(t.Context(), testID, "test")
			wantError(t, err, ErrCorrupt, testID, shard1of1, tt.want)
			if n.Load() != 2 {
				t.Errorf("%d downloads of a source that is always wrong, want 2", n.Load())
			}
		})
	}
}

func TestFileOfAnotherCommit(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{shard1of1: parquet(100, 'a')})
	h.onAPI = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/revision/") {
			writeJSON(w, map[string]any{"sha": strings.Repeat("7", 40), "id": testID})
			return true
		}
		if strings.Contains(r.URL.Path, "/tree/") {
			h.serveTree(w, r)
			return true
		}
		return false
	}
	c, _ := h.client()
	_, err := c.Fetch(t.Context(), testID, "test")
	wantError(t, err, ErrCorrupt, testCommit, strings.Repeat("7", 40))
}

func TestSilentConnectionIsDropped(t *testing.T) {
	data := parquet(50_000, 'a')
	h := newFakeHub(t, map[string][]byte{shard1of1: data})
	var n atomic.Int32
	h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
		if n.Add(1) > 1 {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		w.Write(data[:1000])
		w.(http.Flusher).Flush()
		<-r.Context().Done() // until the client hangs up
		return true
	}
	c, _ := h.client()
	c.idle = 200 * time.Millisecond
	h.fetchOK(c, testID, "test", shard1of1)
	if n.Load() != 2 {
		t.Errorf("%d downloads, want 2", n.Load())
	}
}

func TestRetries(t *testing.T) {
	tests := []struct {
		name     string
		fail     int // how many answers fail
		status   int
		header   map[string]string
		wantWait time.Duration // the least first wait
		wantErr  string
	}{
		{"500 then fine", 2, 500, nil, firstWait / 2, ""},
		{"503 for ever", 99, 503, nil, firstWait / 2, "gave up after 5 tries"},
		{"429 with seconds", 1, 429, map[string]string{"Retry-After": "17"}, 17 * time.Second, ""},
		{"429 with a date", 1, 429, map[string]string{"Retry-After": time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)}, 30 * time.Second, ""},
		{"429 with RateLimit", 1, 429, map[string]string{"RateLimit": `"api";r=0;t=21`}, 21 * time.Second, ""},
		{"429 that asks for an hour", 1, 429, map[string]string{"Retry-After": "3600"}, 0, "wait 1h0m0s"},
		{"429 with nonsense", 1, 429, map[string]string{"Retry-After": "soon"}, firstWait / 2, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newFakeHub(t, map[string][]byte{shard1of1: parquet(100, 'a')})
			var n atomic.Int32
			h.onAPI = func(w http.ResponseWriter, r *http.Request) bool {
				if int(n.Add(1)) > tt.fail {
					return false
				}
				for k, v := range tt.header {
					w.Header().Set(k, v)
				}
				refuse(w, tt.status, "", "try later")
				return true
			}
			c, waits := h.client()
			_, err := c.Fetch(t.Context(), testID, "test")
			if tt.wantErr == "" {
				if err != nil {
					t.Fatal(err)
				}
				if len(waits.list) != tt.fail {
					t.Errorf("waits %v, want %d", waits.list, tt.fail)
				}
			} else {
				wantError(t, err, nil, testID, tt.wantErr, "try later")
			}
			if tt.wantWait > 0 && waits.list[0] < tt.wantWait {
				t.Errorf("first wait %v, want at least %v", waits.list[0], tt.wantWait)
			}
		})
	}
}

func TestBackoffGrowsWithinBounds(t *testing.T) {
	for n, d := range []time.Duration{firstWait, 2 * firstWait, 4 * firstWait, 8 * firstWait} {
		for range 100 {
			if got := backoff(n + 1); got < d/2 || got > d {
				t.Fatalf("backoff(%d) = %v, want %v to %v", n+1, got, d/2, d)
			}
		}
	}
	if got := backoff(40); got > longestWait {
		t.Errorf("backoff(40) = %v", got)
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name    string
		token   string
		status  int
		code    string
		message string
		kind    error
		want    []string
	}{
		{"401 without token", "", 401, "RepoNotFound", "Invalid username or password.", ErrDenied, []string{"does not exist, or it is private or gated", "set HF_TOKEN"}},
		{"401 with token", "t", 401, "", "", ErrDenied, []string{"HF_TOKEN is not accepted"}},
		{"401 gated", "", 401, "GatedRepo", "Access is restricted", ErrDenied, []string{"gated", "set HF_TOKEN", "/datasets/owner/name", "Access is restricted"}},
		{"403 gated", "t", 403, "GatedRepo", "", ErrDenied, []string{"ask for access at", "/datasets/owner/name"}},
		{"403", "t", 403, "", "", ErrDenied, []string{"may not read it"}},
		{"404 dataset", "t", 404, "RepoNotFound", "", ErrNotFound, []string{"no such dataset"}},
		{"404 revision", "t", 404, "RevisionNotFound", "", ErrNotFound, []string{"no such revision main"}},
		{"404 of a mirror", "t", 404, "", "", ErrNotFound, []string{"no such dataset or revision"}},
		{"400", "t", 400, "", "bad things", nil, []string{"400", "bad things"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newFakeHub(t, nil)
			h.onAPI = func(w http.ResponseWriter, r *http.Request) bool {
				refuse(w, tt.status, tt.code, tt.message)
				return true
			}
			c, waits := h.client(func(o *Options) { o.Token = tt.token })
			_, err := c.Fetch(t.Context(), testID, "test")
			wantError(t, err, tt.kind, append(tt.want, testID)...)
			if len(waits.list) != 0 {
				t.Errorf("a refusal is tried again: %v", waits.list)
			}
		})
	}
}

func TestUnreachableHubNamesTheCachedCopy(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{shard1of1: parquet(100, 'a')})
	c, _ := h.client()
	h.fetchOK(c, testID, "test", shard1of1)
	h.api.Close()
	_, err := c.Fetch(t.Context(), testID, "test")
	wantError(t, err, nil, testID, "no answer from", "HF_HUB_OFFLINE=1", testCommit)
}

func TestListingThatDoesNotEnd(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{shard1of1: parquet(100, 'a')})
	h.onAPI = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/tree/") {
			return false
		}
		w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="next"`, r.URL.String()))
		writeJSON(w, []any{})
		return true
	}
	c, _ := h.client()
	_, err := c.Fetch(t.Context(), testID, "test")
	wantError(t, err, nil, "does not end")
}

func TestRedirects(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{shard1of1: parquet(100, 'a')})
	h.onAPI = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.Contains(r.URL.Path, "old/name"): // renamed: relative, in the API too
			w.Header().Set("Location", strings.Replace(r.URL.RequestURI(), "old/name", testID, 1))
		case strings.Contains(r.URL.Path, "loop/name"):
			w.Header().Set("Location", r.URL.RequestURI())
		case strings.Contains(r.URL.Path, "nowhere/name"):
		default:
			return false
		}
		w.WriteHeader(http.StatusTemporaryRedirect)
		return true
	}
	c, _ := h.client()
	h.fetchOK(c, "old/name", "test", shard1of1)
	_, err := c.Fetch(t.Context(), "loop/name", "test")
	wantError(t, err, nil, "loop/name", "redirects")
	_, err = c.Fetch(t.Context(), "nowhere/name", "test")
	wantError(t, err, nil, "nowhere/name", "redirects to nowhere")
}

func TestNoRedirectFromHTTPSToHTTP(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("reached: %s", r.URL)
	}))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer secure.Close()
	c := New(Options{Endpoint: secure.URL, Token: testToken, Client: secure.Client(), CacheDir: t.TempDir()})
	_, err := c.Fetch(t.Context(), testID, "test")
	wantError(t, err, nil, "not encrypted")
}

func TestUntrustedCertificateIsNotTriedAgain(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	h := newFakeHub(t, nil)
	c, waits := h.client(func(o *Options) { o.Endpoint = secure.URL })
	_, err := c.Fetch(t.Context(), testID, "test")
	wantError(t, err, nil, "certificate")
	if len(waits.list) != 0 {
		t.Errorf("waits %v", waits.list)
	}
}

func TestTokenStaysHome(t *testing.T) {
	c := New(Options{Endpoint: "https://hub.example/base", CacheDir: t.TempDir()})
	tests := map[string]bool{
		"https://hub.example/x":      true,
		"https://HUB.example:443/x":  true,
		"http://hub.example/x":       false,
		"https://hub.example:8443/x": false,
		"https://cdn.hub.example/x":  false, // net/http would send it here
		"https://evil.example/x":     false,
	}
	for address, want := range tests {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.isHome(u); got != want {
			t.Errorf("isHome(%s) = %v, want %v", address, got, want)
		}
	}
}

// An expired signature of the storage is no refusal: the hub signs again.
func TestStorageRefusalIsTriedAgain(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{shard1of1: parquet(100, 'a')})
	var n atomic.Int32
	h.onCDN = func(w http.ResponseWriter, r *http.Request) bool {
		if n.Add(1) > 1 {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	c, _ := h.client()
	h.fetchOK(c, testID, "test", shard1of1)

	n.Store(-100)
	c, _ = h.client(func(o *Options) { o.CacheDir = t.TempDir() })
	_, err := c.Fetch(t.Context(), testID, "test")
	wantError(t, err, nil, "gave up", "403")
	if errors.Is(err, ErrDenied) {
		t.Errorf("a refusal of the storage is taken for one of the hub: %v", err)
	}
}
