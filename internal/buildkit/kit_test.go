package buildkit

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	gateway "github.com/moby/buildkit/frontend/gateway/client"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/session/secrets/secretsprovider"
	specs "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/tonistiigi/fsutil"

	"github.com/evalrun/evalrun/internal/sandbox/docker/dockertest"
)

// needsRoot skips a test where build steps cannot run.
func needsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("build steps need root")
	}
	if _, err := FindRuntime(""); err != nil {
		t.Skip(err)
	}
}

// kit is a state folder with what tests build in it.
type kit struct {
	t    testing.TB
	dir  string
	tars string // folder with the root file system's tar
}

func newKit(t testing.TB) *kit {
	t.Helper()
	needsRoot(t)
	data, err := dockertest.RootFS()
	if err != nil {
		t.Fatal(err)
	}
	return newKitIn(t, t.TempDir(), data)
}

// newKitIn is a kit whose state is in a folder of the test's choice.
func newKitIn(t testing.TB, dir string, data []byte) *kit {
	t.Helper()
	k := &kit{t: t, dir: dir, tars: t.TempDir()}
	if err := os.WriteFile(filepath.Join(k.tars, "rootfs.tar"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unmountBelow(k.dir); err != nil {
			t.Error(err)
		}
	})
	return k
}

func (k *kit) open(change func(*Options)) *BuildKit {
	k.t.Helper()
	o := Options{Dir: k.dir}
	if change != nil {
		change(&o)
	}
	b, err := Open(o)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		if err := b.Close(); err != nil {
			k.t.Error(err)
		}
	})
	return b
}

// base is the root file system unpacked, as base layers are made.
func (k *kit) base() llb.State {
	tar := llb.Local("rootfs", llb.SharedKeyHint("rootfs"))
	return llb.Scratch().File(llb.Copy(tar, "/rootfs.tar", "/", &llb.CopyInfo{AttemptUnpack: true, CreateDestPath: true})).
		AddEnv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
}

func on(ref string) llb.State {
	return llb.Image("docker.io/"+ref, llb.ResolveModePreferLocal).AddEnv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").Dir("/")
}

// on is an image whose name says where it is from.
func (k *kit) on(ref string) llb.State {
	return llb.Image(ref, llb.ResolveModePreferLocal).AddEnv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").Dir("/")
}

func run(s llb.State, script string) llb.State {
	return s.Run(llb.Shlexf("/bin/sh -c %q", script), llb.AddSecret("/run/secret", llb.SecretID("secret"))).Root()
}

// built tells which steps of a build ran.
type built struct {
	ran    []string
	cached []string
}

func (k *kit) build(ctx context.Context, b *BuildKit, s llb.State, ref string) (built, error) {
	c, done, err := b.BuildKit(ctx)
	if err != nil {
		return built{}, err
	}
	defer done()
	tars, err := fsutil.NewFS(k.tars)
	if err != nil {
		return built{}, err
	}
	var what built
	status := make(chan *client.SolveStatus)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		seen := map[string]bool{}
		for st := range status {
			for _, v := range st.Vertexes {
				if v.Completed == nil || seen[v.Digest.String()] {
					continue
				}
				seen[v.Digest.String()] = true
				if v.Cached {
					what.cached = append(what.cached, v.Name)
				} else {
					what.ran = append(what.ran, v.Name)
				}
			}
		}
	}()
	_, err = c.Build(ctx, client.SolveOpt{
		Session:     []session.Attachable{secretsprovider.FromMap(map[string][]byte{"secret": []byte("a secret\n")})},
		LocalMounts: map[string]fsutil.FS{"rootfs": tars},
		Exports:     []client.ExportEntry{{Type: b.Exporter(), Attrs: map[string]string{"name": ref}}},
	}, "test", func(ctx context.Context, g gateway.Client) (*gateway.Result, error) {
		def, err := s.Marshal(ctx)
		if err != nil {
			return nil, err
		}
		res, err := g.Solve(ctx, gateway.SolveRequest{Definition: def.ToPB()})
		if err == nil {
			config, _ := json.Marshal(specs.Image{Config: specs.ImageConfig{Labels: map[string]string{"note": "kept", "evalrun.kind": "test"}, Env: []string{"NAME=" + ref}, WorkingDir: "/testbed"}})
			res.AddMeta(exptypes.ExporterImageConfigKey, config)
		}
		return res, err
	}, status)
	<-watched
	return what, err
}

func (k *kit) mustBuild(b *BuildKit, s llb.State, ref string) built {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	what, err := k.build(ctx, b, s, ref)
	if err != nil {
		k.t.Fatalf("build %s: %v", ref, err)
	}
	return what
}

// ranRun tells whether a RUN step ran.
func (w built) ranRun() bool {
	for _, name := range w.ran {
		if strings.HasPrefix(name, "/bin/sh -c") {
			return true
		}
	}
	return false
}

// read reads a file of an image through its layers, as an overlay shows it.
func (k *kit) read(b *BuildKit, ref, path string) string {
	k.t.Helper()
	root, err := b.Root(context.Background(), ref)
	if err != nil {
		k.t.Fatal(err)
	}
	defer root.Release()
	for _, layer := range root.Lower {
		data, err := os.ReadFile(filepath.Join(layer, path))
		if err == nil {
			return string(data)
		}
		if !errors.Is(err, os.ErrNotExist) {
			k.t.Fatal(err)
		}
	}
	k.t.Fatalf("%s has no %s in %v", ref, path, root.Lower)
	return ""
}
