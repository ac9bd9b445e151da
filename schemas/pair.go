package schemas

import (
	"math"

	"github.com/vmihailenco/msgpack/v5"
)

// ImageRef points at the encoded bytes of one image inside an object of a bucket; the bytes are read with one range
// request, and their hash is the image's [ImageID]. In groups and mini-batches it may point at a smaller copy instead.
type ImageRef struct {
	URI    string  `msgpack:"uri"`            // object, e.g. file:///crawl/00000.tar or s3://bucket/00000.tar
	Offset int64   `msgpack:"offset"`         // first byte of the image in the object
	Size   int64   `msgpack:"size"`           // bytes
	Copy   ImageID `msgpack:"copy,omitempty"` // hash of the bytes of a smaller copy of the image; absent: the bytes are the image's own
}

// BytesID returns the hash that the bytes of the reference must have, which shows the image with this id.
func (r ImageRef) BytesID(image ImageID) ImageID {
	if r.Copy.IsZero() {
		return image
	}
	return r.Copy
}

// Pair is one crawled image and one of its captions. Exactly one of Image and Inline is set.
type Pair struct {
	ID        PairID    `msgpack:"id"`                   // of ImageID and Caption
	ImageID   ImageID   `msgpack:"image_id"`             // of the encoded image
	Image     *ImageRef `msgpack:"image,omitempty"`      // where the image is, if it is in a bucket
	Inline    []byte    `msgpack:"inline,omitempty"`     // encoded image bytes of a producer that has no bucket
	Caption   string    `msgpack:"caption"`              // in any language
	Source    string    `msgpack:"source,omitempty"`     // informative: where the pair was crawled
	CrawlTime int64     `msgpack:"crawl_time,omitempty"` // informative: Unix milliseconds
	Meta      Columns   `msgpack:"meta,omitempty"`       // further metadata from the crawl; not part of the id
}

// Schema implements [Record].
func (*Pair) Schema() string { return SchemaPair }

// Validate implements [Record]. It checks the hash of inline bytes against ImageID. The hash of a reference's image
// shows only when the image is read.
func (p *Pair) Validate() error {
	if err := validateCaption("caption", p.Caption); err != nil {
		return err
	}
	switch {
	case (p.Image == nil) == (len(p.Inline) == 0):
		return invalid("a pair has either an image reference or inline bytes")
	case p.Image != nil:
		if err := p.Image.validateOriginal(); err != nil {
			return err
		}
	case len(p.Inline) > MaxImageBytes:
		return invalid("inline image of %d bytes, want at most %d", len(p.Inline), MaxImageBytes)
	default:
		if got := NewImageID(p.Inline); got != p.ImageID {
			return invalid("image id %s does not match the inline image (%s)", p.ImageID, got)
		}
	}
	if err := validateText("source", p.Source, MaxURIBytes); err != nil {
		return err
	}
	if err := p.Meta.validate(); err != nil {
		return err
	}
	return p.ID.validatePair(p.ImageID, p.Caption)
}

// writeFields writes the same bytes as the codec's reflection, in half the time: producers write pairs by the hundred
// thousand a second. It must not implement the codec's interface, or a struct that embeds a Pair would lose its other
// fields.
func (p *Pair) writeFields(e *msgpack.Encoder) error {
	w := fieldWriter{e: e}
	w.begin(3, p.Image != nil, len(p.Inline) > 0, p.Source != "", p.CrawlTime != 0, len(p.Meta) > 0)
	w.bytes("id", p.ID[:])
	w.bytes("image_id", p.ImageID[:])
	if p.Image != nil {
		w.name("image")
		w.begin(3)
		w.text("uri", p.Image.URI)
		w.integer("offset", p.Image.Offset)
		w.integer("size", p.Image.Size)
	}
	if len(p.Inline) > 0 {
		w.bytes("inline", p.Inline)
	}
	w.text("caption", p.Caption)
	if p.Source != "" {
		w.text("source", p.Source)
	}
	if p.CrawlTime != 0 {
		w.integer("crawl_time", p.CrawlTime)
	}
	if len(p.Meta) > 0 {
		w.name("meta")
		w.keep(p.Meta.EncodeMsgpack(e))
	}
	return w.err
}

// Seal closes the open group of its lane. Stages pass it on, so that every lane topic shows where it was.
type Seal struct {
	Final bool   `msgpack:"final"`          // the crawl is finite and ends here: no pair follows in this lane
	Note  string `msgpack:"note,omitempty"` // informative: why, or by whom
	ID    string `msgpack:"id,omitempty"`   // of one sealing of all lanes: a seal that repeats one of the lane's latest counts once

	Repeats int64 `msgpack:"repeats,omitempty"` // on groups: embeddings since the last group that were left out, as they repeat pairs of earlier groups
}

