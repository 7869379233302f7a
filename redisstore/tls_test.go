//go:build unix

package redisstore

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// selfSigned writes a certificate for a host's name, and its key.
func selfSigned(t *testing.T, host string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "EC PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// A server that wants TLS, and a certificate of its clients too.
func TestTLS(t *testing.T) {
	cert, key := selfSigned(t, "redis.internal")
	port := freePort(t)
	startServer(t, "--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	url := fmt.Sprintf("rediss://127.0.0.1:%d/0?ca=%s", port, cert)

	w := newWorker(t, url+"&server_name=redis.internal&cert="+cert+"&key="+key, coolDown(time.Hour))
	other := newWorker(t, url+"&server_name=redis.internal&cert="+cert+"&key="+key, coolDown(time.Hour))
	w.fail(3)
	other.becomes(fusebox.Open)

	for what, url := range map[string]string{
		"without the client's certificate": url + "&server_name=redis.internal",
		"under another name":               url + "&server_name=elsewhere&cert=" + cert + "&key=" + key,
	} {
		if _, err := openStore(t, url).Apply(t.Context(), name, fusebox.Policy{}); err == nil {
			t.Errorf("it connected %s", what)
		}
	}
}
