package ranks

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// kind says what a frame is.
type kind uint8

const (
	kindChallenge kind = iota + 1
	kindHello
	kindVerdict
	kindBeat
	kindMessage
	kindAsk
	kindSum
	kindEnd
	kinds // behind the last
)

const (
	headerBytes = 5
	maxFrame    = 64 << 20
	maxStranger = 1 << 20 // before the handshake is over
)

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
	if length > limit {
		return 0, nil, fmt.Errorf("it sent a frame of %d bytes, want at most %d", length, limit)
	}
	payload, err := readPayload(r, int(length))
	if err != nil {
		return 0, nil, err
	}
	return k, payload, nil
}

// readPayload reads n bytes. It takes memory as bytes arrive, so that a length alone costs little.
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
	header := binary.LittleEndian.AppendUint32(make([]byte, 0, headerBytes), uint32(len(payload)))
	parts := net.Buffers{append(header, byte(k)), payload}
	_, err := parts.WriteTo(w)
	return err
}
