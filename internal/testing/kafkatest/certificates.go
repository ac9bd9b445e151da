package kafkatest

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
	"time"
)

// certificateName is the only name in the brokers' certificates. A client that dials 127.0.0.1 must refuse them.
const certificateName = "localhost"

// certificates are the files that a cluster with TLS needs; Kafka reads PEM stores directly.
type certificates struct {
	ca, otherCA           string
	clientCert, clientKey string
	brokerStore           string // key, then certificate: Kafka's PEM key store
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of %s: %w", name, err)
	}
	template := certificateTemplate(name)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of %s: %w", name, err)
	}
	return &authority{cert, key, encodePEM("CERTIFICATE", der)}, nil
}

// issue returns the PEM of a certificate and of its key (PKCS #8, the only form that Kafka reads).
func (a *authority) issue(name string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making the key of %s: %w", name, err)
	}
	template := certificateTemplate(name)
	template.DNSNames = []string{name}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("making the certificate of %s: %w", name, err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the key of %s: %w", name, err)
	}
	return encodePEM("CERTIFICATE", der), encodePEM("PRIVATE KEY", pkcs8), nil
}

func certificateTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(48 * time.Hour),
	}
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// writeCertificates makes two authorities, and a certificate each for the brokers and for a client. The brokers know
// only the first authority.
func writeCertificates(dir string) (certificates, error) {
	at := func(name string) string { return filepath.Join(dir, name) }
	c := certificates{at("ca.pem"), at("other-ca.pem"), at("client.pem"), at("client-key.pem"), at("broker.pem")}
	ca, err := newAuthority("pairstream test CA")
	if err != nil {
		return c, err
	}
	other, err := newAuthority("another CA")
	if err != nil {
		return c, err
	}
	brokerCert, brokerKey, err := ca.issue(certificateName)
	if err != nil {
		return c, err
	}
	clientCert, clientKey, err := ca.issue("client")
	if err != nil {
		return c, err
	}
	for path, content := range map[string][]byte{
		c.ca: ca.pem, c.otherCA: other.pem, c.clientCert: clientCert, c.clientKey: clientKey,
		c.brokerStore: append(brokerKey, brokerCert...),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return c, fmt.Errorf("writing a certificate: %w", err)
		}
	}
	return c, nil
}
