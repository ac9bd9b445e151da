package ranks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// version is the version of the frames and their contents.
const version = 3

// handshakeTimeout bounds how long a stranger keeps a connection.
const handshakeTimeout = 10 * time.Second

// Fact is a fact that must be equal on all ranks.
type Fact struct{ Name, Value string }

// challenge opens a connection, from the rank that accepts it.
type challenge struct {
	Version int
	Nonce   []byte
}

// hello answers it.
type hello struct {
	Version, Rank, World int
	To                   int    // the rank that it wants to reach
	Session              []byte `json:",omitempty"` // begun by rank 0; to a rank above 0
	Address              string `json:",omitempty"` // where it listens for ranks above it; to rank 0
	Nonce                []byte
	Facts                []Fact // to rank 0
	Proof                []byte `json:",omitempty"` // of the token, over all the rest, the challenge and the connection
}

// verdict ends the handshake.
type verdict struct {
	Refused string // why; empty: welcome
	Proof   []byte // of the token, over the hello
}

// errStranger marks a peer that does not know the token, or does not speak the protocol.
var errStranger = errors.New("no rank of this training")

// prove returns the proof that a side knows the token.
func prove(token, side string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(h, "pairstream ranks %d %s", version, side)
	for _, p := range parts {
		digest := sha256.Sum256(p)
		h.Write(digest[:])
	}
	return h.Sum(nil)
}

func newNonce() []byte {
	nonce := make([]byte, 32)
	_, _ = rand.Read(nonce) // it never fails
	return nonce
}

// proof returns the proof that a hello carries.
func (h hello) proof(token string, nonce, binding []byte) ([]byte, error) {
	h.Proof = nil
	raw, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return prove(token, "joins", binding, nonce, raw), nil
}

// greet shakes hands with a connecting rank, and returns its hello. admit returns why that rank cannot take part. An
// error other than errStranger comes from a rank of this training, which was told.
func greet(conn net.Conn, binding []byte, o Options, admit func(hello) error) (h hello, err error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return h, err
	}
	nonce := newNonce()
	if err := writeJSON(conn, kindChallenge, challenge{version, nonce}); err != nil {
		return h, fmt.Errorf("%w: %w", errStranger, err)
	}
	if err := readJSON(conn, kindHello, &h); err != nil {
		return h, fmt.Errorf("%w: %w", errStranger, err)
	}
	if h.Version != version {
		err := fmt.Errorf("it speaks version %d of the exchange between ranks and rank %d speaks %d: want the same release on all ranks", h.Version, o.Rank, version)
		return h, errors.Join(err, writeJSON(conn, kindVerdict, verdict{Refused: err.Error()}))
	}
	want, err := h.proof(o.Token, nonce, binding)
	if err != nil {
		return h, err
	}
	if !hmac.Equal(h.Proof, want) {
		refused := verdict{Refused: "RANK_TOKEN differs: want one secret on all ranks"}
		return h, errors.Join(fmt.Errorf("%w: it does not know RANK_TOKEN", errStranger), writeJSON(conn, kindVerdict, refused))
	}
	if err := admit(h); err != nil {
		return h, errors.Join(err, writeJSON(conn, kindVerdict, verdict{Refused: err.Error()}))
	}
	if err := writeJSON(conn, kindVerdict, verdict{Proof: prove(o.Token, "accepts", binding, h.Nonce, nonce)}); err != nil {
		return h, err
	}
	return h, conn.SetDeadline(time.Time{})
}

// admit returns why a rank cannot take part, as rank 0.
func (o Options) admit(h hello) error {
	if h.World != o.World {
		return fmt.Errorf("WORLD_SIZE is %d on rank %d and %d on rank 0: want one value on all ranks", h.World, h.Rank, o.World)
	}
	if h.Rank < 1 || h.Rank >= o.World || h.To != 0 {
		return fmt.Errorf("RANK is %d, want 1 to %d beside rank 0", h.Rank, o.World-1)
	}
	if differ := differences(o.Facts, h.Facts); len(differ) > 0 {
		var lines []string
		for _, d := range differ {
			lines = append(lines, fmt.Sprintf("%s is %s on rank %d and %s on rank 0", d.name, d.theirs, h.Rank, d.ours))
		}
		return fmt.Errorf("%s: want one value on all ranks", strings.Join(lines, "; "))
	}
	return nil
}

type difference struct{ name, ours, theirs string }

// differences lists the facts that differ, in our order.
func differences(ours, theirs []Fact) (found []difference) {
	values := make(map[string]string)
	for _, f := range theirs {
		values[f.Name] = f.Value
	}
	for _, f := range ours {
		v, known := values[f.Name]
		delete(values, f.Name)
		switch {
		case !known:
			found = append(found, difference{f.Name, quoted(f.Value), "unknown"})
		case v != f.Value:
			found = append(found, difference{f.Name, quoted(f.Value), quoted(v)})
		}
	}
	for _, f := range theirs {
		if v, left := values[f.Name]; left {
			found = append(found, difference{f.Name, "unknown", quoted(v)})
		}
	}
	return found
}

func quoted(v string) string {
	if v == "" || strings.ContainsAny(v, " \t\n\"") {
		return fmt.Sprintf("%q", v)
	}
	return v
}

// refusal is the end of a handshake that would end in the same way again.
type refusal string

func (r refusal) Error() string { return string(r) }

func isRefusal(err error) bool { return errors.As(err, new(refusal)) }

// introduce shakes hands with the rank that h wants to reach.
func introduce(conn net.Conn, binding []byte, o Options, h hello) error {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	var c challenge
	if err := readJSON(conn, kindChallenge, &c); err != nil {
		return err
	}
	h.Version, h.Rank, h.World, h.Nonce = version, o.Rank, o.World, newNonce()
	var err error
	if h.Proof, err = h.proof(o.Token, c.Nonce, binding); err != nil {
		return err
	}
	if err := writeJSON(conn, kindHello, h); err != nil {
		return err
	}
	var v verdict
	if err := readJSON(conn, kindVerdict, &v); err != nil {
		return err
	}
	if v.Refused != "" {
		return refusal(fmt.Sprintf("rank %d refuses this rank: %s", h.To, v.Refused))
	}
	if c.Version != version || !hmac.Equal(v.Proof, prove(o.Token, "accepts", binding, h.Nonce, c.Nonce)) {
		return refusal(fmt.Sprintf("what answers at %s in the place of rank %d does not know RANK_TOKEN", conn.RemoteAddr(), h.To))
	}
	return conn.SetDeadline(time.Time{})
}

func writeJSON(conn net.Conn, k kind, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFrame(conn, k, raw)
}

func readJSON(conn net.Conn, want kind, v any) error {
	k, payload, err := readFrame(conn, maxStranger)
	if err != nil {
		return err
	}
	if k != want {
		return fmt.Errorf("it sent a frame of kind %d, want %d", k, want)
	}
	return json.Unmarshal(payload, v)
}
