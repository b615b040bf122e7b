// Package dockertest gives tests a Docker daemon and a small image, without any
// registry. It must not import the driver, whose own tests use it.
package dockertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Checkout is what stands in /testbed of the image, committed.
var Checkout = map[string]string{
	"add.sh":       "# add prints the sum of its arguments.\nadd() { echo $(($1 - $2)); }\n",
	"tests/run.sh": "# The tests that were there before.\n. ./add.sh\n[ \"$(add 0 0)\" = 0 ] && echo 'PASSED t::zero' || echo 'FAILED t::zero'\n",
}

// BaseCommit is the name by which the commit of Checkout is known inside.
const BaseCommit = "HEAD"

// Host is the address of the daemon that tests use by default.
func Host() string {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return host
	}
	return "unix:///var/run/docker.sock"
}

// Image returns an image in the store of the daemon at Host; it has a shell, git
// and the usual tools, and the checkout of a small repository in /testbed.
//
// Without a daemon the test is skipped, or fails if EVALRUN_REQUIRE_DOCKER is set.
func Image(t testing.TB) string {
	t.Helper()
	if err := ping(Host()); err != nil {
		if os.Getenv("EVALRUN_REQUIRE_DOCKER") != "" {
			t.Fatalf("no Docker daemon answers at %s, and EVALRUN_REQUIRE_DOCKER is set: %v", Host(), err)
		}
		t.Skipf("no Docker daemon answers at %s: %v (set EVALRUN_REQUIRE_DOCKER to have this fail)", Host(), err)
	}
	ref, err := ImageAt(Host())
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

var rootfs = sync.OnceValues(rootFS)

// RootFS is the tar of the image's root file system.
func RootFS() ([]byte, error) { return rootfs() }

// Env is what the image sets.
var Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}

var importing sync.Mutex

// ImageAt is Image for the daemon at an address.
func ImageAt(host string) (string, error) {
	data, err := rootfs()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	repo, tag := "evalrun/test", hex.EncodeToString(sum[:])[:20]
	ref := repo + ":" + tag
	importing.Lock()
	defer importing.Unlock()
	if _, err := call(host, http.MethodGet, "/images/"+ref+"/json", nil); err == nil {
		return ref, nil
	}
	// Podman takes no tag beside the name.
	query := url.Values{"fromSrc": {"-"}, "repo": {ref}, "changes": {
		"ENV " + strings.Join(Env, " "), "LABEL evalrun.kind=test",
	}}
	answer, err := call(host, http.MethodPost, "/images/create?"+query.Encode(), bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	if strings.Contains(answer, `"error"`) {
		return "", fmt.Errorf("import the test image: %s", answer)
	}
	return ref, nil
}

func ping(host string) error {
	_, err := call(host, http.MethodGet, "/_ping", nil)
	return err
}

// call makes one request to a daemon.
func call(host, method, path string, body io.Reader) (string, error) {
	network, address, ok := strings.Cut(host, "://")
	if !ok {
		return "", fmt.Errorf("%q is no address of a daemon", host)
	}
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
	req, err := http.NewRequest(method, "http://docker"+path, body)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode >= 400 {
		err = errors.Join(err, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text))
	}
	return string(text), err
}
