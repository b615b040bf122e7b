package oci

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"testing"
	"time"

	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/sandbox/oci/ocitest"
)

// Files for a sandbox go into it and nowhere else, whichever process has the number of
// its first by then, and also once it is gone.
func TestFilesStayInside(t *testing.T) {
	d := openDriver(t, ocitest.Runtimes(t)[0])
	ctx := context.Background()
	b, err := d.Start(ctx, sandbox.Spec{Image: ocitest.Image, ReadOnly: true, Expiry: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	s := b.(*Sandbox)
	was := s.pid
	s.pid = os.Getpid()
	name := "/tmp/evalrun-" + rand.Text()
	t.Cleanup(func() { os.Remove(name) })
	file := sandbox.File{Path: name, Mode: 0o644, Data: []byte("inside\n")}
	if err := s.put([]sandbox.File{file}); err != nil {
		t.Error(err)
	}
	if exists(name) {
		t.Error("the file was written outside")
	}
	s.pid = was
	var out bytes.Buffer
	if res, err := s.Exec(ctx, sandbox.Command{Argv: []string{"cat", name}, Dir: "/", Output: &out}); err != nil || out.String() != "inside\n" {
		t.Errorf("inside is %q: %+v, %v", out.String(), res, err)
	}
	if err := s.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.put([]sandbox.File{file}); err == nil {
		t.Error("a sandbox that was destroyed takes files")
	}
}
