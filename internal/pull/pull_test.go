package pull

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestClassifyPull(t *testing.T) {
	tests := []struct {
		text string
		want kind
	}{
		{"toomanyrequests: You have reached your pull rate limit. You may increase the limit by authenticating", limited},
		{"error parsing HTTP 429 response body: unexpected end of JSON input: \"\"", limited},
		{"received unexpected HTTP status: 429 Too Many Requests", limited},
		{"manifest for swebench/sweb.eval:latest not found: manifest unknown: manifest unknown", final},
		{"manifest for x@sha256:aa429bb429cc not found: manifest unknown", final},
		{"manifest for 127.0.0.1:429/x@sha256:429 not found", final},
		{"pull access denied for x, repository does not exist or may require 'docker login'", final},
		{"Head \"https://r/v2/x/manifests/l\": unauthorized: authentication required", final},
		{"Get \"https://r/v2/x\": no basic auth credentials", final},
		{"no matching manifest for linux/arm64 in the manifest list entries", final},
		{"invalid reference format", final},
		{"received unexpected HTTP status: 503 Service Unavailable", again},
		{"net/http: TLS handshake timeout", again},
		{"dial tcp: lookup r: no such host", again},
		{"unexpected EOF", again},
		{"read tcp 1.2.3.4:42900->5.6.7.8:443: connection reset by peer", again},
	}
	for _, tt := range tests {
		if got := classify(errors.New(tt.text)); got != tt.want {
			t.Errorf("%q: %d, want %d", tt.text, got, tt.want)
		}
	}
}

// failures is a pull that fails in the given ways and then works.
func failures(texts ...string) func() error {
	return func() error {
		if len(texts) == 0 {
			return nil
		}
		err := errors.New(texts[0])
		texts = texts[1:]
		return err
	}
}

func TestPullBackOff(t *testing.T) {
	tests := []struct {
		name  string
		fails []string
		waits []time.Duration // without the random part
		err   string
	}{
		{name: "at once"},
		{name: "broken connections", fails: []string{"EOF", "EOF", "EOF"}, waits: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}},
		{name: "rate limit", fails: []string{"toomanyrequests", "toomanyrequests"}, waits: []time.Duration{time.Minute, 2 * time.Minute}},
		{name: "mixed", fails: []string{"EOF", "HTTP 429", "EOF"}, waits: []time.Duration{time.Second, time.Minute, 2 * time.Second}},
		{name: "missing", fails: []string{"manifest unknown", "never reached"}, err: "pull r (try 1 of 4): manifest unknown"},
		{name: "refused", fails: []string{"unauthorized"}, err: "pull r (try 1 of 4): unauthorized; log in with `docker login` if the image is private"},
		{name: "given up", fails: []string{"EOF", "EOF", "EOF", "EOF"}, waits: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, err: "pull r (try 4 of 4): EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var waits []time.Duration
			p := Policy{Tries: 4, First: time.Second, Limited: time.Minute, Wait: func(_ context.Context, d time.Duration) error {
				waits = append(waits, d)
				return nil
			}}
			err := p.Run(context.Background(), "r", failures(tt.fails...))
			if got := fmt.Sprint(err); tt.err == "" && err != nil || tt.err != "" && got != tt.err {
				t.Errorf("error %q, want %q", got, tt.err)
			}
			if len(waits) != len(tt.waits) {
				t.Fatalf("waited %v, want about %v", waits, tt.waits)
			}
			for i, d := range tt.waits {
				if waits[i] < d || waits[i] > d+d/4+1 {
					t.Errorf("wait %d is %v, want %v and up to a quarter more", i+1, waits[i], d)
				}
			}
		})
	}
}

func TestPullInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	stopped := errors.New("stopped")
	p := Policy{Tries: 4, First: time.Hour, Limited: time.Hour, Wait: wait}
	err := p.Run(ctx, "r", func() error {
		time.AfterFunc(10*time.Millisecond, func() { cancel(stopped) })
		return errors.New("EOF")
	})
	if !errors.Is(err, stopped) {
		t.Errorf("the error is %v, want the cause of the interruption", err)
	}
}
