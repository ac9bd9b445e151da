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

// version is that of the frames and of what they hold.
const version = 1

// handshakeTimeout bounds how long a stranger keeps a connection.
const handshakeTimeout = 10 * time.Second

// Fact is something that must be equal on all ranks.
type Fact struct{ Name, Value string }

// challenge opens a connection, from the leader.
type challenge struct {
	Version int
	Nonce   []byte
}

// hello answers it.
type hello struct {
	Version, Rank, World int
	Nonce                []byte
	Facts                []Fact
	Proof                []byte `json:",omitempty"` // of the token, over all the rest and the challenge
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
func (h hello) proof(token string, nonce []byte) ([]byte, error) {
	h.Proof = nil
	raw, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return prove(token, "joins", nonce, raw), nil
}

// greet shakes hands with a rank, as the leader. An error that is no errStranger comes from a rank of this training,
// which was told.
func greet(conn net.Conn, o Options) (rank int, err error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return 0, err
	}
	nonce := newNonce()
	if err := writeJSON(conn, kindChallenge, challenge{version, nonce}); err != nil {
		return 0, fmt.Errorf("%w: %w", errStranger, err)
	}
	var h hello
	if err := readJSON(conn, kindHello, &h); err != nil {
		return 0, fmt.Errorf("%w: %w", errStranger, err)
	}
	if h.Version != version {
		err := fmt.Errorf("it speaks version %d of the exchange between ranks and rank 0 speaks %d: want the same release on all ranks", h.Version, version)
		return h.Rank, errors.Join(err, writeJSON(conn, kindVerdict, verdict{Refused: err.Error()}))
	}
	want, err := h.proof(o.Token, nonce)
	if err != nil {
		return 0, err
	}
	if !hmac.Equal(h.Proof, want) {
		refused := verdict{Refused: "RANK_TOKEN differs: want one secret on all ranks"}
		return 0, errors.Join(fmt.Errorf("%w: it does not know RANK_TOKEN", errStranger), writeJSON(conn, kindVerdict, refused))
	}
	if err := o.admit(h); err != nil {
		return h.Rank, errors.Join(err, writeJSON(conn, kindVerdict, verdict{Refused: err.Error()}))
	}
	if err := writeJSON(conn, kindVerdict, verdict{Proof: prove(o.Token, "leads", h.Nonce, nonce)}); err != nil {
		return h.Rank, err
	}
	return h.Rank, conn.SetDeadline(time.Time{})
}

// admit says why a rank cannot take part.
func (o Options) admit(h hello) error {
	if h.World != o.World {
		return fmt.Errorf("WORLD_SIZE is %d on rank %d and %d on rank 0: want one value on all ranks", h.World, h.Rank, o.World)
	}
	if h.Rank < 1 || h.Rank >= o.World {
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

// differences lists the facts that are not equal, in the order of ours.
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

// errRefused marks the leader's refusal. Another attempt would fail in the same way.
var errRefused = errors.New("rank 0 refuses this rank")

// introduce shakes hands with the leader.
func introduce(conn net.Conn, o Options) error {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	var c challenge
	if err := readJSON(conn, kindChallenge, &c); err != nil {
		return err
	}
	h := hello{Version: version, Rank: o.Rank, World: o.World, Nonce: newNonce(), Facts: o.Facts}
	var err error
	if h.Proof, err = h.proof(o.Token, c.Nonce); err != nil {
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
		return fmt.Errorf("%w: %s", errRefused, v.Refused)
	}
	if c.Version != version || !hmac.Equal(v.Proof, prove(o.Token, "leads", h.Nonce, c.Nonce)) {
		return fmt.Errorf("%w: what answers at MASTER_ADDR does not know RANK_TOKEN", errRefused)
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
