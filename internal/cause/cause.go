// Package cause names what infrastructure fails of: few causes, typed where an
// error happens, so that those above can tell whether trying again helps, whether
// many failures are one, and what a person should do.
//
// It must not know engines, registries or attempts.
package cause

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// Cause is what something failed of.
type Cause string

const (
	Unknown Cause = ""
	Engine  Cause = "the engine is gone"
	Timeout Cause = "the engine does not answer in time"
	Disk    Cause = "no room is left on the disk"
	Memory  Cause = "the host is out of memory"
	Image   Cause = "the image cannot be had"
	Network Cause = "the network or the registry fails"
)

// Advice says what a person can do.
func (c Cause) Advice() string {
	switch c {
	case Engine:
		return "see whether the daemon runs (`evalrun doctor`, `systemctl status docker`), then give the same command again"
	case Timeout:
		return "the machine may be overloaded: give the same command again with fewer workers (-j)"
	case Disk:
		return "make room (`evalrun clean --images`), then give the same command again"
	case Memory:
		return "give the same command again with fewer workers (-j) or less memory for each (--memory)"
	case Image:
		return "see whether the image's name is right (--namespace, --tag), or build it here (--images build with --repo-mirror)"
	case Network:
		return "see whether the registry can be reached from here; --images build with --repo-mirror needs none"
	}
	return "see the error, and `evalrun doctor`; then give the same command again"
}

// Passes reports whether what failed of it may work the next time it is tried, with
// nothing changed: it says nothing of what was being done.
func (c Cause) Passes() bool {
	switch c {
	case Engine, Timeout, Disk, Memory, Network:
		return true
	}
	return false
}

func (c Cause) String() string {
	if c == Unknown {
		return "the engine fails"
	}
	return string(c)
}

// Error is an error whose cause is known. It reads as the error it wraps.
type Error struct {
	Cause Cause
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// As says what err failed of. An error that says so itself keeps its own cause.
func As(c Cause, err error) error {
	if err == nil || c == Unknown || typed(err) != Unknown {
		return err
	}
	return &Error{c, err}
}

func typed(err error) Cause {
	var e *Error
	if errors.As(err, &e) {
		return e.Cause
	}
	return Unknown
}

// Of is what an error failed of: what was said where it happened, or what the
// system's own error means.
func Of(err error) Cause {
	if c := typed(err); c != Unknown {
		return c
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return Disk
	case errors.Is(err, syscall.ENOMEM):
		return Memory
	}
	return Unknown
}

// OfConnection is what an error of a connection to an engine means.
func OfConnection(err error) Cause {
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout
	case errors.As(err, &dns):
		return Network
	}
	for _, gone := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed,
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
	} {
		if errors.Is(err, gone) {
			return Engine
		}
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return Engine // its socket is not there
	}
	return Of(err)
}

// OfText is what another program's words mean, where they are all there is.
func OfText(text string) Cause {
	text = strings.ToLower(text)
	for _, known := range []struct {
		cause Cause
		signs []string
	}{
		{Disk, []string{"no space left on device", "disk quota exceeded"}},
		{Memory, []string{"cannot allocate memory"}},
		{Image, []string{"no such image", "manifest unknown", "manifest for ", "repository does not exist", "pull access denied", "name unknown"}},
		{Engine, []string{"cannot connect to the docker daemon", "daemon is shutting down", "connection error: desc = \"transport"}},
		{Network, []string{
			"temporary failure", "could not resolve", "no such host", "no route to host", "network is unreachable", "tls handshake timeout", "i/o timeout",
			"too many requests", "toomanyrequests", "bad gateway", "service unavailable", "gateway time", "dial tcp",
		}},
	} {
		for _, sign := range known.signs {
			if strings.Contains(text, sign) {
				return known.cause
			}
		}
	}
	return Unknown
}
