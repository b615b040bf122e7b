package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
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

// Pull fetches an image, retrying what may pass: a busy registry, a broken
// connection. A missing image or a refused login fails at once.
func (c *Client) Pull(ctx context.Context, ref string) error {
	p := pullPolicy{tries: 5, first: 2 * time.Second, limited: 30 * time.Second, wait: wait}
	return p.run(ctx, ref, func() error { return c.pullOnce(ctx, ref) })
}

// pullPolicy bounds the tries of a pull.
type pullPolicy struct {
	tries   int
	first   time.Duration // wait after the first failure, doubled each time
	limited time.Duration // wait after the registry's first "too many requests", likewise
	wait    func(context.Context, time.Duration) error
}

func (p pullPolicy) run(ctx context.Context, ref string, pull func() error) error {
	for try := 1; ; try++ {
		err := pull()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("pull %s: %w", ref, context.Cause(ctx))
		}
		kind := classifyPull(err)
		if kind == pullFinal || try >= p.tries {
			return fmt.Errorf("pull %s (try %d of %d): %w%s", ref, try, p.tries, err, pullAdvice(err))
		}
		pause := &p.first
		if kind == pullLimited {
			pause = &p.limited
		}
		// Workers that failed together must not come back together.
		if err := p.wait(ctx, *pause+rand.N(*pause/4+1)); err != nil {
			return fmt.Errorf("pull %s: %w", ref, err)
		}
		*pause *= 2
	}
}

type pullKind int

const (
	pullFinal pullKind = iota
	pullRetry
	pullLimited
)

// status429 finds the status 429 in a registry's words, and not in a digest.
var status429 = regexp.MustCompile(`(^|[^0-9a-z:@])429($|[^0-9a-z])`)

func classifyPull(err error) pullKind {
	text := strings.ToLower(err.Error())
	if strings.Contains(text, "toomanyrequests") || strings.Contains(text, "too many requests") || strings.Contains(text, "rate limit") || status429.MatchString(text) {
		return pullLimited
	}
	for _, s := range []string{"not found", "manifest unknown", "name unknown", "denied", "unauthorized", "invalid reference", "no matching manifest", "no basic auth", "unsupported"} {
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
	case strings.Contains(text, "denied"), strings.Contains(text, "unauthorized"), strings.Contains(text, "no basic auth"):
		return "; log in with `docker login` if the image is private"
	}
	return ""
}

// pullOnce tries once. It has no bound in time of its own: images are large.
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
