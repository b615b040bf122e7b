package sandbox_test

import (
	"strings"
	"testing"

	"github.com/evalrun/evalrun/internal/sandbox"
)

func TestParseUser(t *testing.T) {
	for text, want := range map[string][2]uint32{"": {0, 0}, "0": {0, 0}, "1000": {1000, 0}, "1000:50": {1000, 50}} {
		if uid, gid, err := sandbox.ParseUser(text); err != nil || uid != want[0] || gid != want[1] {
			t.Errorf("ParseUser(%q) = %d, %d, %v; want %v", text, uid, gid, err, want)
		}
	}
	for _, text := range []string{"root", ":", "1:", ":1", "-1", "1:2:3", "4294967295", " 1"} {
		if uid, gid, err := sandbox.ParseUser(text); err == nil || !strings.Contains(err.Error(), "UID:GID") {
			t.Errorf("ParseUser(%q) = %d, %d, %v; want a refusal", text, uid, gid, err)
		}
	}
}

func TestHandover(t *testing.T) {
	for want, spec := range map[string]sandbox.Spec{
		"mkdir -p -- '/testbed/.' '/it'\\''s/.' && chown -Rh -- 1000:100 '/testbed/.' '/it'\\''s/.'": {User: "1000:100", Owned: []string{"/testbed", "/it's"}},
		"": {User: "0:0", Owned: []string{"/testbed"}},
	} {
		if got := spec.Handover(); got != want {
			t.Errorf("%+v: %q, want %q", spec, got, want)
		}
	}
}
