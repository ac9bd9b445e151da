package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// authority signs certificates for tests. Its files are in dir.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue writes name.pem and name.key.
func (a *authority) issue(t *testing.T, name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	c.SerialNumber, c.Subject = big.NewInt(1), pkix.Name{CommonName: name}
	c.NotBefore = time.Now().Add(-time.Hour)
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer))(t)
	keyDER := must.Get(x509.MarshalECPrivateKey(key))(t)
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		must.Do(t, os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(block), 0o600))
	}
	parsed := must.Get(x509.ParseCertificate(der))(t)
	return parsed, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// server returns a configuration that serves the certificate that was issued under name.
func (a *authority) server(t *testing.T, name string) *tls.Config {
	t.Helper()
	pair := must.Get(tls.LoadX509KeyPair(a.file(name+".pem"), a.file(name+".key")))(t)
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

const testPassword = "correct horse"

func TestConnectRefuses(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	loopback := []net.IP{net.IPv4(127, 0, 0, 1)}
	ca.issue(t, "good", &x509.Certificate{IPAddresses: loopback})
	ca.issue(t, "elsewhere", &x509.Certificate{DNSNames: []string{"kafka.example"}})
	ca.issue(t, "expired", &x509.Certificate{IPAddresses: loopback, NotAfter: time.Now().Add(-time.Minute)})
	plain := startBroker(t, broker.Options{})
	good := startBroker(t, broker.Options{TLS: ca.server(t, "good")})
	elsewhere := startBroker(t, broker.Options{TLS: ca.server(t, "elsewhere")})
	expired := startBroker(t, broker.Options{TLS: ca.server(t, "expired")})
	wantsCert := ca.server(t, "good")
	wantsCert.ClientAuth, wantsCert.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	wantsCert.ClientCAs.AddCert(ca.cert)
	mutual := startBroker(t, broker.Options{TLS: wantsCert})
	password := startBroker(t, broker.Options{SASL: saslPlain, User: "user", Pass: testPassword})
	scram := startBroker(t, broker.Options{SASL: saslScram512, User: "user", Pass: testPassword})
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	must.Do(t, err)
	t.Cleanup(func() { _ = silent.Close() })

	with := func(addr string, set ...func(*Config)) Config {
		cfg := testConfig(addr, "", 1)
		for _, f := range set {
			f(&cfg)
		}
		return cfg
	}
	useTLS := func(ca string) func(*Config) { return func(c *Config) { c.TLS, c.TLSCA = true, ca } }
	useSASL := func(mechanism, pass string) func(*Config) {
		return func(c *Config) { c.SASL, c.SASLUser, c.SASLPassword = mechanism, "user", display.Secret(pass) }
	}
	noCert := other.file("ca.key") // PEM, but no certificate
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"nothing listens":         {with("127.0.0.1:1"), "KAFKA_BROKERS=127.0.0.1:1: nothing listens there"},
		"nobody answers":          {with(silent.Addr().String()), "KAFKA_BROKERS=" + silent.Addr().String() + ": no broker answers"},
		"no brokers":              {with("127.0.0.1:1", func(c *Config) { c.Brokers = nil }), "KAFKA_BROKERS is empty"},
		"another authority":       {with(good.Addr(), useTLS(other.file("ca.pem"))), "KAFKA_TLS_CA=" + other.file("ca.pem")},
		"no authority":            {with(good.Addr(), useTLS("")), "KAFKA_TLS_CA="},
		"missing file":            {with(good.Addr(), useTLS(ca.file("none.pem"))), "KAFKA_TLS_CA: open " + ca.file("none.pem")},
		"file without a cert":     {with(good.Addr(), useTLS(noCert)), "KAFKA_TLS_CA=" + noCert + ": holds no PEM certificate"},
		"wrong host name":         {with(elsewhere.Addr(), useTLS(ca.file("ca.pem"))), "KAFKA_TLS_SERVER_NAME=: the broker's certificate is for another name"},
		"wrong server name":       {with(good.Addr(), useTLS(ca.file("ca.pem")), func(c *Config) { c.TLSServerName = "kafka.example" }), "KAFKA_TLS_SERVER_NAME=kafka.example"},
		"expired":                 {with(expired.Addr(), useTLS(ca.file("ca.pem"))), "certificate is not valid"},
		"plaintext to a TLS port": {with(good.Addr()), "KAFKA_TLS=false: the broker's port speaks TLS"},
		"TLS to a plaintext port": {with(plain.Addr(), useTLS(ca.file("ca.pem"))), "KAFKA_TLS=true"},
		"no client certificate":   {with(mutual.Addr(), useTLS(ca.file("ca.pem"))), "KAFKA_TLS_CERT=: the broker refused the TLS connection"},
		"bad client certificate": {
			with(mutual.Addr(), useTLS(ca.file("ca.pem")), func(c *Config) { c.TLSCert, c.TLSKey = other.file("ca.pem"), other.file("ca.key") }),
			"KAFKA_TLS_CERT=" + other.file("ca.pem"),
		},
		"key of another":       {with(good.Addr(), useTLS(ca.file("ca.pem")), func(c *Config) { c.TLSCert, c.TLSKey = ca.file("good.pem"), ca.file("ca.key") }), "KAFKA_TLS_KEY="},
		"wrong password":       {with(password.Addr(), useSASL(saslPlain, "wrong horse")), "KAFKA_SASL_USER=user, KAFKA_SASL_PASSWORD: the broker refused them"},
		"wrong SCRAM password": {with(scram.Addr(), useSASL(saslScram512, "wrong horse")), "KAFKA_SASL_USER=user, KAFKA_SASL_PASSWORD: the broker refused them"},
		"wrong mechanism":      {with(scram.Addr(), useSASL(saslPlain, testPassword)), "KAFKA_SASL=PLAIN"},
		"no password":          {with(scram.Addr()), "KAFKA_SASL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := Connect(t.Context(), c.cfg, Options{})
			if err == nil {
				l.Close()
				t.Fatal("connected")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), " horse") {
				t.Errorf("want one line without the password, got %q", err)
			}
		})
	}
}