// Schema implements [Record].
func (*Seal) Schema() string { return SchemaSeal }

// Validate implements [Record].
func (s *Seal) Validate() error {
	if s.Repeats < 0 {
		return invalid("%d repeats", s.Repeats)
	}
	if err := validateText("id", s.ID, MaxNameBytes); err != nil {
		return err
	}
	return validateText("note", s.Note, MaxCaptionBytes)
}

// Refusal stands in the place of an embedding for a pair whose image cannot be had, or that the crawl does not want. An
// image depends on the bucket and on its roots, and rules may change, so two owners of a lane may disagree. The first
// record of a place counts, and none moves another.
type Refusal struct {
	ID      PairID  `msgpack:"id"`       // the pair's
	ImageID ImageID `msgpack:"image_id"` // the pair's
	Reason  string  `msgpack:"reason"`   // in a word; where an image cannot be had, the dead letter of the pair has the whole story

	Rule   string `msgpack:"rule,omitempty"`   // of a pair that is filtered: the rule that it does not meet
	Detail string `msgpack:"detail,omitempty"` // why the rule could not be evaluated; absent: it says no
}

// Schema implements [Record].
func (*Refusal) Schema() string { return SchemaRefusal }

// Validate implements [Record].
func (r *Refusal) Validate() error {
	if r.ID == (PairID{}) {
		return invalid("pair id is missing")
	}
	if err := r.ImageID.validate(); err != nil {
		return err
	}
	if err := validateName("reason", r.Reason, MaxNameBytes); err != nil {
		return err
	}
	if err := validateText("rule", r.Rule, MaxNameBytes); err != nil {
		return err
	}
	return validateText("detail", r.Detail, MaxNameBytes)
}

// Embedding is a pair with its unit vectors v = g_V(image) and t = g_T(caption) (GPN-S section 3.2).
type Embedding struct {
	ID         PairID   `msgpack:"id"`         // the pair's
	ImageID    ImageID  `msgpack:"image_id"`   // the pair's
	Image      ImageRef `msgpack:"image"`      // where the image is; inline bytes have been written to a bucket
	Caption    string   `msgpack:"caption"`    // the pair's
	V          Float16s `msgpack:"v"`          // unit vector of the image
	T          Float16s `msgpack:"t"`          // unit vector of the caption, as long as V
	Similarity float32  `msgpack:"similarity"` // v . t of the rounded vectors, in [-1, 1] up to rounding
	Model      string   `msgpack:"model"`      // fingerprint of the encoder's weights
}

// Schema implements [Record].
func (*Embedding) Schema() string { return SchemaEmbedding }

// Validate implements [Record].
func (e *Embedding) Validate() error {
	if err := validateCaption("caption", e.Caption); err != nil {
		return err
	}
	if err := e.Image.validateOriginal(); err != nil {
		return err
	}
	if err := e.ID.validatePair(e.ImageID, e.Caption); err != nil {
		return err
	}
	dim := e.V.Len()
	if dim > MaxDim {
		return invalid("vectors of %d values, want at most %d", dim, MaxDim)
	}
	if err := e.V.checkUnitRows("v", 1, dim); err != nil {
		return err
	}
	if err := e.T.checkUnitRows("t", 1, dim); err != nil {
		return err
	}
	if err := validateSimilarity("similarity", e.Similarity); err != nil {
		return err
	}
	if dot := e.V.dot(e.T); math.Abs(dot-float64(e.Similarity)) > similarityTolerance {
		return invalid("similarity is %g, but v . t is %g", e.Similarity, dot)
	}
	return validateName("model", e.Model, MaxNameBytes)
}

// fieldWriter writes the fields of a struct, and keeps the first error.
type fieldWriter struct {
	e   *msgpack.Encoder
	err error
}

// begin begins a map of fields that are always there, and of those of the others that are.
func (w *fieldWriter) begin(always int, others ...bool) {
	for _, there := range others {
		if there {
			always++
		}
	}
	w.keep(w.e.EncodeMapLen(always))
}

func (w *fieldWriter) name(name string) { w.keep(w.e.EncodeString(name)) }

func (w *fieldWriter) bytes(name string, value []byte) {
	w.name(name)
	w.keep(w.e.EncodeBytes(value))
}

func (w *fieldWriter) text(name, value string) {
	w.name(name)
	w.keep(w.e.EncodeString(value))
}

func (w *fieldWriter) integer(name string, value int64) {
	w.name(name)
	w.keep(w.e.EncodeInt(value))
}

func (w *fieldWriter) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}
