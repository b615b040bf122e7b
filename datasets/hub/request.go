package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	maxRedirects = 10
	maxTries     = 5
	firstWait    = 500 * time.Millisecond
	longestWait  = 30 * time.Second
	// patience bounds what a server may ask for with Retry-After.
	patience = 5 * time.Minute
)

var errStalled = errors.New("the connection went silent")

// transient marks a failure that may be gone the next time.
type transient struct {
	err      error
	wait     time.Duration // what the server asked for; 0 if nothing
	progress bool          // something was gained, so the count of tries starts anew
}

func (t *transient) Error() string { return t.err.Error() }
func (t *transient) Unwrap() error { return t.err }

// statusError is an answer that is not the one hoped for.
type statusError struct {
	status  int
	host    string
	away    bool // answered by another host than the hub, after a redirect
	code    string
	message string
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("%s answered %d %s", e.host, e.status, http.StatusText(e.status))
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

// reply is the last answer of a chain of redirects, with what the hub said
// about the file on the way there.
type reply struct {
	*http.Response
	away   bool
	commit string // X-Repo-Commit
	linked string // X-Linked-Etag, bare
	size   int64  // X-Linked-Size, -1 if not told
}

// request is one question to the hub.
type request struct {
	method string
	url    *url.URL
	header http.Header
	// stay stops at a redirect to another host instead of following it.
	stay bool
}

// send asks once and follows redirects. The token goes to the endpoint only:
// scheme, host and port must be the same. The caller closes the body. Failures
// of the network are transient; a status is not judged here.
func (c *Client) send(ctx context.Context, r request) (*reply, error) {
	rep := &reply{size: -1}
	u := r.url
	for range maxRedirects {
		resp, err := c.roundTrip(ctx, r, u)
		if err != nil {
			return nil, err
		}
		rep.Response, rep.away = resp, !c.isHome(u)
		if !rep.away {
			rep.note(resp.Header)
		}
		if !isRedirect(resp.StatusCode) {
			return rep, nil
		}
		next, err := resp.Location()
		if err != nil {
			resp.Body.Close()
			return nil, fmt.Errorf("%s redirects to nowhere: %w", shown(u), err)
		}
		if r.stay && !c.isHome(next) {
			return rep, nil
		}
		resp.Body.Close()
		if u.Scheme == "https" && next.Scheme != "https" {
			return nil, fmt.Errorf("%s redirects to %s, which is not encrypted; not followed", shown(u), shown(next))
		}
		u = next
	}
	return nil, fmt.Errorf("%s: more than %d redirects", shown(r.url), maxRedirects)
}

func (c *Client) roundTrip(ctx context.Context, r request, u *url.URL) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(c.idle, func() { cancel(errStalled) })
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), nil)
	if err != nil {
		timer.Stop()
		cancel(nil)
		return nil, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", "evalrun")
	if c.token != "" && c.isHome(u) {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		timer.Stop()
		defer cancel(nil)
		return nil, networkError(ctx, u, err)
	}
	resp.Body = &watchedBody{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, timer: timer, idle: c.idle}
	return resp, nil
}

// networkError describes a request that got no answer. The URL that net/http
// puts in its errors may carry a signature in its query, so it is left out.
func networkError(ctx context.Context, u *url.URL, err error) error {
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		err = ue.Err
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	err = fmt.Errorf("no answer from %s: %w", shown(u), err)
	if cert := (*tls.CertificateVerificationError)(nil); errors.As(err, &cert) {
		return err
	}
	return &transient{err: err}
}

// watchedBody gives up on a connection that stays silent too long.
type watchedBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.timer.Reset(b.idle)
	if err != nil && err != io.EOF && context.Cause(b.ctx) != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

func (r *reply) note(h http.Header) {
	if v := h.Get("X-Repo-Commit"); v != "" {
		r.commit = v
	}
	if v := h.Get("X-Linked-Etag"); v != "" {
		r.linked = bareETag(v)
	}
	if n, err := strconv.ParseInt(h.Get("X-Linked-Size"), 10, 64); err == nil && n >= 0 {
		r.size = n
	}
}

// failure turns the status of r into an error, and reads what the server says
// about it. Answers of a storage server are transient throughout: its address
// was signed for a short time, and the hub gives a new one.
func (r *reply) failure() error {
	e := &statusError{
		status:  r.StatusCode,
		host:    r.Request.URL.Host,
		away:    r.away,
		code:    r.Header.Get("X-Error-Code"),
		message: errorMessage(r),
	}
	s := r.StatusCode
	if s >= 500 || s == http.StatusTooManyRequests || s == http.StatusRequestTimeout || s == http.StatusTooEarly || r.away {
		return &transient{err: e, wait: retryAfter(r.Header)}
	}
	return e
}

// errorMessage finds the reason in a header or a JSON body; HTML pages say
// nothing.
func errorMessage(r *reply) string {
	text := r.Header.Get("X-Error-Message")
	if text == "" && strings.Contains(r.Header.Get("Content-Type"), "json") {
		var body struct{ Error string }
		if decodeJSON(io.LimitReader(r.Body, 16<<10), &body) == nil {
			text = body.Error
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

var rateLimitReset = regexp.MustCompile(`;\s*t=(\d+)`)

// retryAfter reads how long the server asks to wait: Retry-After in seconds or
// as a date, else the reset time of the RateLimit header.
func retryAfter(h http.Header) time.Duration {
	seconds := h.Get("Retry-After")
	if when, err := http.ParseTime(seconds); err == nil {
		return max(time.Until(when), 0)
	}
	if seconds == "" {
		if m := rateLimitReset.FindStringSubmatch(h.Get("RateLimit")); m != nil {
			seconds = m[1]
		}
	}
	n, err := strconv.ParseInt(seconds, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// retry calls try until it succeeds, fails for good, or the tries are used up.
func (c *Client) retry(ctx context.Context, what string, try func() error) error {
	for n := 1; ; n++ {
		err := try()
		var t *transient
		if err == nil || !errors.As(err, &t) || ctx.Err() != nil {
			return err
		}
		if t.progress {
			n = 1
		}
		if n == maxTries {
			return fmt.Errorf("gave up after %d tries: %w", n, err)
		}
		if t.wait > patience {
			return fmt.Errorf("the server asks to wait %v before the next try; try again then: %w", t.wait, err)
		}
		wait := max(backoff(n), t.wait)
		c.log(fmt.Sprintf("hub: %s: %v; next try in %v", what, err, wait.Round(time.Millisecond)))
		if stopped := c.sleep(ctx, wait); stopped != nil {
			return fmt.Errorf("%w, while waiting to try again after: %v", stopped, err)
		}
	}
}

// backoff doubles with each try; the random half keeps many clients that
// failed together from coming back together.
func backoff(n int) time.Duration {
	d := longestWait
	if n < 10 { // beyond, the shift may overflow
		d = min(firstWait<<(n-1), longestWait)
	}
	return d/2 + rand.N(d/2+1)
}

// isHome reports whether u is on the hub itself.
func (c *Client) isHome(u *url.URL) bool {
	return u.Scheme == c.endpoint.Scheme && hostPort(u) == hostPort(c.endpoint)
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// shown is an address fit for a message: without query and user.
func shown(u *url.URL) string { return u.Scheme + "://" + u.Host + u.Path }

// bareETag strips the weakness mark and the quotes of an entity tag.
func bareETag(v string) string {
	return strings.Trim(strings.TrimPrefix(strings.TrimSpace(v), "W/"), `"`)
}
