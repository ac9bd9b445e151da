package ranks

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Connections are encrypted by TLS 1.3, without handing out certificates: each process makes its own, and the token
// alone proves membership. The proofs also cover the secrets of the connection. So a proof is worthless on another
// connection, and a man in the middle cannot use it.

// secured is a connection after the TLS handshake.
type secured struct {
	*tls.Conn
	binding []byte // known only to the two ends of this connection
}

// secure encrypts a connection, until the deadline of a handshake. It closes one that it cannot encrypt.
func secure(ctx context.Context, conn net.Conn, c *tls.Config, accepted bool) (secured, error) {
	over := tls.Client(conn, c)
	if accepted {
		over = tls.Server(conn, c)
	}
	hurried, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := over.HandshakeContext(hurried); err != nil {
		_ = conn.Close()
		return secured{}, fmt.Errorf("encrypting the connection: %w", err)
	}
	state := over.ConnectionState()
	binding, err := state.ExportKeyingMaterial("EXPORTER-pairstream-ranks", nil, 32)
	if err != nil {
		_ = conn.Close()
		return secured{}, fmt.Errorf("encrypting the connection: %w", err)
	}
	return secured{over, binding}, nil
}

// newTLS makes a key for this process.
func newTLS() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(100, 0, 0)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates:           []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}},
		MinVersion:             tls.VersionTLS13,
		InsecureSkipVerify:     true, // the proofs of the token replace names
		SessionTicketsDisabled: true,
	}, nil
}
