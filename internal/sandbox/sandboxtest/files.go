package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
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
	s.test(t, "Large", sandbox.Limits{}, large)
	s.test(t, "Awkward", sandbox.Limits{}, awkward)
	s.test(t, "Changed", sandbox.Limits{}, changed)
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
	if res.ExitCode != sandbox.FilesFailed || !res.FilesFailed || strings.Contains(out, "ran") || !strings.Contains(out, "passwd") {
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

// large: more than any buffer holds, and much more than memory for a file with
// nothing in it.
func large(t *testing.T, b *box) {
	size := 200 << 20
	if testing.Short() {
		size = 32 << 20
	}
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{2}).Read(data)
	want := fmt.Sprintf("%x  /large\n", sha256.Sum256(data))
	b.expect(t, want, "sha256sum /large", func(c *sandbox.Command) { c.Files = []sandbox.File{{Path: "/large", Mode: 0o644, Data: data}} })
	if got, err := b.Read(b.ctx, "/large", int64(size)+1); err != nil || !bytes.Equal(got, data) {
		t.Errorf("Read: %d bytes, %v; want the %d that were put in", len(got), err, size)
	}
	b.do(t, "dd if=/dev/zero of=/sparse bs=1 count=1 seek=1T")
	if got, err := b.Read(b.ctx, "/sparse", 10); err != nil || len(got) != 10 {
		t.Errorf("Read of 10 bytes of a terabyte: %d, %v", len(got), err)
	}
}

// awkward leaves behind what is hard to remove: that the sandbox can be destroyed
// is the test.
func awkward(t *testing.T, b *box) {
	b.expect(t, "made\n", `
/evalrun/probe deep /deep && mkdir -m 000 /closed && touch "/closed/a
b" /-rf "/ " && ln -s / /closed/root && ln -s loop /loop && mkfifo /pipe &&
mkdir /many && cd /many && seq 2000 | xargs touch && echo made`, withProbe(t))
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// What was written is told from outside, even when it was written back.
func changed(t *testing.T, b *box) {
	w, ok := b.Sandbox.(interface {
		Changed(ctx context.Context) ([]sandbox.Change, error)
	})
	if !ok {
		t.Skip("the engine does not tell")
	}
	// The first command does not wait until the first process has become a sleep, on a busy
	// machine for long; the next one does, and may remove that program.
	b.expect(t, "", "true")
	b.expect(t, "", "set -e; cat /bin/tar >/tmp/tar; cat /tmp/tar >/bin/tar; rm /tmp/tar /bin/sleep; echo x >/bin/new; mv /var /var2; ln -s /var2 /var; rm -r /testbed; mkdir /testbed; mkdir -p /srv/new")
	list, err := w.Changed(t.Context())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("what sandboxes write cannot be read here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range list {
		got = append(got, string(c.Kind)+" "+strings.Replace(c.Path, "/usr/bin/", "/bin/", 1)) // where one is the other
	}
	for _, want := range []string{"C /bin/tar", "D /bin/sleep", "A /bin/new", "C /var/", "D /testbed/"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
	for _, line := range []string{"C /bin/sh", "D /srv/new/", "D /srv/"} {
		if slices.Contains(got, line) {
			t.Errorf("%q, which is not so, is among %q", line, got)
		}
	}
	b.expect(t, "", "echo x >/bin/new")
	again, err := w.Changed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stamp(list, "/bin/new") == stamp(again, "/bin/new") || stamp(list, "/bin/tar") != stamp(again, "/bin/tar") {
		t.Errorf("the stamps of /bin/new, written again, and /bin/tar, left alone: %q before, %q after", list, again)
	}
}

func stamp(list []sandbox.Change, suffix string) string {
	for _, c := range list {
		if strings.HasSuffix(c.Path, suffix) {
			return c.Stamp
		}
	}
	return ""
}
