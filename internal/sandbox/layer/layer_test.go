package layer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// tree makes files below a folder: "name" with the name in it, "name/" as a folder,
// "-name" as overlays note that it was removed, "=name/" as a folder made again.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, strings.TrimLeft(name, "-="))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case name[0] == '-':
			err = unix.Mknod(path, unix.S_IFCHR, 0)
		case name[0] == '=':
			if err = os.MkdirAll(path, 0o755); err == nil {
				err = unix.Setxattr(path, "trusted.overlay.opaque", []byte("y"), 0)
			}
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, []byte(name), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func seen(t *testing.T, upper string, lower ...string) ([]string, error) {
	t.Helper()
	found, err := Changed(t.Context(), upper, lower)
	var list []string
	for _, c := range found {
		list = append(list, string(c.Kind)+" "+c.Path)
	}
	slices.Sort(list)
	return list, err
}

func TestChanged(t *testing.T) {
	upper := tree(t, "new", "etc/passwd", "\xff/bad \xfe", "dir/sub/new", "link-target")
	if err := os.Symlink("/", filepath.Join(upper, "link")); err != nil {
		t.Fatal(err)
	}
	lower := tree(t, "etc/passwd", "dir/sub/old", "link-target/x")
	got, err := seen(t, upper, lower)
	want := []string{"A /dir/sub/new", "A /link", "A /new", "A /\xff/bad \xfe", "C /etc/passwd", "C /link-target/"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// What a layer of the image has removed is not there before, and what a folder that
// was made again had is gone.
func TestWhiteouts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes what overlays note with")
	}
	upper := tree(t, "-bin/git", "=lib/", "lib/again", "etc/motd", "opt/tool", "home/x", "=made/", "srv/f")
	middle := tree(t, "-etc/motd", "=opt/", "home", "srv/f", "srv/other")
	bottom := tree(t, "bin/git", "lib/again", "lib/lost", "etc/motd", "opt/tool", "home/x", "srv/f")
	got, err := seen(t, upper, middle, bottom)
	want := []string{"A /etc/motd", "A /home/x", "A /opt/tool", "C /lib/again", "C /srv/f", "D /bin/git", "D /lib/"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// What cannot be looked through is an error that keeps what was found.
func TestTooDeep(t *testing.T) {
	upper := tree(t, "a", strings.Repeat("d/", maxDepth+2))
	if got, err := seen(t, upper); err == nil || !slices.Equal(got, []string{"A /a"}) {
		t.Errorf("%v, %v", got, err)
	}
	if err := os.RemoveAll(upper); err != nil {
		t.Fatal(err)
	}
	if _, err := seen(t, upper); err == nil {
		t.Error("a layer that is not there is one in which nothing was written")
	}
}

// Names cost memory, too.
func TestLongNames(t *testing.T) {
	name := strings.Repeat("n", 250)
	w := walk{}
	var st unix.Stat_t
	var err error
	for n := 0; err == nil; n++ {
		if err = w.change(name, &st); n > maxNames/len(name)+1 {
			t.Fatal("no end of names")
		}
	}
}
