package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/internal/sandbox"
)

func (s *suite) files(t *testing.T) {
	s.test(t, "ByteForByte", sandbox.Limits{}, byteForByte)
	s.test(t, "FoldersStay", sandbox.Limits{}, foldersStay)
	s.test(t, "LinksAreReplaced", sandbox.Limits{}, linksAreReplaced)
	s.test(t, "Refused", sandbox.Limits{}, filesRefused)
	s.test(t, "Read", sandbox.Limits{}, readFiles)
}

func byteForByte(t *testing.T, b *box) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	big := make([]byte, 10<<20)
	rand.NewChaCha8([32]byte{1}).Read(big)
	files := []sandbox.File{
		{Path: "/evalrun/plain", Mode: 0o644, Data: every},
		{Path: "/evalrun/empty", Mode: 0o600},
		{Path: "/evalrun/big", Mode: 0o444, Data: big},
		{Path: "/evalrun/none", Mode: 0, Data: every},
		{Path: "/evalrun/setuid", Mode: 0o4755, Data: every},
		{Path: "/evalrun/deep/er/and/deeper/still", Mode: 0o640, Data: every},
		{Path: "/evalrun/a b\tc", Mode: 0o755, Data: every},
		{Path: "/evalrun/new\nline", Mode: 0o755, Data: every},
		{Path: "/evalrun/-rf", Mode: 0o755, Data: every},
		{Path: "/evalrun/it's \"quoted\" $HOME `x` \\", Mode: 0o755, Data: every},
		{Path: "/evalrun/ünï/日本語", Mode: 0o755, Data: every},
		{Path: "/evalrun/" + strings.Repeat("long", 50), Mode: 0o755, Data: every},
		{Path: "/" + strings.Repeat("folder/", 40) + "file", Mode: 0o755, Data: every},
	}
	var script strings.Builder
	for _, f := range files {
		fmt.Fprintf(&script, "stat -c '%%a %%u:%%g' -- %[1]s; sha256sum <%[1]s\n", quote(f.Path))
	}
	var want strings.Builder
	for _, f := range files {
		fmt.Fprintf(&want, "%o 0:0\n%x  -\n", f.Mode, sha256.Sum256(f.Data))
	}
	b.expect(t, want.String(), script.String(), func(c *sandbox.Command) { c.Files = files })
	for _, f := range files {
		got, err := b.Read(b.ctx, f.Path, 64<<20)
		if err != nil || !bytes.Equal(got, f.Data) {
			t.Errorf("Read(%q): %d bytes and error %v, want the %d that were put in", f.Path, len(got), err, len(f.Data))
		}
	}
}

// Putting files into folders that exist changes nothing about the folders.
func foldersStay(t *testing.T, b *box) {
	b.do(t, "mkdir -m 711 /folder && chmod 1777 /tmp && ln -s /folder /link")
	put := func(c *sandbox.Command) {
		for _, dir := range []string{"/tmp", "/folder", "/link"} {
			c.Files = append(c.Files, sandbox.File{Path: dir + "/file in" + dir[1:], Mode: 0o644, Data: []byte(dir)})
		}
	}
	b.expect(t, "1777\n711\nlink\n/link", "stat -c %a /tmp /folder; [ -L /link ] && echo link; cat '/folder/file inlink'", put)
}

// A link that stands where a file belongs is replaced, never followed.
func linksAreReplaced(t *testing.T, b *box) {
	b.do(t, "echo precious >/target; mkdir /evalrun; ln -s /target /evalrun/file")
	b.expect(t, "precious\nnew", "cat /target; [ -L /evalrun/file ] && echo still a link; cat /evalrun/file", func(c *sandbox.Command) {
		c.Files = []sandbox.File{{Path: "/evalrun/file", Mode: 0o644, Data: []byte("new")}}
	})
}

func filesRefused(t *testing.T, b *box) {
	out, res := b.do(t, "echo ran", func(c *sandbox.Command) {
		c.Files = []sandbox.File{{Path: "/etc/passwd/below", Mode: 0o644, Data: []byte("x")}}
	})
	if res.ExitCode != sandbox.FilesFailed || strings.Contains(out, "ran") || !strings.Contains(out, "passwd") {
		t.Errorf("exit code %d, output %q; want %d, no run and a reason", res.ExitCode, out, sandbox.FilesFailed)
	}
	_, err := b.Exec(b.ctx, sandbox.Command{Argv: []string{"true"}, Stdin: []byte("x"), Files: []sandbox.File{{Path: "/x"}}})
	if err == nil {
		t.Error("files together with standard input were not refused")
	}
}

func readFiles(t *testing.T, b *box) {
	b.do(t, "echo 0123456789 >/ten; ln -s /ten /alink; mkdir /adir")
	if got, err := b.Read(b.ctx, "/ten", 4); string(got) != "0123" || err != nil {
		t.Errorf("Read with a limit of 4: %q, %v", got, err)
	}
	var engine *sandbox.EngineError
	if _, err := b.Read(b.ctx, "/missing/file", 1); !errors.Is(err, fs.ErrNotExist) || errors.As(err, &engine) {
		t.Errorf("Read of a missing file: %v, want fs.ErrNotExist and no EngineError", err)
	}
	for _, odd := range []string{"/alink", "/adir", "/dev/null"} {
		if got, err := b.Read(b.ctx, odd, 10); err == nil || errors.As(err, &engine) {
			t.Errorf("Read(%s): %q, %v; want an error that is no EngineError", odd, got, err)
		}
	}
	b.try(b.ctx, "sleep 100", within(1))
	if got, err := b.Read(context.WithoutCancel(b.ctx), "/ten", 100); string(got) != "0123456789\n" || err != nil {
		t.Errorf("Read in a dead sandbox: %q, %v", got, err)
	}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
