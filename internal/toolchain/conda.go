package toolchain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/evalrun/evalrun/cache"
)

// maxInstaller bounds a download; conda's installers are around 100 MB.
const maxInstaller = 1 << 30

// InstallerName is the file the installer is offered to a build as.
const InstallerName = "installer.sh"

// Conda returns a folder that holds the installer of conda, given as a file or
// as a URL; it is fetched once. An empty source gives an empty path. An error
// means that conda cannot be had now.
func Conda(ctx context.Context, source, dir string) (string, error) {
	if source == "" {
		return "", nil
	}
	sum := sha256.Sum256([]byte(source))
	home := filepath.Join(dir, "conda-"+hex.EncodeToString(sum[:8]))
	file := filepath.Join(home, InstallerName)
	if !strings.Contains(source, "://") {
		data, err := os.ReadFile(source)
		if err != nil {
			return "", fmt.Errorf("conda installer: %w", err)
		}
		return home, keep(file, data)
	}
	if _, err := os.Stat(file); err == nil {
		return home, nil
	}
	data, err := download(ctx, source)
	if err != nil {
		return "", fmt.Errorf("conda cannot be reached: %w", err)
	}
	return home, keep(file, data)
}

func keep(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return cache.WriteFile(file, data, 0o755)
}

func download(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: 20 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
	}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxInstaller))
	if err == nil && resp.ContentLength >= 0 && int64(len(data)) != resp.ContentLength {
		err = fmt.Errorf("%s: %d of %d bytes came", url, len(data), resp.ContentLength)
	}
	return data, err
}
