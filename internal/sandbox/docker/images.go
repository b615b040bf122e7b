package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// Image returns the digest of an image in the daemon's store.
func (c *Client) Image(ctx context.Context, ref string) (string, bool, error) {
	info, err := c.api.ImageInspect(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("look up image %s: %w", ref, shortError(err))
	}
	return info.ID, true, nil
}

// ImageEnv returns the environment an image sets for its processes.
func (c *Client) ImageEnv(ctx context.Context, ref string) ([]string, error) {
	info, err := c.api.ImageInspect(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("look up image %s: %w", ref, shortError(err))
	}
	if info.Config == nil {
		return nil, nil
	}
	return info.Config.Env, nil
}

// RepoDigest returns the digest an image was pulled by, or "".
func (c *Client) RepoDigest(ctx context.Context, ref string) string {
	info, err := c.api.ImageInspect(ctx, ref)
	if err != nil {
		return ""
	}
	for _, d := range info.RepoDigests {
		if _, digest, ok := strings.Cut(d, "@"); ok {
			return digest
		}
	}
	return ""
}

// PullPolicy bounds the tries of a pull. Wait is replaced in tests.
type PullPolicy struct {
	Tries     int
	First     time.Duration // wait after the first failure, doubled each time
	RateLimit time.Duration // wait after a 429, doubled each time
	Wait      func(context.Context, time.Duration) error
}

// DefaultPull is how Pull retries.
var DefaultPull = PullPolicy{Tries: 5, First: 2 * time.Second, RateLimit: 30 * time.Second, Wait: wait}

// Pull fetches an image, retrying what may pass: a busy registry, a broken
// connection. A missing image or a refused login fails at once.
func (c *Client) Pull(ctx context.Context, ref string) error {
	return c.PullWith(ctx, ref, DefaultPull)
}

// PullWith is Pull under another policy.
func (c *Client) PullWith(ctx context.Context, ref string, p PullPolicy) error {
	pause, limited := p.First, p.RateLimit
	for try := 1; ; try++ {
		err := c.pullOnce(ctx, ref)
		if err == nil || ctx.Err() != nil {
			return err
		}
		kind := classifyPull(err)
		if kind == pullFinal || try >= p.Tries {
			return fmt.Errorf("pull %s (try %d of %d): %w%s", ref, try, p.Tries, err, pullAdvice(err))
		}
		d := pause
		if kind == pullLimited {
			d, limited = limited, limited*2
		} else {
			pause *= 2
		}
		// Workers that failed together must not come back together.
		if err := p.Wait(ctx, d+rand.N(d/4+1)); err != nil {
			return err
		}
	}
}

type pullKind int

const (
	pullFinal pullKind = iota
	pullRetry
	pullLimited
)

func classifyPull(err error) pullKind {
	text := strings.ToLower(err.Error())
	for _, s := range []string{"toomanyrequests", "429", "rate limit"} {
		if strings.Contains(text, s) {
			return pullLimited
		}
	}
	for _, s := range []string{"not found", "manifest unknown", "denied", "unauthorized", "invalid reference", "no matching manifest", "no basic auth"} {
		if strings.Contains(text, s) {
			return pullFinal
		}
	}
	return pullRetry
}

func pullAdvice(err error) string {
	text := strings.ToLower(err.Error())
	switch {
	case strings.Contains(text, "no such host"), strings.Contains(text, "dial tcp"):
		return "; the registry cannot be reached: build the image here instead (--images build with --repo-mirror), or give a mirror with --namespace"
	case classifyPull(err) == pullLimited:
		return "; the registry limits pulls: log in with `docker login`, or use a mirror with --namespace"
	case strings.Contains(text, "denied"), strings.Contains(text, "unauthorized"):
		return "; log in with `docker login` if the image is private"
	}
	return ""
}

func (c *Client) pullOnce(ctx context.Context, ref string) error {
	opts := image.PullOptions{RegistryAuth: registryAuth(ref)}
	body, err := c.api.ImagePull(ctx, ref, opts)
	if err != nil {
		return err
	}
	defer body.Close()
	// The stream reports failures in its messages, under status 200.
	for dec := json.NewDecoder(body); ; {
		var m struct {
			Error string `json:"error"`
		}
		switch err := dec.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Error != "":
			return errors.New(m.Error)
		}
	}
}

// registryAuth finds the login of a registry where docker keeps it.
func registryAuth(ref string) string {
	r, err := name.ParseReference(ref)
	if err != nil {
		return ""
	}
	auth, err := authn.DefaultKeychain.Resolve(r.Context())
	if err != nil || auth == authn.Anonymous {
		return ""
	}
	cfg, err := auth.Authorization()
	if err != nil {
		return ""
	}
	data, err := json.Marshal(registry.AuthConfig{
		Username: cfg.Username, Password: cfg.Password, IdentityToken: cfg.IdentityToken, RegistryToken: cfg.RegistryToken,
	})
	if err != nil {
		return ""
	}
	return base64.URLEncoding.EncodeToString(data)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
