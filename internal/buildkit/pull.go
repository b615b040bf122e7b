package buildkit

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	gateway "github.com/moby/buildkit/frontend/gateway/client"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/session/auth"
	"google.golang.org/grpc"

	"github.com/evalrun/evalrun/internal/pull"
)

// Pull implements builder.Engine.
func (b *BuildKit) Pull(ctx context.Context, ref string) error {
	return pull.Default().Run(ctx, ref, func() error { return b.pullOnce(ctx, ref) })
}

// pullOnce solves a build that is the image and nothing else.
func (b *BuildKit) pullOnce(ctx context.Context, ref string) error {
	full, err := normal(ref)
	if err != nil {
		return err
	}
	c, done, err := b.BuildKit(ctx)
	if err != nil {
		return err
	}
	defer done()
	build := func(ctx context.Context, g gateway.Client) (*gateway.Result, error) {
		_, manifest, config, err := g.ResolveImageConfig(ctx, full, sourceresolver.Opt{ImageOpt: &sourceresolver.ResolveImageOpt{ResolveMode: llb.ResolveModeForcePull.String()}})
		if err != nil {
			return nil, err
		}
		named, err := name.ParseReference(full)
		if err != nil {
			return nil, err
		}
		def, err := llb.Image(named.Context().Name()+"@"+manifest.String(), llb.ResolveModeForcePull).Marshal(ctx)
		if err != nil {
			return nil, err
		}
		res, err := g.Solve(ctx, gateway.SolveRequest{Definition: def.ToPB(), Evaluate: true})
		if err == nil {
			res.AddMeta(exptypes.ExporterImageConfigKey, config)
			res.AddMeta(manifestKey, []byte(manifest))
		}
		return res, err
	}
	_, err = c.Build(ctx, client.SolveOpt{
		Session: []session.Attachable{logins{}},
		Exports: []client.ExportEntry{{Type: exporterName, Attrs: map[string]string{"name": ref}}},
	}, "evalrun", build, nil)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// logins answers BuildKit's questions for passwords from where docker keeps them.
type logins struct{ auth.UnimplementedAuthServer }

// Register implements session.Attachable.
func (l logins) Register(s *grpc.Server) { auth.RegisterAuthServer(s, l) }

// Credentials implements auth.AuthServer.
func (logins) Credentials(_ context.Context, req *auth.CredentialsRequest) (*auth.CredentialsResponse, error) {
	host := req.Host
	if host == "registry-1.docker.io" {
		host = name.DefaultRegistry
	}
	registry, err := name.NewRegistry(host)
	if err != nil {
		return nil, err
	}
	found, err := authn.DefaultKeychain.Resolve(registry)
	if err != nil {
		return nil, fmt.Errorf("login of %s: %w", host, err)
	}
	cfg, err := found.Authorization()
	if err != nil {
		return nil, fmt.Errorf("login of %s: %w", host, err)
	}
	if cfg.IdentityToken != "" {
		return &auth.CredentialsResponse{Secret: cfg.IdentityToken}, nil
	}
	return &auth.CredentialsResponse{Username: cfg.Username, Secret: cfg.Password}, nil
}
