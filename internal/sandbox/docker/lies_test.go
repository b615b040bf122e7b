package docker

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/sandbox"
)

// liar is a daemon that greets as one does and then answers as it likes.
func liar(t *testing.T, answer http.HandlerFunc) (c *Client, removals *atomic.Int32) {
	t.Helper()
	removals = new(atomic.Int32)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.43")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			w.Write([]byte("OK"))
		case strings.HasSuffix(r.URL.Path, "/version"):
			w.Write([]byte(`{"Version":"1","ApiVersion":"1.43","MinAPIVersion":"1.24"}`))
		case strings.HasSuffix(r.URL.Path, "/events"):
			<-r.Context().Done()
		default:
			if r.Method == http.MethodDelete {
				removals.Add(1)
			}
			answer(w, r)
		}
	}))
	socket := filepath.Join(t.TempDir(), "docker.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	if c, err = ConnectTo(t.Context(), "unix://"+socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the client first: it listens to events
		c.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return c, removals
}

// Whatever a daemon answers, it is the engine's failure: no sandbox, no verdict, no
// panic and no hang.
func TestDaemonLies(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a page":         func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>It works!</html>")) },
		"half an answer": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"Id":"0123`)) },
		"nothing":        func(http.ResponseWriter, *http.Request) {},
		"no id":          func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{}`)) },
		"null":           func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`null`)) },
		"a list":         func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`[{"Id":7}]`)) },
		"its own failure": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"message":"boom"}`, http.StatusInternalServerError)
		},
		"a failure in bytes": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "\xff\x00", http.StatusTeapot) },
		"an end": func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				conn.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := liar(t, answer)
			c.patience = 2 * time.Second
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			box, err := c.Start(ctx, sandbox.Spec{Image: "x", Expiry: time.Now().Add(time.Hour)})
			if !isEngineError(err) || box != nil {
				t.Errorf("Start: %v, %v; want an *EngineError", box, err)
			}
			if ctx.Err() != nil {
				t.Error("Start hangs")
			}
		})
	}
}

// A list of containers that names what is not ours, or names it wrongly, removes
// nothing.
func TestDaemonListsOthers(t *testing.T) {
	c, removals := liar(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`[{"Id":"a","State":"exited"},{"Id":"b","State":"exited","Labels":{"evalrun.owner":"garbage"}},{"Id":"c","Labels":{"evalrun.owner":"","evalrun.expiry":"soon"}},{}]`))
	})
	if n, err := c.Sweep(t.Context()); n != 0 || err != nil || removals.Load() != 0 {
		t.Errorf("swept %d, %v, with %d removals", n, err, removals.Load())
	}
}

// A daemon that is slow is waited for; one that is slower than anybody's patience does
// not answer in time.
func TestDaemonIsSlow(t *testing.T) {
	var pause atomic.Int64
	c, _ := liar(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(time.Duration(pause.Load())):
		case <-r.Context().Done():
		}
		w.Write([]byte(`{"Id":"sha256:0123"}`))
	})
	c.patience = time.Second
	pause.Store(int64(200 * time.Millisecond))
	if id, ok, err := c.Image(t.Context(), "x"); id != "sha256:0123" || !ok || err != nil {
		t.Errorf("slow: %q, %v, %v", id, ok, err)
	}
	pause.Store(int64(time.Minute))
	if _, _, err := c.Image(t.Context(), "x"); cause.Of(err) != cause.Timeout {
		t.Errorf("too slow: %v (%s)", err, cause.Of(err))
	}
}
