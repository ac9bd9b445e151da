package ranks

import (
	"encoding/binary"
	"fmt"
	"io"
)

// kind is the kind of a frame.
type kind uint8

const (
	kindChallenge kind = iota + 1
	kindHello
	kindVerdict
	kindBeat
	kindMessage
	kindRoster // rank 0 tells who takes part
	kindReady  // a rank is joined to all others
	kindShape  // of a rank's vectors
	kindPlan   // of the sum of all vectors
	kindPiece  // a rank's share of a chunk, for its owner
	kindSum    // a chunk that its owner has added up
	kindEnd
	kinds // behind the last
)

const (
	headerBytes = 5
	maxFrame    = 64 << 20
	maxStranger = 1 << 20 // before the handshake is over
	maxChunk    = 4 * chunkFloats
)

// bound returns the greatest size of a frame of a kind, among ranks.
func (k kind) bound() uint32 {
	switch k {
	case kindPiece, kindSum:
		return maxChunk
	case kindBeat, kindReady:
		return 0
	default:
		return maxFrame
	}
}

// readFrame reads a frame whose payload has at most limit bytes.
func readFrame(r io.Reader, limit uint32) (kind, []byte, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	length, k := binary.LittleEndian.Uint32(header[:]), kind(header[4])
	if k == 0 || k >= kinds {
		return 0, nil, fmt.Errorf("it sent a frame of the unknown kind %d", k)
	}
	if limit = min(limit, k.bound()); length > limit {
		return 0, nil, fmt.Errorf("it sent a frame of kind %d with %d bytes, want at most %d", k, length, limit)
	}
	payload, err := readPayload(r, int(length))
	if err != nil {
		return 0, nil, err
	}
	return k, payload, nil
}

// readPayload reads n bytes. It allocates memory as bytes arrive, so that a claimed length alone costs little.
func readPayload(r io.Reader, n int) ([]byte, error) {
	const step = 8 << 20
	payload := make([]byte, 0, min(n, step))
	for len(payload) < n {
		more := min(n-len(payload), step)
		payload = append(payload, make([]byte, more)...)
		if _, err := io.ReadFull(r, payload[len(payload)-more:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return payload, nil
}

// writeFrame writes a frame.
func writeFrame(w io.Writer, k kind, payload []byte) error {
	if len(payload) > maxFrame {
		return fmt.Errorf("a frame of %d bytes does not fit into %d", len(payload), maxFrame)
	}
	frame := binary.LittleEndian.AppendUint32(make([]byte, 0, headerBytes+len(payload)), uint32(len(payload)))
	_, err := w.Write(append(append(frame, byte(k)), payload...)) // at once: the other side may end when it has all
	return err
}