func TestExplainNamesAnUnknownHost(t *testing.T) {
	err := explain(Config{}, &brokerError{"nowhere:9092", &net.DNSError{Name: "nowhere", IsNotFound: true}})
	if want := "KAFKA_BROKERS=nowhere:9092: the host is not known"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %s, want %s", err, want)
	}
}

// TestSecureConnections writes, reads and joins a group over TLS and each kind of authentication. Every part of the
// package connects by itself.
func TestSecureConnections(t *testing.T) {
	ca := newAuthority(t)
	ca.issue(t, "broker", &x509.Certificate{DNSNames: []string{"kafka.example"}})
	ca.issue(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	for _, mechanism := range []string{saslPlain, saslScram256, saslScram512} {
		t.Run(mechanism, func(t *testing.T) {
			server := ca.server(t, "broker")
			server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
			server.ClientCAs.AddCert(ca.cert)
			b := startBroker(t, broker.Options{TLS: server, SASL: mechanism, User: "us,er=", Pass: testPassword})
			cfg := testConfig(b.Addr(), "", 2)
			cfg.TLS, cfg.TLSCA, cfg.TLSServerName = true, ca.file("ca.pem"), "kafka.example"
			cfg.TLSCert, cfg.TLSKey = ca.file("client.pem"), ca.file("client.key")
			cfg.SASL, cfg.SASLUser, cfg.SASLPassword = mechanism, "us,er=", testPassword
			c := connect(t, cfg)
			write(t, c, 1, "one", "two")
			rec, found, err := c.LastWhere(t.Context(), schemas.Pairs, 1, func(*Record) bool { return true })
			if err != nil || !found || string(rec.Value) != "two" || rec.Schema != schemas.SchemaPair {
				t.Errorf("the last record is %q of schema %q, %v", rec.Value, rec.Schema, err)
			}
			if id, err := c.TopicID(t.Context(), schemas.Pairs); err != nil || id == "" {
				t.Errorf("the topic has the id %q, %v", id, err)
			}
			group := must.Get(c.JoinGroup("reader", schemas.Pairs))(t)
			gen := must.Get(group.Next(t.Context()))(t)
			said := NewCommits(nil)
			said.Reached(schemas.Pairs, 1, 2)
			must.Do(t, gen.Commit(t.Context(), said))
			must.Do(t, group.Leave(func() {}))
			lags := must.Get(c.Lag(t.Context(), "reader", schemas.Pairs))(t)
			if len(gen.Lanes) != 2 || lags[1].Committed != 2 {
				t.Errorf("the group gave the lanes %v, and knows %+v", gen.Lanes, lags)
			}
		})
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	cfg := DefaultConfig()
	cfg.SASLPassword = testPassword
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	logger.Info("configuration", "cfg", cfg, "password", cfg.SASLPassword)
	json := must.Get(cfg.SASLPassword.MarshalText())(t)
	for _, got := range []string{
		fmt.Sprint(cfg), fmt.Sprintf("%v", cfg), fmt.Sprintf("%+v", cfg), fmt.Sprintf("%#v", cfg), cfg.SASLPassword.String(),
		fmt.Sprintf("%q", cfg.SASLPassword), log.String(), string(json),
	} {
		if strings.Contains(got, "horse") {
			t.Errorf("the password is in %q", got)
		}
	}
}

// TestScram checks what a false broker may say. The exchange with a right one is a part of TestSecureLog.
func TestScram(t *testing.T) {
	const ours, salt = "OUR-NONCE", "W22ZaJ0SNY7soEsUEjb6gQ=="
	const challenge = "r=" + ours + "and-more,s=" + salt + ",i=4096"
	for name, c := range map[string]struct {
		challenge, verifier string
		answered            bool // the challenge alone is as it should be
	}{
		"a wrong proof":             {challenge, "v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", true},
		"no proof":                  {challenge, "v=", true},
		"an error":                  {challenge, "e=other-error", true},
		"our nonce only":            {"r=" + ours + ",s=" + salt + ",i=4096", "v=", true},
		"a nonce of its own":        {"r=abc,s=" + salt + ",i=4096", "", false},
		"no salt":                   {"r=" + ours + "and-more,i=4096", "", false},
		"few iterations":            {"r=" + ours + "and-more,s=" + salt + ",i=1", "", false},
		"iterations without end":    {"r=" + ours + "and-more,s=" + salt + ",i=2000000000", "", false},
		"a strange iteration count": {"r=" + ours + "and-more,s=" + salt + ",i=many", "", false},
		"nothing":                   {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := must.Get(newScram(saslScram256, "user", "pencil"))(t)
			s, first := must.Get2(m.Start(t.Context()))(t)
			_, nonce, ok := strings.Cut(string(first), "n,,n=user,r=")
			if !ok || nonce == "" {
				t.Fatalf("first message is %q", first)
			}
			done, _, err := s.Next(t.Context(), []byte(strings.ReplaceAll(c.challenge, ours, nonce)))
			if (err == nil) != c.answered || done {
				t.Fatalf("the challenge: done %v, error %v", done, err)
			}
			if !c.answered {
				return
			}
			if _, _, err := s.Next(t.Context(), []byte(c.verifier)); err == nil {
				t.Error("the broker is taken for one that knows the password")
			}
		})
	}
	if _, err := newScram(saslScram256, "user", "\x00"); err == nil || !strings.Contains(err.Error(), "KAFKA_SASL_PASSWORD") {
		t.Errorf("a password that cannot be sent: %v", err)
	}
}

func TestPlainWithoutTLSWarns(t *testing.T) {
	b := startBroker(t, broker.Options{SASL: saslPlain, User: "user", Pass: testPassword})
	cfg := testConfig(b.Addr(), "", 1)
	cfg.SASL, cfg.SASLUser, cfg.SASLPassword = saslPlain, "user", testPassword
	var out strings.Builder
	c := must.Get(Connect(t.Context(), cfg, Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}))(t)
	c.Close()
	if !strings.Contains(out.String(), "KAFKA_TLS=true") || strings.Contains(out.String(), "horse") {
		t.Errorf("logged %q", out.String())
	}
}
