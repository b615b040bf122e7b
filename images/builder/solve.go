package builder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	gateway "github.com/moby/buildkit/frontend/gateway/client"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/session/secrets/secretsprovider"
	"github.com/moby/buildkit/util/entitlements"
	"github.com/moby/buildkit/util/grpcerrors"
	specs "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc/codes"

	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/images/instance"
	"github.com/evalrun/evalrun/internal/cause"
)

// Tries of one layer when what failed looks like the network.
const (
	buildTries = 3
	firstWait  = 3 * time.Second
)

// solve builds a layer and exports it under ref.
func (b *Builder) solve(ctx context.Context, t *task, ref string) error {
	wait := firstWait
	for try := 1; ; try++ {
		err := b.solveOnce(ctx, t, ref)
		var failed *Error
		if err == nil || ctx.Err() != nil || try == buildTries || !errors.As(err, &failed) || !looksTransient(failed) {
			return err
		}
		b.o.Progress(Event{Kind: t.kind, Name: t.name, Step: fmt.Sprintf("network trouble, try %d of %d in %s", try+1, buildTries, wait)})
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
		wait *= 3
	}
}

// looksTransient is about the text because build steps are shell scripts: their
// exit status says nothing about why.
func looksTransient(e *Error) bool {
	text := strings.ToLower(e.Tail + " " + e.Err.Error())
	for _, sign := range []string{
		"temporary failure", "could not resolve", "connection reset", "connection timed out", "read timed out", "connection refused", "connection broken",
		"429 too many", "502 bad gateway", "503 service", "504 gateway", "tls handshake timeout", "unexpected eof", "i/o timeout", "remote end closed",
		"no route to host", "incompleteread", "hash sum mismatch",
	} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// causeOf tells the solver's trouble from a recipe's.
func causeOf(err error, failed *Error) cause.Cause {
	switch {
	case grpcerrors.Code(err) == codes.Unavailable:
		return cause.Engine
	case grpcerrors.Code(err) == codes.DeadlineExceeded, waitedInVain(err):
		return cause.Timeout
	case looksTransient(failed):
		return cause.Network
	case strings.Contains(strings.ToLower(failed.Tail+err.Error()), "no space left on device"):
		return cause.Disk
	}
	return cause.Unknown
}

// waitedInVain reports whether the solver gave up on somebody who was too slow, on a busy
// machine this very process: it then says so in words alone. Steps have no part in them.
func waitedInVain(err error) bool {
	text := err.Error()
	return strings.Contains(text, "no active session") || strings.Contains(text, context.DeadlineExceeded.Error())
}

func (b *Builder) solveOnce(ctx context.Context, t *task, ref string) error {
	fail := func(err error) error { return &Error{Kind: t.kind, Key: t.key, Name: t.name, Err: err} }
	c, done, err := b.o.Engine.BuildKit(ctx)
	if err != nil {
		return fail(err)
	}
	defer done()
	logs, err := b.openLog(t)
	if err != nil {
		return fail(err)
	}
	defer logs.Close()
	opt := client.SolveOpt{
		LocalMounts: t.mounts,
		Session:     []session.Attachable{secretsprovider.FromMap(b.o.Settings.secrets(t.sources))},
		Exports:     []client.ExportEntry{{Type: b.o.Engine.Exporter(), Attrs: map[string]string{"name": ref}}},
	}
	if os.Getenv("EVALRUN_BUILD_NETWORK") == "host" {
		opt.AllowedEntitlements = []string{entitlements.EntitlementNetworkHost.String()}
	}
	build := func(ctx context.Context, g gateway.Client) (*gateway.Result, error) {
		req := gateway.SolveRequest{Frontend: t.frontend, FrontendOpt: t.frontendAttrs}
		if t.frontend == "" {
			var constraints []llb.ConstraintsOpt
			if b.o.Force {
				constraints = append(constraints, llb.IgnoreCache)
			}
			def, err := t.state.Marshal(ctx, constraints...)
			if err != nil {
				return nil, err
			}
			req.Definition = def.ToPB()
		}
		res, err := g.Solve(ctx, req)
		if err != nil || t.frontend != "" {
			return res, err
		}
		if err := t.readDeviations(ctx, res); err != nil {
			return nil, err
		}
		config, err := t.config()
		if err != nil {
			return nil, err
		}
		res.AddMeta(exptypes.ExporterImageConfigKey, config)
		return res, nil
	}
	status := make(chan *client.SolveStatus)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for s := range status {
			if step := logs.write(s); step != "" {
				b.o.Progress(Event{Kind: t.kind, Name: t.name, Step: step})
			}
		}
	}()
	_, err = c.Build(ctx, opt, "evalrun", build, status)
	<-watched
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failed := &Error{Kind: t.kind, Key: t.key, Name: t.name, Step: logs.failedStep(), Tail: logs.tail(), Log: logs.path, Err: shorten(err)}
		failed.Err = cause.As(causeOf(err, failed), failed.Err)
		return failed
	}
	return nil
}

