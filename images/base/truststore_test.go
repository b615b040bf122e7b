package base

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Java trusts what this machine does, and loses nothing when it cannot be told.
func TestTruststore(t *testing.T) {
	dir := t.TempDir()
	script := strings.NewReplacer("/run/evalrun", dir, "/dev/shm", dir).Replace(truststore)
	run := func(program string, env ...string) string {
		t.Helper()
		cmd := exec.Command("bash", "-c", "set -euo pipefail\n"+script+program)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if out := run("echo ${JAVA_TOOL_OPTIONS-none}"); out != "none" {
		t.Errorf("without a bundle of certificates: %s", out)
	}
	var bundle []byte
	for i := range 3 {
		bundle = append(append(bundle, "# a comment\n"...), certificate(t, int64(i+1))...)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), bundle, 0o644); err != nil {
		t.Fatal(err)
	}
	if out := run("PATH=$OLD; echo ${JAVA_TOOL_OPTIONS-none}", "OLD="+os.Getenv("PATH"), "PATH="+onlyBash(t)); out != "none" {
		t.Errorf("without Java: %s", out)
	}
	if _, err := exec.LookPath("javac"); err != nil {
		t.Skip("no Java here")
	}
	out := run(`echo $JAVA_TOOL_OPTIONS; unset JAVA_TOOL_OPTIONS; keytool -list -storepass changeit -keystore ` + dir + "/trust.p12")
	if !strings.Contains(out, "trustStore="+dir+"/trust.p12") || strings.Count(out, "trustedCertEntry") != 3 {
		t.Errorf("the store:\n%s", out)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := run("echo ${JAVA_TOOL_OPTIONS-none}"); !strings.HasSuffix(out, "goes on with its own\nnone") {
		t.Errorf("a bundle that is none:\n%s", out)
	}
}

// onlyBash is a folder with bash in it, for a PATH without Java.
func onlyBash(t *testing.T) string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	dir := t.TempDir()
	if err := os.Symlink(bash, filepath.Join(dir, "bash")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func certificate(t *testing.T, serial int64) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
