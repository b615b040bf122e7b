package observe

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

//go:embed status.html
var statusText string

var statusPage = template.Must(template.New("status").Funcs(template.FuncMap{
	"clock": func(s float64) string { return time.Duration(s * float64(time.Second)).Round(time.Second).String() },
	"value": func(s *float64) float64 { return *s },
}).Parse(statusText))

// Handler serves the status page, /status.json and /metrics.
func (w *Watch) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(w.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /status.json", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		// Whoever asked is gone if it cannot be written.
		_ = json.NewEncoder(out).Encode(w.Status())
	})
	mux.HandleFunc("GET /{$}", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/html; charset=utf-8")
		out.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_ = statusPage.Execute(out, w.Status())
	})
	return mux
}

// Address is where to listen: a port alone, or one without a host, is on this
// machine only.
func Address(addr string) (string, error) {
	if addr != "" && strings.Trim(addr, "0123456789") == "" {
		addr = ":" + addr
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%q: want a port such as 9464, or HOST:PORT: %w", addr, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// Serve listens at an address as Address reads it, until stop is called.
func (w *Watch) Serve(ctx context.Context, addr string) (url string, stop func(), err error) {
	if addr, err = Address(addr); err != nil {
		return "", nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: w.Handler(), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			w.o.Log.Error("the status page ended", "error", err)
		}
	}()
	return "http://" + listener.Addr().String() + "/", func() { server.Close(); <-done }, nil
}
