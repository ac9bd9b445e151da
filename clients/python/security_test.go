package python

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// identity makes a key and a certificate for 127.0.0.1 that signs itself, and writes both as PEM files.
func identity(t *testing.T, dir, name string) (pair tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Do(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	pkcs8 := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		must.Do(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	if pair, err = tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		t.Fatal(err)
	}
	return pair, certFile, keyFile
}

// TestSecuredBroker publishes and reads through TLS with a client's certificate and a password, set by the variables of
// the Go programs. Whoever lacks one of them gets an error, and no silence.
func TestSecuredBroker(t *testing.T) {
	run := python(t, "msgpack", "confluent_kafka")
	dir := t.TempDir()
	server, ca, _ := identity(t, dir, "broker")
	_, cert, key := identity(t, dir, "client")
	_, other, _ := identity(t, dir, "other")
	trusted := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !trusted.AppendCertsFromPEM(text) {
		t.Fatal("no certificate of the client", err)
	}
	broker := must.Get(broker.Start(broker.Options{
		TLS:  &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12},
		SASL: "SCRAM-SHA-256", User: "alice", Pass: "right",
	}))(t)
	t.Cleanup(func() { _ = broker.Close() }) // the test has ended: nothing is lost with it
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes, cfg.Namespace = []string{broker.Addr()}, 1, "py"
	cfg.TLS, cfg.TLSCA, cfg.TLSCert, cfg.TLSKey = true, ca, cert, key
	cfg.SASL, cfg.SASLUser, cfg.SASLPassword = "SCRAM-SHA-256", "alice", "right"
	log := must.Get(stream.Connect(t.Context(), cfg, stream.Options{}))(t)
	t.Cleanup(log.Close)
	must.Do(t, log.EnsureTopics(t.Context()))
	p := log.NewPublisher(stream.PublisherOptions{})
	rec, _ := golden(t, "scored-batch")
	for seq, r := range []schemas.Record{rec, &schemas.Seal{Final: true}} {
		must.Do(t, p.PublishSeq(t.Context(), schemas.Scored, 0, int64(seq), stream.Mark{}, r))
	}
	must.Do(t, p.Close(t.Context()))
	for name, value := range map[string]string{
		"KAFKA_BROKERS": broker.Addr(), "NAMESPACE": "py", "KAFKA_TLS": "true", "KAFKA_TLS_CA": ca, "KAFKA_TLS_CERT": cert, "KAFKA_TLS_KEY": key,
		"KAFKA_SASL": "SCRAM-SHA-256", "KAFKA_SASL_USER": "alice", "KAFKA_SASL_PASSWORD": "right",
	} {
		t.Setenv(name, value)
	}
	picture := filepath.Join(dir, "cat.jpg")
	must.Do(t, os.WriteFile(picture, []byte("\xff\xd8 bytes"), 0o600))
	mustRun(t, run, "-m", "pairstream", "publish", picture, "a cat")
	if got := lastPair(t, log, 0); got.Caption != "a cat" {
		t.Errorf("published %q", got.Caption)
	}
	read := []string{"-m", "pairstream", "read", "--topic", "scored", "--timeout", "8"}
	if lines := strings.Count(mustRun(t, run, read...), "\n"); lines != 1 {
		t.Errorf("read %d batches, want 1", lines)
	}
	for name, change := range map[string]map[string]string{
		"another CA":     {"KAFKA_TLS_CA": other},
		"no certificate": {"KAFKA_TLS_CERT": "", "KAFKA_TLS_KEY": ""},
		"wrong password": {"KAFKA_SASL_PASSWORD": "wrong"},
		"no encryption":  {"KAFKA_TLS": "false", "KAFKA_TLS_CA": "", "KAFKA_TLS_CERT": "", "KAFKA_TLS_KEY": ""},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range change {
				t.Setenv(variable, value)
			}
			if out, err := run("", read...); err == nil || !strings.Contains(err.Error(), "pairstream: ") {
				t.Errorf("read %q, error %v", out, err)
			}
		})
	}
}
