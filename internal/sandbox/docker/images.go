package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/client"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/evalrun/evalrun/internal/pull"
)

// errNoImage is of an image that is not in the daemon's store.
var errNoImage = errors.New("it is not in the daemon's store")

// inspect asks the daemon for an image.
func (c *Client) inspect(ctx context.Context, ref string) (info image.InspectResponse, err error) {
	missing := false
	err = c.ask(ctx, "look up image "+ref, func(ctx context.Context) (err error) {
		if info, err = c.api.ImageInspect(ctx, ref); cerrdefs.IsNotFound(err) {
			missing = true
			return nil
		}
		return err
	})
	if missing {
		err = fmt.Errorf("look up image %s: %w", ref, errNoImage)
	}
	return info, err
}

// Image returns the digest of an image in the daemon's store.
func (c *Client) Image(ctx context.Context, ref string) (string, bool, error) {
	info, err := c.inspect(ctx, ref)
	if errors.Is(err, errNoImage) {
		return "", false, nil
	}
	return info.ID, err == nil, err
}

// ImageEnv returns the environment an image sets for its processes.
func (c *Client) ImageEnv(ctx context.Context, ref string) ([]string, error) {
	info, err := c.inspect(ctx, ref)
	if err != nil || info.Config == nil {
		return nil, err
	}
	return info.Config.Env, nil
}

// ImageSize is what an image takes, with what it shares with others.
func (c *Client) ImageSize(ctx context.Context, ref string) (int64, error) {
	info, err := c.inspect(ctx, ref)
	return info.Size, err
}

// ImageLabels returns the labels of an image.
func (c *Client) ImageLabels(ctx context.Context, ref string) (map[string]string, error) {
	info, err := c.inspect(ctx, ref)
	if err != nil || info.Config == nil {
		return nil, err
	}
	return info.Config.Labels, nil
}

// RepoDigest returns the digest an image was pulled by, or "".
func (c *Client) RepoDigest(ctx context.Context, ref string) string {
	info, err := c.inspect(ctx, ref)
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
	return pull.Default().Run(ctx, ref, func() error { return c.pullOnce(ctx, ref) })
}

// Load puts the images of a tar, as `docker save` writes it, into the daemon's store.
func (c *Client) Load(ctx context.Context, tar io.Reader) error {
	answer, err := c.api.ImageLoad(ctx, tar, client.ImageLoadWithQuiet(true))
	if err != nil {
		return engineError("load image", err)
	}
	defer answer.Body.Close()
	if err := lastWords(answer.Body); err != nil {
		return engineError("load image", err)
	}
	return nil
}

// pullOnce tries once. It has no bound in time of its own: images are large.
func (c *Client) pullOnce(ctx context.Context, ref string) error {
	opts := image.PullOptions{RegistryAuth: registryAuth(ref)}
	body, err := c.api.ImagePull(ctx, ref, opts)
	if err != nil {
		return shortError(err)
	}
	defer body.Close()
	return lastWords(body)
}

// lastWords reads a stream of messages to its end. It reports failures in them,
// under status 200.
func lastWords(body io.Reader) error {
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
