package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/schemas"
)

// input is a pair as a client sends it.
type input struct {
	Caption   string                    `json:"caption"`
	Image     []byte                    `json:"image"` // base64 in JSON
	URL       string                    `json:"url"`
	Source    string                    `json:"source"`
	CrawlTime int64                     `json:"crawl_time"`
	Meta      map[string]jsontext.Value `json:"meta"`
}

// parse reads a JSON object. Names that it does not know, and names that are there twice, are errors.
func parse(raw []byte) (input, error) {
	var in input
	raw = bytes.TrimPrefix(raw, []byte("\ufeff")) // of a file that Windows has written
	if err := json.Unmarshal(raw, &in, json.RejectUnknownMembers(true)); err != nil {
		return input{}, fmt.Errorf("no JSON object of a pair%s: %w", remedy(raw), err)
	}
	return in, in.check()
}

// remedy says what to send in place of what is often sent.
func remedy(raw []byte) string {
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")):
		return ", want one object, or many as lines of application/x-ndjson"
	case bytes.Contains(raw, []byte(`"data:image/`)):
		return ", want base64 alone, without data:...;base64 before it"
	}
	return ""
}

// check refuses what is neither an image nor a place of one.
func (in *input) check() error {
	switch {
	case len(in.Image) > 0 && in.URL != "":
		return errors.New("both image and url are given, want one of them")
	case len(in.Image) == 0 && in.URL == "":
		return errors.New("no image: want image with its bytes, or url")
	}
	return nil
}

// pair makes the record. The image's header decides whether it is one; what is broken behind that is a dead letter of the
// encoder's, as with every producer.
func (in *input) pair() (*schemas.Pair, error) {
	if _, err := imaging.ReadHeader(in.Image); err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	meta, err := columns(in.Meta)
	if err != nil {
		return nil, err
	}
	p := &schemas.Pair{
		ImageID: schemas.NewImageID(in.Image), Inline: in.Image, Caption: strings.TrimSpace(in.Caption),
		Source: in.Source, CrawlTime: in.CrawlTime, Meta: meta,
	}
	if p.Source == "" {
		p.Source = in.URL
	}
	p.ID = schemas.NewPairID(p.ImageID, p.Caption)
	return p, p.Validate()
}

// columns turns the members of a JSON object into columns. A number without a point or an exponent is an integer, if it fits.
func columns(members map[string]jsontext.Value) (schemas.Columns, error) {
	if len(members) == 0 {
		return nil, nil
	}
	all := make(schemas.Columns, len(members))
	for name, raw := range members {
		switch raw.Kind() {
		case 't', 'f':
			all[name] = raw.Kind() == 't'
		case '"':
			var text string
			if err := json.Unmarshal(raw, &text); err != nil {
				return nil, fmt.Errorf("meta.%s: %w", name, err)
			}
			all[name] = text
		case '0':
			n, err := strconv.ParseInt(string(raw), 10, 64)
			if err == nil {
				all[name] = n
				continue
			}
			f, err := strconv.ParseFloat(string(raw), 64)
			if err != nil {
				return nil, fmt.Errorf("meta.%s: %w", name, err)
			}
			all[name] = f
		default:
			return nil, fmt.Errorf("meta.%s is %.40s, want a number, a text, true or false", name, bytes.TrimSpace(raw))
		}
	}
	return all, nil
}
