package stream

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
)

// scramMechanism is the client side of SCRAM (RFC 5802, RFC 7677) without channel binding. As Apache Kafka does, it
// takes the password's UTF-8 bytes as they are.
type scramMechanism struct {
	name     string
	hash     func() hash.Hash
	user     string
	password Secret
	nonce    func() string
}

func newScram(name, user string, password Secret) *scramMechanism {
	m := &scramMechanism{name: name, hash: sha256.New, user: user, password: password, nonce: rand.Text}
	if name == saslScram512 {
		m.hash = sha512.New
	}
	return m
}

// Name implements sasl.Mechanism.
func (m *scramMechanism) Name() string { return m.name }

// Start implements sasl.Mechanism: it sends the user's name and a nonce.
func (m *scramMechanism) Start(context.Context) (sasl.StateMachine, []byte, error) {
	s := &scramSession{m: m, nonce: m.nonce()}
	s.first = "n=" + strings.NewReplacer("=", "=3D", ",", "=2C").Replace(m.user) + ",r=" + s.nonce
	return s, []byte(gs2Header + s.first), nil
}

const (
	gs2Header     = "n,,"      // no channel binding, no other identity
	maxIterations = 10_000_000 // a broker that asks for more would keep us busy for ever
	minIterations = 4096       // RFC 7677
)

type scramSession struct {
	m         *scramMechanism
	nonce     string
	first     string // client-first-message-bare
	signature []byte // what the server must prove to know
}

var errScram = errors.New("bad SCRAM message from the broker")

// Next implements sasl.StateMachine: it answers the challenge, then checks that the server knows the password too.
func (s *scramSession) Next(_ context.Context, challenge []byte) (done bool, response []byte, err error) {
	if s.signature == nil {
		response, err = s.answer(string(challenge))
		return false, response, err
	}
	verifier, ok := strings.CutPrefix(string(challenge), "v=")
	got, err := base64.StdEncoding.DecodeString(verifier)
	if !ok || err != nil || subtle.ConstantTimeCompare(got, s.signature) != 1 {
		return false, nil, fmt.Errorf("%w: it does not prove that it knows the password", errScram)
	}
	return true, nil, nil
}

func (s *scramSession) answer(challenge string) ([]byte, error) {
	var nonce, salt64 string
	var iterations int
	for field := range strings.SplitSeq(challenge, ",") {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "r":
			nonce = value
		case "s":
			salt64 = value
		case "i":
			var err error
			if iterations, err = strconv.Atoi(value); err != nil {
				return nil, fmt.Errorf("%w: iteration count %q", errScram, value)
			}
		}
	}
	salt, err := base64.StdEncoding.DecodeString(salt64)
	switch {
	case !strings.HasPrefix(nonce, s.nonce) || len(nonce) == len(s.nonce):
		return nil, fmt.Errorf("%w: its nonce does not continue ours", errScram)
	case err != nil || len(salt) == 0:
		return nil, fmt.Errorf("%w: salt %q", errScram, salt64)
	case iterations < minIterations || iterations > maxIterations:
		return nil, fmt.Errorf("%w: %d iterations, want %d..%d", errScram, iterations, minIterations, maxIterations)
	}
	size := s.m.hash().Size()
	salted, err := pbkdf2.Key(s.m.hash, string(s.m.password), salt, iterations, size)
	if err != nil {
		return nil, fmt.Errorf("deriving the SCRAM key: %w", err)
	}
	final := "c=" + base64.StdEncoding.EncodeToString([]byte(gs2Header)) + ",r=" + nonce
	message := s.first + "," + challenge + "," + final
	clientKey := s.mac(salted, "Client Key")
	stored := s.m.hash()
	stored.Write(clientKey)
	proof := s.mac(stored.Sum(nil), message)
	subtle.XORBytes(proof, proof, clientKey)
	s.signature = s.mac(s.mac(salted, "Server Key"), message)
	return []byte(final + ",p=" + base64.StdEncoding.EncodeToString(proof)), nil
}

func (s *scramSession) mac(key []byte, message string) []byte {
	h := hmac.New(s.m.hash, key)
	h.Write([]byte(message))
	return h.Sum(nil)
}
