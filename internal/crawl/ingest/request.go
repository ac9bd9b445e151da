package ingest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"slices"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

var errFields = fmt.Errorf("%w: the fields besides the image have more than %d bytes in all, each counts for %d more", errLong, mostFields, fieldBytes)

// answer is the response to the client. Pairs lists the pairs on the log, whatever the status is.
type answer struct {
	Pairs  []taken   `json:"pairs"`
	Errors []refused `json:"errors,omitempty"`
	Error  string    `json:"error,omitempty"` // why the request as a whole was not taken
}

// taken is a pair that is on the log. Index is its index in the request, from 0.
type taken struct {
	Index   int    `json:"index"`
	ID      string `json:"id"`
	ImageID string `json:"image_id"`
	Lane    int    `json:"lane"`

	id       schemas.PairID
	image    schemas.ImageID
	link     *linkKey // nil: the image came with the request
	repeated bool     // it was on the log before
}

// refused is a pair that was not taken.
type refused struct {
	Index int    `json:"index"`
	Error string `json:"error"`
	Retry bool   `json:"retry,omitempty"` // the pair is valid: the server had no time or no memory for it
}

// request collects the outcomes of the pairs of one request. It is for one goroutine at a time.
type request struct {
	s         *Server
	publisher *stream.Publisher
	purse     *purse
	era       *onlog.Era // the log's era before the request
	held      *onlog.Era // the log's current era, read when a pair's outcome depends on it; nil: not read
	pairs     int        // so far
	published int        // pairs sent to the log
	links     links
	answer    answer
}

func (s *Server) newRequest(era *onlog.Era, p *purse) *request {
	return &request{s: s, publisher: s.current(), purse: p, era: era, answer: answer{Pairs: []taken{}}}
}

// refuse records why a pair is not taken.
func (r *request) refuse(index int, err error, retry bool) {
	why := err.Error()
	if len(why) > mostWhy {
		why = strings.ToValidUTF8(why[:mostWhy], "") + "..." // it may quote the client
	}
	r.answer.Errors = append(r.answer.Errors, refused{index, why, retry})
}

// sort sorts the outcomes in the order of the request.
func (r *request) sort() {
	slices.SortFunc(r.answer.Pairs, func(a, b taken) int { return a.Index - b.Index })
	slices.SortFunc(r.answer.Errors, func(a, b refused) int { return a.Index - b.Index })
}

// add takes the next pair. It returns an error that ends the request; a fault of the pair is noted. A pair with a URL
// waits until the whole request is read.
func (r *request) add(ctx context.Context, in input, err error) error {
	index := r.pairs
	r.pairs++
	switch {
	case err != nil:
		r.refuse(index, err, false)
		return nil
	case in.URL == "":
		return r.publish(ctx, index, in, nil)
	case r.s.urls == nil:
		r.refuse(index, errors.New("url: this server downloads nothing (INGEST_URLS=false), send the image"), false)
		return nil
	}
	return r.addLink(ctx, index, in)
}

// object takes a body that is one JSON object.
func (r *request) object(ctx context.Context, body io.Reader) error {
	raw, err := r.purse.read(body, mostObject)
	if err != nil {
		return err
	}
	if err := r.purse.take(int64(len(raw))); err != nil { // for the image in it
		return err
	}
	in, err := parse(raw)
	return r.add(ctx, in, err)
}

// lines takes a body with a JSON object a line.
func (r *request) lines(ctx context.Context, body io.Reader) error {
	in := lineReader{r: bufio.NewReaderSize(body, firstRead), purse: r.purse}
	if err := r.purse.take(firstRead); err != nil {
		return err
	}
	for {
		raw, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(raw) == 0 {
			continue
		}
		if r.pairs == mostPairs {
			return fmt.Errorf("%w: more than %d lines, send the rest with another request", errLong, mostPairs)
		}
		one := purse{of: r.purse.of} // of the image in the line
		if err := one.take(int64(len(raw))); err != nil {
			return err
		}
		pair, err := parse(raw)
		err = r.add(ctx, pair, err)
		one.give()
		if err != nil {
			return err
		}
	}
}

// lineReader reads lines that may be long. A line is valid until the next one is read.
type lineReader struct {
	r     *bufio.Reader
	purse *purse
	long  []byte
}

// next returns the next line without white space around it, and io.EOF behind the last one.
func (l *lineReader) next() ([]byte, error) {
	part, err := l.r.ReadSlice('\n')
	l.long = l.long[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		if err := l.keep(part); err != nil {
			return nil, err
		}
		part, err = l.r.ReadSlice('\n')
	}
	if err != nil && !(errors.Is(err, io.EOF) && len(part)+len(l.long) > 0) {
		return nil, err
	}
	if len(l.long) > 0 {
		if err := l.keep(part); err != nil {
			return nil, err
		}
		part = l.long
	}
	return bytes.TrimSpace(part), nil
}

func (l *lineReader) keep(part []byte) error {
	if len(l.long)+len(part) > mostObject {
		return fmt.Errorf("%w: a line of more than %d bytes", errLong, mostObject)
	}
	before := cap(l.long)
	l.long = append(l.long, part...)
	return l.purse.take(int64(cap(l.long) - before))
}

// form takes a form with an image, or its url, and one caption or several.
func (r *request) form(ctx context.Context, parts *multipart.Reader) error {
	var in input
	var captions []string
	room := mostFields
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errForm, err)
		}
		most := room
		if part.FormName() == "image" {
			most = schemas.MaxImageBytes
		} else if room -= fieldBytes; room < 0 {
			return errFields
		}
		raw, err := r.purse.read(part, most)
		if errors.Is(err, errLong) && part.FormName() != "image" {
			return errFields
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: %w", errForm, err)
		}
		if err != nil {
			return fmt.Errorf("field %.40q: %w", part.FormName(), err)
		}
		if part.FormName() != "image" {
			room -= len(raw)
		}
		if part.FormName() == "caption" {
			captions = append(captions, string(raw))
			continue
		}
		if err := in.field(part.FormName(), raw); err != nil {
			return r.add(ctx, input{}, err)
		}
	}
	if err := in.check(); err != nil {
		return r.add(ctx, input{}, err)
	}
	if len(captions) > mostPairs || len(captions)*len(in.Image) > mostBody {
		return fmt.Errorf("%w: %d captions with an image of %d bytes each, send some of them with another request: %d captions, and %d bytes of all, are taken",
			errLong, len(captions), len(in.Image), mostPairs, mostBody)
	}
	if len(captions) == 0 {
		captions = []string{""} // refused like every pair without a caption
	}
	for _, in.Caption = range captions {
		if err := r.add(ctx, in, nil); err != nil {
			return err
		}
	}
	return nil
}

// field sets a field of a form. A repeated or unknown field is an error.
func (in *input) field(name string, raw []byte) (err error) {
	twice := false
	switch name {
	case "image":
		twice, in.Image = in.Image != nil, raw
	case "url":
		twice, in.URL = in.URL != "", string(raw)
	case "source":
		twice, in.Source = in.Source != "", string(raw)
	case "crawl_time":
		in.CrawlTime, err = strconv.ParseInt(string(raw), 10, 64)
	case "meta":
		twice = in.Meta != nil
		err = plain("meta", unmarshal(raw, &in.Meta))
	default:
		return fmt.Errorf("field %.40q is not known, want image, url, caption, source, crawl_time or meta", name)
	}
	switch {
	case err != nil:
		return fmt.Errorf("field %s: %w", name, err)
	case twice:
		return fmt.Errorf("field %s is there twice", name)
	}
	return nil
}
