package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// ImageID is the first 128 bits of the SHA-256 of an image's encoded bytes.
type ImageID [16]byte

// PairID is a 128-bit hash of an image and a caption, so the same pair crawled twice is one pair.
type PairID [16]byte

// NewImageID hashes the encoded bytes of an image (the JPEG file, not its pixels).
func NewImageID(encoded []byte) ImageID {
	sum := sha256.Sum256(encoded)
	return ImageID(sum[:16])
}

// NewPairID hashes an image's id followed by the caption's bytes.
func NewPairID(image ImageID, caption string) PairID {
	h := sha256.New()
	h.Write(image[:])
	h.Write([]byte(caption))
	return PairID(h.Sum(nil)[:16])
}

// Lane returns the partition, out of lanes, that all pairs of an image belong to. So whatever repeats an image meets it
// in its lane. A lane is a random sample of the crawl's images. GPN-S section 3.5 divides the data at random into
// groups.
func (id ImageID) Lane(lanes int) int {
	return int((uint64(id[0])<<24 | uint64(id[1])<<16 | uint64(id[2])<<8 | uint64(id[3])) % uint64(lanes))
}

// IsZero reports whether there is no id; the codec leaves such ids out where they are optional.
func (id ImageID) IsZero() bool { return id == ImageID{} }

func (id PairID) String() string  { return hex.EncodeToString(id[:]) }
func (id ImageID) String() string { return hex.EncodeToString(id[:]) }

// ParsePairID reads the form that [PairID.String] writes.
func ParsePairID(s string) (PairID, error) {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != 16 {
		return PairID{}, fmt.Errorf("parsing pair id %q: want 32 hexadecimal digits", s)
	}
	return PairID(raw), nil
}

// EncodeMsgpack writes the id as a 16-byte bin.
func (id PairID) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeBytes(id[:]) }

// EncodeMsgpack writes the id as a 16-byte bin.
func (id ImageID) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeBytes(id[:]) }

// DecodeMsgpack reads a 16-byte bin.
func (id *PairID) DecodeMsgpack(d *msgpack.Decoder) error { return decodeID(d, id[:]) }

// DecodeMsgpack reads a 16-byte bin.
func (id *ImageID) DecodeMsgpack(d *msgpack.Decoder) error { return decodeID(d, id[:]) }

func decodeID(d *msgpack.Decoder, into []byte) error {
	raw, err := d.DecodeBytes()
	if err != nil {
		return fmt.Errorf("decoding id: %w", err)
	}
	if len(raw) != len(into) {
		return fmt.Errorf("decoding id: %w: %d bytes, want %d", ErrInvalid, len(raw), len(into))
	}
	copy(into, raw)
	return nil
}

// GroupID names a group: the lane and the group's number in that lane.
type GroupID struct {
	Lane int32 `msgpack:"lane"` // partition
	Seq  int64 `msgpack:"seq"`  // 0, 1, 2, ... in the lane
}

func (g GroupID) String() string { return fmt.Sprintf("%d/%d", g.Lane, g.Seq) }
