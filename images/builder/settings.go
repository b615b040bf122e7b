package builder

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/evalrun/evalrun/images"
)

// maxSecret is what BuildKit accepts for one secret.
const maxSecret = 500 << 10

// Settings are what this machine needs to reach package indexes. They reach
// build steps as secrets: never part of a layer, a key or a report.
type Settings struct {
	Env     []string // NAME=value
	CA      []byte   // certificate bundle
	CondaRC []byte   // conda's configuration: its channels

	Composer []byte // Composer's own config.json: its repositories
}

// proxies are the settings a Dockerfile's steps get without asking: build
// arguments the frontend knows, which are in no layer, history or cache key.
// Everything else its steps have to mount as a secret.
func (s Settings) proxies() map[string]string {
	found := map[string]string{}
	for _, kv := range s.Env {
		name, value, _ := strings.Cut(kv, "=")
		if strings.HasSuffix(strings.ToLower(name), "_proxy") && !strings.Contains(name, "PIP") {
			found[name] = value
		}
	}
	return found
}

// passed are the variables handed to build steps as they are. Those that name
// files or folders of this machine are left out: they would point nowhere.
var passed = []string{
	"http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
	"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_TIMEOUT", "PIP_DEFAULT_TIMEOUT", "PIP_RETRIES", "PIP_PROXY", "PIP_NO_INDEX",
	"npm_config_registry", "NPM_CONFIG_REGISTRY", "YARN_REGISTRY",
	"GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GONOPROXY", "GOINSECURE",
	"CARGO_REGISTRIES_CRATES_IO_PROTOCOL", "CARGO_NET_RETRY", "BUNDLE_MIRROR__ALL", "MAVEN_ARGS",
}

// HostSettings collects the settings of this machine.
func HostSettings() Settings {
	var s Settings
	have := map[string]bool{}
	add := func(name, value string) {
		if value != "" && !have[name] {
			have[name] = true
			s.Env = append(s.Env, name+"="+value)
		}
	}
	for _, name := range passed {
		add(name, os.Getenv(name))
	}
	if links := os.Getenv("PIP_FIND_LINKS"); strings.Contains(links, "://") {
		add("PIP_FIND_LINKS", links)
	}
	for key, value := range pipConfig() {
		add("PIP_"+strings.ToUpper(strings.ReplaceAll(key, "-", "_")), value)
	}
	if !have["GOPROXY"] {
		if out, err := exec.Command("go", "env", "GOPROXY").Output(); err == nil {
			add("GOPROXY", strings.TrimSpace(string(out)))
		}
	}
	s.CA = caBundle()
	if home, err := os.UserHomeDir(); err == nil {
		s.CondaRC = firstFile(filepath.Join(home, ".condarc"))
		s.Composer = firstFile(filepath.Join(home, ".config", "composer", "config.json"), filepath.Join(home, ".composer", "config.json"))
	}
	if home := os.Getenv("COMPOSER_HOME"); home != "" {
		s.Composer = firstFile(filepath.Join(home, "config.json"))
	}
	return s
}

// firstFile is the content of the first of the files that is there.
func firstFile(names ...string) []byte {
	for _, name := range names {
		if data, err := os.ReadFile(name); err == nil && len(data) > 0 && len(data) <= maxSecret {
			return data
		}
	}
	return nil
}

// pipConfig reads the index settings of pip's own configuration files.
func pipConfig() map[string]string {
	values := map[string]string{}
	files := []string{"/etc/pip.conf"}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".pip", "pip.conf"), filepath.Join(home, ".config", "pip", "pip.conf"))
	}
	if f := os.Getenv("PIP_CONFIG_FILE"); f != "" {
		files = append(files, f)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		section := ""
		for sc := bufio.NewScanner(f); sc.Scan(); {
			line := strings.TrimSpace(sc.Text())
			if strings.HasPrefix(line, "[") {
				section = strings.Trim(line, "[]")
				continue
			}
			key, value, ok := strings.Cut(line, "=")
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			if !ok || section != "global" && section != "install" {
				continue
			}
			switch key {
			case "index-url", "extra-index-url", "trusted-host", "timeout", "retries", "proxy":
				values[key] = value
			}
		}
		f.Close()
	}
	return values
}

// caBundle is the certificate bundle of this machine. A company's own root is
// often only there, and not in the base.
func caBundle() []byte {
	return firstFile(os.Getenv("SSL_CERT_FILE"), os.Getenv("PIP_CERT"), os.Getenv("REQUESTS_CA_BUNDLE"), "/etc/ssl/certs/ca-certificates.crt")
}

// secrets renders the settings for the build steps; sources is the list of
// package mirrors of the base's suite.
func (s Settings) secrets(sources string) map[string][]byte {
	m := map[string][]byte{}
	var env strings.Builder
	for _, kv := range s.Env {
		name, value, _ := strings.Cut(kv, "=")
		fmt.Fprintf(&env, "%s=%s\n", name, images.ShellQuote(value))
	}
	m["evalrun-env"] = []byte(env.String())
	if len(s.CA) > 0 {
		m["evalrun-ca"] = s.CA
	}
	if len(s.CondaRC) > 0 {
		m["evalrun-condarc"] = s.CondaRC
	}
	if len(s.Composer) > 0 {
		m["evalrun-composer"] = s.Composer
	}
	if sources != "" {
		m["evalrun-sources"] = []byte(sources)
		m["evalrun-apt"] = []byte("Dir::Etc::sourcelist \"/run/evalrun/sources.list\";\nDir::Etc::sourceparts \"-\";\n" +
			"Acquire::Retries \"5\";\nAcquire::https::CaInfo \"/run/evalrun/ca.crt\";\n")
	}
	return m
}
