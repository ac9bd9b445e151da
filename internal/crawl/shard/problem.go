package shard

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pairstream/pairstream/schemas"
)

// Reason names the fault of a part of a tar; there are few, so it may label a metric.
type Reason string

// The reasons.
const (
	ReasonHeader    Reason = "tar_header"       // damaged or foreign bytes where a header should be
	ReasonCut       Reason = "tar_cut"          // the tar ends inside an entry
	ReasonNoEnd     Reason = "tar_no_end"       // the tar ends without its end marker
	ReasonName      Reason = "entry_name"       // absolute, or with ".."
	ReasonType      Reason = "entry_type"       // link, device, sparse file, ...
	ReasonOversize  Reason = "entry_oversize"   // larger than any image, caption or JSON may be
	ReasonEmpty     Reason = "image_empty"      // an image of no bytes
	ReasonDuplicate Reason = "entry_duplicate"  // a second image, txt or json under one key
	ReasonJSON      Reason = "caption_json"     // key.json is no JSON object, or a caption in it is no string
	ReasonNoText    Reason = "caption_empty"    // nothing but white space
	ReasonEncoding  Reason = "caption_encoding" // not UTF-8
	ReasonLong      Reason = "caption_long"     // more than schemas.MaxCaptionBytes
	ReasonNoCaption Reason = "caption_missing"  // an image without any caption
	ReasonNoImage   Reason = "image_missing"    // a caption without an image
	ReasonMany      Reason = "captions_cut"     // more than MaxCaptions under one key: the others were left out
	ReasonMore      Reason = "problems_cut"     // more than MaxProblems in one tar: the others have no record
	ReasonFile      Reason = "file_unreadable"  // a tar or a folder that cannot be read: a link to nowhere, a bad disk
	ReasonStatus    Reason = "status_failed"    // the crawl itself says that the image is none
	ReasonSidecar   Reason = "sidecar_broken"   // the .parquet beside a tar cannot be read
	ReasonImage     Reason = "image_unreadable" // no image that can be decoded; only readers that decode report it
)

// Limits on the output of one tar, so that a few of its bytes do not become many on the log.
const (
	MaxCaptions = 256   // of one key
	MaxProblems = 10000 // records of one tar

	maxEntryBytes  = 256 // of an entry's name in a problem
	maxDetailBytes = 512
)

// Problem is an entry of a tar, or a part of it, that was meant as a pair or hides some, and cannot be one.
type Problem struct {
	URI    string // the tar
	Offset int64  // of the entry's header in it
	Entry  string // the entry's name; empty when there is no sound header
	Reason Reason
	Detail string

	Image   *schemas.ImageRef // where known
	ImageID schemas.ImageID   // where known: of the bytes that are there
	Caption string            // as found, cut to a length that is still refused
}

func (p Problem) String() string {
	return fmt.Sprintf("%s at offset %d %q: %s (%s)", p.URI, p.Offset, p.Entry, p.Detail, p.Reason)
}

// problemRecord is a record of an invalid pair with the reason.
type problemRecord struct {
	schemas.Pair
	Problem string `msgpack:"problem"`
}

// ID returns the pair id of the problem's record.
func (p Problem) ID() schemas.PairID { return schemas.NewPairID(p.imageID(), p.Caption) }

// Lane returns the lane of the problem's record. Problems without an image are spread over the lanes.
func (p Problem) Lane(lanes int) int { return p.imageID().Lane(lanes) }

func (p Problem) imageID() schemas.ImageID {
	if p.ImageID != (schemas.ImageID{}) {
		return p.ImageID
	}
	h := sha256.New()
	h.Write([]byte(p.URI))
	h.Write(binary.LittleEndian.AppendUint64([]byte{0}, uint64(p.Offset)))
	return schemas.ImageID(h.Sum(nil)[:16])
}

// cut shortens a text to a number of bytes of UTF-8.
func cut(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}

// Record encodes the problem as a value for the topic "pairs" under schemas.SchemaPair. It is not validated, and its
// reader must refuse it: as invalid, or, for an image that the tar holds only in part, when the image is read. So a
// problem ends among the dead letters with lane, offset and reason like every other bad pair, and the key "problem"
// describes the fault in the tar.
func (p Problem) Record() ([]byte, error) {
	r := problemRecord{
		Pair: schemas.Pair{
			ID:      p.ID(),
			ImageID: p.imageID(),
			Image:   p.Image,
			Caption: p.Caption,
			Source:  fmt.Sprintf("%s#%d", p.URI, p.Offset),
		},
		Problem: fmt.Sprintf("%s: %s", p.Reason, cut(p.Detail, maxDetailBytes)),
	}
	if p.Entry != "" {
		r.Source += ":" + cut(p.Entry, maxEntryBytes)
	}
	var buf bytes.Buffer
	e := msgpack.NewEncoder(&buf)
	e.UseCompactInts(true)
	if err := e.Encode(&r); err != nil {
		return nil, fmt.Errorf("encoding the problem at offset %d of %s: %w", p.Offset, p.URI, err)
	}
	return buf.Bytes(), nil
}
