package schemas

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// Limits on what a pair may hold.
const (
	MaxCaptionBytes = 8 << 10
	MaxImageBytes   = 20 << 20
	MaxURIBytes     = 2 << 10
	MaxDim          = 4096
)

// ImageRef points at the encoded bytes of one image inside an object of a bucket; the bytes are read with one range
// request, and their hash is the image's [ImageID].
type ImageRef struct {
	URI    string `msgpack:"uri"`    // object, e.g. file:///crawl/00000.tar or s3://bucket/00000.tar
	Offset int64  `msgpack:"offset"` // first byte of the image in the object
	Size   int64  `msgpack:"size"`   // bytes
}

func (r ImageRef) validate() error {
	switch {
	case r.URI == "" || len(r.URI) > MaxURIBytes || !utf8.ValidString(r.URI):
		return fmt.Errorf("%w: image uri of %d bytes, want 1..%d bytes of UTF-8", ErrInvalid, len(r.URI), MaxURIBytes)
	case r.Offset < 0:
		return fmt.Errorf("%w: image offset %d is negative", ErrInvalid, r.Offset)
	case r.Size <= 0 || r.Size > MaxImageBytes:
		return fmt.Errorf("%w: image size %d, want 1..%d bytes", ErrInvalid, r.Size, MaxImageBytes)
	}
	return nil
}

// Pair is one crawled image and one of its captions. Exactly one of Image and Inline is set.
type Pair struct {
	ID        PairID    `msgpack:"id"`
	ImageID   ImageID   `msgpack:"image_id"`
	Image     *ImageRef `msgpack:"image,omitempty"`
	Inline    []byte    `msgpack:"inline,omitempty"` // encoded image bytes of a producer that has no bucket
	Caption   string    `msgpack:"caption"`
	Source    string    `msgpack:"source,omitempty"`     // informative: where the pair was crawled
	CrawlTime int64     `msgpack:"crawl_time,omitempty"` // informative: Unix milliseconds
}

// Schema implements [Record].
func (*Pair) Schema() string { return SchemaPair }

// Validate implements [Record].
func (p *Pair) Validate() error {
	if err := validateCaption("caption", p.Caption); err != nil {
		return err
	}
	switch {
	case (p.Image == nil) == (len(p.Inline) == 0):
		return fmt.Errorf("%w: a pair has either an image reference or inline bytes", ErrInvalid)
	case p.Image != nil:
		if err := p.Image.validate(); err != nil {
			return err
		}
	case len(p.Inline) > MaxImageBytes:
		return fmt.Errorf("%w: inline image of %d bytes, want at most %d", ErrInvalid, len(p.Inline), MaxImageBytes)
	}
	if want := NewPairID(p.ImageID, p.Caption); p.ID != want {
		return fmt.Errorf("%w: pair id %s does not match its image id and caption (%s)", ErrInvalid, p.ID, want)
	}
	return nil
}

func validateCaption(field, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: %s is empty", ErrInvalid, field)
	case len(s) > MaxCaptionBytes:
		return fmt.Errorf("%w: %s has %d bytes, want at most %d", ErrInvalid, field, len(s), MaxCaptionBytes)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s is not UTF-8", ErrInvalid, field)
	}
	return nil
}

// Seal closes the open group of its lane. Stages pass it on, so that every lane topic shows where it was.
type Seal struct {
	Final bool   `msgpack:"final"`          // the crawl is finite and ends here: no pair follows in this lane
	Note  string `msgpack:"note,omitempty"` // informative
}

// Schema implements [Record].
func (*Seal) Schema() string { return SchemaSeal }

// Validate implements [Record].
func (s *Seal) Validate() error {
	if len(s.Note) > MaxCaptionBytes || !utf8.ValidString(s.Note) {
		return fmt.Errorf("%w: note of %d bytes, want at most %d bytes of UTF-8", ErrInvalid, len(s.Note), MaxCaptionBytes)
	}
	return nil
}

// Embedding is a pair with its unit vectors v = g_V(image) and t = g_T(caption) (GPN-S section 3.2).
type Embedding struct {
	ID         PairID   `msgpack:"id"`
	ImageID    ImageID  `msgpack:"image_id"`
	Image      ImageRef `msgpack:"image"`
	Caption    string   `msgpack:"caption"`
	V          Float16s `msgpack:"v"`
	T          Float16s `msgpack:"t"`
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
	if err := e.Image.validate(); err != nil {
		return err
	}
	dim := e.V.Len()
	if dim > MaxDim {
		return fmt.Errorf("%w: vectors of %d values, want at most %d", ErrInvalid, dim, MaxDim)
	}
	if err := e.V.checkUnitRows("v", 1, dim); err != nil {
		return err
	}
	if err := e.T.checkUnitRows("t", 1, dim); err != nil {
		return err
	}
	if !(math.Abs(float64(e.Similarity)) <= 1+unitTolerance*3) {
		return fmt.Errorf("%w: similarity %g, want -1..1", ErrInvalid, e.Similarity)
	}
	if e.Model == "" {
		return fmt.Errorf("%w: model fingerprint is empty", ErrInvalid)
	}
	return nil
}