// readDeviations makes what the steps wrote down a label of the image, so that
// it is known wherever the image is used.
func (t *task) readDeviations(ctx context.Context, res *gateway.Result) error {
	if t.kind != images.Instance || t.elsewhere {
		return nil
	}
	ref, err := res.SingleRef()
	if err != nil {
		return err
	}
	text, err := ref.ReadFile(ctx, gateway.ReadRequest{Filename: instance.Deviations})
	t.labels[deviationsLabel] = string(text)
	return err
}

// shorten leaves of BuildKit's error what a person can use: it repeats the
// step's whole script, which is in the log.
func shorten(err error) error {
	text := err.Error()
	if i := strings.LastIndex(text, "exit code: "); i >= 0 {
		return errors.New(text[i:])
	}
	if i := strings.LastIndex(text, "\n]: "); i >= 0 && strings.Contains(text, "executor failed running") {
		return errors.New(text[i+4:])
	}
	return err
}

// config is the image configuration of a layer.
func (t *task) config() ([]byte, error) {
	labels := map[string]string{"evalrun.kind": string(t.kind), "evalrun.key": t.key}
	for k, v := range t.labels {
		if v != "" {
			labels[k] = v
		}
	}
	img := specs.Image{
		Platform: specs.Platform{OS: "linux", Architecture: runtime.GOARCH},
		Config:   specs.ImageConfig{Env: t.env, WorkingDir: t.workdir, Labels: labels, Cmd: []string{"/bin/bash"}},
		RootFS:   specs.RootFS{Type: "layers"},
	}
	return json.Marshal(img)
}

func (b *Builder) openLog(t *task) (*buildLog, error) {
	dir := filepath.Join(b.o.CacheDir, "builds")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, string(t.kind)+"-"+t.key[:20]+".log")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &buildLog{path: path, file: f, steps: map[string]*step{}}, nil
}

// dockerfile builds a row that brings a Dockerfile of its own. The cut
// repository is in the build context as "repository".
func (b *Builder) dockerfile(ctx context.Context, spec images.InstanceSpec) (Image, error) {
	return b.layer(ctx, images.Instance, spec.Key(), spec.InstanceID, func(t *task) error {
		dir, err := t.tempDir(b.o.CacheDir)
		if err != nil {
			return err
		}
		if err := prepareContext(ctx, dir, spec); err != nil {
			return err
		}
		t.frontend = "dockerfile.v0"
		t.frontendAttrs = map[string]string{
			"filename": "Dockerfile", "label:evalrun.kind": string(images.Instance), "label:evalrun.key": spec.Key(),
			"label:evalrun.instance": spec.InstanceID, "label:evalrun.base_commit": spec.BaseCommit,
		}
		if b.o.Force {
			t.frontendAttrs["no-cache"] = ""
		}
		for name, value := range b.o.Settings.proxies() {
			t.frontendAttrs["build-arg:"+name] = value
		}
		if os.Getenv("EVALRUN_BUILD_NETWORK") == "host" {
			t.frontendAttrs["force-network-mode"] = "host"
		}
		for _, name := range []string{"context", "dockerfile"} {
			if err := t.mount(name, dir); err != nil {
				return err
			}
		}
		return nil
	})
}
