package cause

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An error keeps the cause it was given first, through any wrapping, and reads as
// before.
func TestOf(t *testing.T) {
	plain := errors.New("boom")
	first := As(Disk, plain)
	tests := []struct {
		name string
		err  error
		want Cause
	}{
		{"nil", nil, Unknown},
		{"plain", plain, Unknown},
		{"typed", first, Disk},
		{"wrapped", fmt.Errorf("instance a: %w", first), Disk},
		{"joined", errors.Join(plain, first), Disk},
		{"typed twice", As(Engine, fmt.Errorf("a: %w", first)), Disk},
		{"typed as nothing", As(Unknown, plain), Unknown},
		{"the system's", &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, Disk},
		{"the system's memory", fmt.Errorf("fork: %w", syscall.ENOMEM), Memory},
	}
	for _, tt := range tests {
		if got := Of(tt.err); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if first.Error() != "boom" || !errors.Is(first, plain) {
		t.Errorf("%v does not read as what it wraps", first)
	}
	if As(Disk, nil) != nil {
		t.Error("no error has become one")
	}
}

func TestOfConnection(t *testing.T) {
	_, refused := net.Dial("unix", filepath.Join(t.TempDir(), "no.sock"))
	tests := []struct {
		err  error
		want Cause
	}{
		{refused, Engine},
		{fmt.Errorf("error during connect: %w", io.EOF), Engine},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, Engine},
		{context.DeadlineExceeded, Timeout},
		{&net.DNSError{Name: "registry"}, Network},
		{syscall.ENOSPC, Disk},
		{errors.New("conflict"), Unknown},
	}
	for _, tt := range tests {
		if got := OfConnection(tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestOfText(t *testing.T) {
	for text, want := range map[string]Cause{
		"write /x: No space left on device":                               Disk,
		"fork: Cannot allocate memory":                                    Memory,
		"Error: No such image: sha256:00":                                 Image,
		"manifest for swebench/x:latest not found: manifest unknown":      Image,
		"Get \"https://registry.example/v2/\": dial tcp: no such host":    Network,
		"toomanyrequests: You have reached your pull rate limit":          Network,
		"process \"/bin/sh -c make\" did not complete: exit code: 2":      Unknown,
		"container is marked for removal and cannot be started, conflict": Unknown,
	} {
		if got := OfText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Every cause says what it is and what to do.
func TestAdvice(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []Cause{Unknown, Engine, Timeout, Disk, Memory, Image, Network} {
		if c.String() == "" || !strings.Contains(c.Advice(), " ") || seen[c.Advice()] {
			t.Errorf("%q: %q", c, c.Advice())
		}
		seen[c.Advice()] = true
	}
}

// What the engine or the machine is in trouble with passes; what is wrong with an image,
// or not known, does not.
func TestPasses(t *testing.T) {
	for c, want := range map[Cause]bool{Engine: true, Timeout: true, Disk: true, Memory: true, Network: true, Image: false, Unknown: false} {
		if c.Passes() != want {
			t.Errorf("%s: %v", c, c.Passes())
		}
	}
}
