package schemas

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits on the size of records and their fields.
const (
	MaxCaptionBytes = 8 << 10
	MaxImageBytes   = 20 << 20
	MaxURIBytes     = 2 << 10
	MaxKeyBytes     = 1 << 10 // of an object in a bucket, as S3 and its kin have it
	MaxNameBytes    = 256     // fingerprints, nouns and names of measures
	MaxDim          = 4096
	MaxBatch        = 1 << 16 // samples of a mini-batch
	MaxNouns        = 1 << 20 // noun vocabulary of a group
	MaxMeasures     = 256     // values of a progress report
	MaxColumns      = 64      // columns of a pair
	MaxColumnName   = 64      // bytes
	MaxColumnText   = 1 << 10 // bytes
	MaxColumnsBytes = 8 << 10 // of all columns of a pair, names and values (see ColumnBytes)
)

// invalid returns an error that wraps ErrInvalid.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

func validateCaption(field, s string) error {
	if strings.TrimSpace(s) == "" {
		return invalid("%s is empty", field)
	}
	return validateText(field, s, MaxCaptionBytes)
}

// validateName checks a text that must be there.
func validateName(field, s string, most int) error {
	if s == "" {
		return invalid("%s is empty", field)
	}
	return validateText(field, s, most)
}

// validateText checks a text that may be empty.
func validateText(field, s string, most int) error {
	switch {
	case len(s) > most:
		return invalid("%s has %d bytes, want at most %d", field, len(s), most)
	case !utf8.ValidString(s):
		return invalid("%s is not UTF-8", field)
	}
	return nil
}

// validateOneOf checks an enumeration. A new value needs a new major version, because an old reader would refuse it.
func validateOneOf(field, s string, known ...string) error {
	if slices.Contains(known, s) {
		return nil
	}
	return invalid("%s is %.64q, want one of %s", field, s, strings.Join(known, ", "))
}

func (g GroupID) validate() error {
	if g.Lane < 0 || g.Seq < 0 {
		return invalid("group %s has a negative number", g)
	}
	return nil
}

func (id ImageID) validate() error {
	if id == (ImageID{}) {
		return invalid("image id is missing")
	}
	return nil
}

// validatePair checks that id is the id of the pair of image and caption.
func (id PairID) validatePair(image ImageID, caption string) error {
	if err := image.validate(); err != nil {
		return err
	}
	if want := NewPairID(image, caption); id != want {
		return invalid("pair id %s does not match its image id and caption (%s)", id, want)
	}
	return nil
}

func (r ImageRef) validate() error {
	if err := validateName("image uri", r.URI, MaxURIBytes); err != nil {
		return err
	}
	if err := r.validateKey(); err != nil {
		return err
	}
	switch {
	case r.Size <= 0 || r.Size > MaxImageBytes:
		return invalid("image size %d, want 1..%d bytes", r.Size, MaxImageBytes)
	case r.Offset < 0 || r.Offset > math.MaxInt64-r.Size:
		return invalid("image offset %d, want 0..%d", r.Offset, math.MaxInt64-r.Size)
	}
	return nil
}

// validateOriginal checks the reference of a pair of the crawl, of which there is no copy yet.
func (r ImageRef) validateOriginal() error {
	if !r.Copy.IsZero() {
		return invalid("image of a pair is a copy, %s, want the image itself", r.Copy)
	}
	return r.validate()
}

// validateKey refuses a reference whose object no store can have. A request for it would fail for ever.
func (r ImageRef) validateKey() error {
	if len(r.URI) <= MaxKeyBytes && !strings.Contains(r.URI, "%") {
		return nil
	}
	u, err := url.Parse(r.URI)
	if err != nil {
		return nil //nolint:nilerr // resolving the reference gives the error with its reason
	}
	switch key := strings.TrimPrefix(u.Path, "/"); {
	case !utf8.ValidString(key):
		return invalid("the key in image uri %q is not UTF-8", r.URI)
	case u.Scheme != "file" && len(key) > MaxKeyBytes:
		return invalid("the key in image uri has %d bytes, want at most %d", len(key), MaxKeyBytes)
	}
	return nil
}

// validateSimilarity checks a dot product of unit vectors. The negation also refuses NaN.
func validateSimilarity(field string, s float32) error {
	if !(math.Abs(float64(s)) <= 1+3*unitTolerance) { // |v| |t| and the rounding of s
		return invalid("%s is %g, want -1..1", field, s)
	}
	return nil
}
