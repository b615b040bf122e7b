package toolchain

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func TestCondaIsFetchedOnce(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Write([]byte("#!/bin/sh\n"))
	}))
	defer server.Close()
	dir := t.TempDir()
	for range 2 {
		home, err := Conda(context.Background(), server.URL+"/installer.sh", dir)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(filepath.Join(home, InstallerName)); err != nil || string(data) != "#!/bin/sh\n" {
			t.Errorf("installer %q, %v", data, err)
		}
	}
	if asked != 1 {
		t.Errorf("fetched %d times, want once", asked)
	}
}

func TestCondaThatCannotBeHad(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close() // nobody listens there any more
	notFound := httptest.NewServer(http.NotFoundHandler())
	defer notFound.Close()
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Write([]byte("half"))
	}))
	defer cut.Close()
	for _, source := range []string{server.URL, notFound.URL, cut.URL, filepath.Join(t.TempDir(), "missing.sh")} {
		if home, err := Conda(context.Background(), source, t.TempDir()); err == nil {
			t.Errorf("%s: no error, folder %s", source, home)
		}
	}
	if home, err := Conda(context.Background(), "", t.TempDir()); home != "" || err != nil {
		t.Errorf("no source: %q, %v", home, err)
	}
}
