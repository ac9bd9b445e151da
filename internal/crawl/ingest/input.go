package ingest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/schemas"
)

// input is a pair in a client's form.
type input struct {
	Caption   string  `json:"caption"`
	Image     encoded `json:"image"`
	URL       string  `json:"url"`
	Source    string  `json:"source"`
	CrawlTime int64   `json:"crawl_time"`
	Meta      members `json:"meta"`
}

// parse reads a JSON object. Unknown and repeated names are errors.
func parse(raw []byte) (input, error) {
	var in input
	if err := unmarshal(raw, &in, json.RejectUnknownMembers(true), flat); err != nil {
		return input{}, fmt.Errorf("no JSON object of a pair%s: %w", remedy(raw), plain("", err))
	}
	return in, in.check()
}

// flat refuses a list or an object in place of a text or a number before it is read: one with millions of members takes
// seconds.
var flat = json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(refuseTree[string]("a text")), json.UnmarshalFromFunc(refuseTree[int64]("an integer")),
))

func refuseTree[T any](want string) func(*jsontext.Decoder, *T) error {
	return func(d *jsontext.Decoder, _ *T) error {
		if kind := d.PeekKind(); kind == '[' || kind == '{' {
			return fmt.Errorf("a list or an object, want %s", want)
		}
		return errors.ErrUnsupported
	}
}

// unmarshal reads JSON as programs write it. Most write strict JSON, which is faster to read.
func unmarshal[T any](raw []byte, to *T, o ...json.Options) error {
	err := json.Unmarshal(raw, to, o...)
	if err == nil {
		return nil
	}
	other := table.PlainJSON(raw)
	if bytes.Equal(other, raw) {
		return err
	}
	*to = *new(T) // drops values of the first attempt
	return json.Unmarshal(other, to, o...)
}

// plain describes a JSON error without the names of Go types.
func plain(field string, err error) error {
	of := new(json.SemanticError)
	if !errors.As(err, &of) || of.Err == nil {
		return err
	}
	at := strings.TrimPrefix(field+strings.ReplaceAll(string(of.JSONPointer), "/", "."), ".")
	return fmt.Errorf("%s: %w", at, of.Err)
}

// remedy tells what to send in place of a common mistake.
func remedy(raw []byte) string {
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")):
		return ", want one object, or many as lines of application/x-ndjson"
	case bytes.Contains(raw, []byte(`"data:image/`)):
		return ", want base64 alone, without data:...;base64 before it"
	}
	return ""
}

// check refuses an input without an image or the URL of one.
func (in *input) check() error {
	switch {
	case len(in.Image) > 0 && in.URL != "":
		return errors.New("both image and url are given, want one of them")
	case len(in.Image) == 0 && in.URL == "":
		return errors.New("no image: want image with its bytes, or url")
	}
	return nil
}

// pair makes the record. The image's header decides whether it is an image; damage after that becomes a dead letter of
// the encoder, as with every producer.
func (in *input) pair() (*schemas.Pair, error) {
	if _, err := imaging.ReadHeader(in.Image); err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	p := &schemas.Pair{
		ImageID: schemas.NewImageID(in.Image), Inline: in.Image, Caption: strings.TrimSpace(in.Caption),
		Source: in.Source, CrawlTime: in.CrawlTime, Meta: schemas.Columns(in.Meta),
	}
	if p.Source == "" {
		p.Source = in.URL
	}
	p.ID = schemas.NewPairID(p.ImageID, p.Caption)
	return p, p.Validate()
}

// encoded is an image in base64.
type encoded []byte

// forURLs converts base64 for URLs to the usual alphabet.
var forURLs = strings.NewReplacer("-", "+", "_", "/")

// UnmarshalJSONFrom implements [json.UnmarshalerFrom]. It accepts the forms of base64 that programs write: with or
// without line breaks, in the usual alphabet or that for URLs, with or without padding.
func (e *encoded) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	kind := d.PeekKind()
	if kind != '"' && kind != 'n' { // a large list takes seconds to read
		return errors.New("want the bytes of an image in base64")
	}
	raw, err := d.ReadValue()
	if err != nil || kind == 'n' {
		return err
	}
	text := []byte(raw[1 : len(raw)-1])
	if bytes.IndexByte(text, '\\') >= 0 {
		if text, err = jsontext.AppendUnquote(nil, raw); err != nil {
			return err
		}
	}
	if bytes.ContainsAny(text, "-_ \t") {
		text = []byte(forURLs.Replace(strings.Join(strings.Fields(string(text)), "")))
	}
	text = bytes.TrimRight(text, "=\r\n")
	*e, err = base64.RawStdEncoding.AppendDecode(make([]byte, 0, base64.RawStdEncoding.DecodedLen(len(text))), text)
	return err
}

// members are the columns of a pair, as the members of a JSON object.
type members schemas.Columns

// UnmarshalJSONFrom implements [json.UnmarshalerFrom]. It stops at the first invalid member. It omits null members.
func (m *members) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	t, err := d.ReadToken()
	if err != nil || t.Kind() == 'n' {
		return err
	}
	if t.Kind() != '{' {
		return errors.New("want an object of columns")
	}
	all := make(members)
	for nulls := 0; d.PeekKind() != '}'; {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		column := name.String()
		value, err := scalar(column, d)
		if err != nil {
			return err
		}
		if value != nil {
			all[column] = value
		} else if nulls++; nulls > mostNulls {
			return fmt.Errorf("more than %d members are null", mostNulls)
		}
		if len(all) > mostMembers {
			return fmt.Errorf("more than %d members", mostMembers)
		}
	}
	*m = all
	_, err = d.ReadToken()
	return err
}

// scalar reads a number, a text or a truth value. A number without a point or an exponent is an integer, if it fits.
func scalar(name string, d *jsontext.Decoder) (any, error) {
	if kind := d.PeekKind(); kind == '[' || kind == '{' {
		return nil, errors.New("a list or an object, want a number, a text, true, false or null")
	}
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case 't', 'f':
		return t.Bool(), nil
	case '"':
		return t.String(), nil
	case '0':
		raw := t.String()
		if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
			return n, nil
		}
		f, err := strconv.ParseFloat(raw, 64)
		if err != nil {
			return nil, fmt.Errorf("%.64s is %.40s, which no number of 64 bits is", name, raw)
		}
		return f, nil
	default:
		return nil, nil
	}
}

// bytes returns the size that the columns count for.
func (m members) bytes() (n int) {
	for name, value := range m {
		n += schemas.ColumnBytes(name, value)
	}
	return n
}
