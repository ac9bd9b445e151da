package console

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/log/msgvalue"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/schemas"
)

const (
	lettersAPage = 50
	deadBins     = 60
	shownBytes   = 512     // of a value that is not MessagePack
	shownJSON    = 8 << 10 // characters of one that is
)

type deadLetters struct {
	Counts   []index.DeadCount
	Stages   []string
	Filter   index.DeadFilter
	Filtered bool
	Letters  []index.Dead
	All      int64
	Next     string
	Bars     []bar
	From, To time.Time
	Every    string
}

// bar is a bar of a drawn histogram.
type bar struct {
	X, Y, W, H float64
	Label      string
}

// bars draws counts into a box of a width and a height.
func bars(counts []int64, width, height float64, label func(i int) string) []bar {
	if len(counts) == 0 {
		return nil
	}
	most := max(1, slices.Max(counts))
	w := width / float64(len(counts))
	var list []bar
	for i, n := range counts {
		h := height * float64(n) / float64(most)
		if n > 0 {
			h = max(h, 1)
		}
		list = append(list, bar{X: w * float64(i), Y: height - h, W: max(w-1, 0.5), H: h, Label: label(i) + ": " + inspect.Count(n)})
	}
	return list
}

func (s *Server) deadLettersPage(w http.ResponseWriter, r *http.Request) error {
	q := query{Request: r}
	before := q.form("before", math.MaxInt64, math.MaxInt64)
	if q.err != nil {
		return q.err
	}
	d := deadLetters{Filter: index.DeadFilter{Stage: r.FormValue("stage"), Class: r.FormValue("reason"), Words: clip(200, r.FormValue("words"))}}
	d.Filtered = d.Filter != index.DeadFilter{}
	var err error
	if d.Counts, err = s.o.Index.DeadCounts(r.Context()); err != nil {
		return err
	}
	for _, c := range d.Counts {
		if !slices.Contains(d.Stages, c.Stage) {
			d.Stages = append(d.Stages, c.Stage)
		}
	}
	if d.Letters, d.All, err = s.o.Index.DeadLetters(r.Context(), d.Filter, before, lettersAPage); err != nil {
		return err
	}
	if len(d.Letters) == lettersAPage {
		next := url.Values{"stage": {d.Filter.Stage}, "reason": {d.Filter.Class}, "words": {d.Filter.Words}}
		next.Set("before", strconv.FormatInt(d.Letters[lettersAPage-1].Number, 10))
		d.Next = "/dead-letters?" + next.Encode()
	}
	start, width, counts, err := s.o.Index.DeadOverTime(r.Context(), deadBins)
	if err != nil {
		return err
	}
	if len(counts) > 0 {
		d.From, d.To, d.Every = start, start.Add(time.Duration(len(counts))*width), span(width)
		d.Bars = bars(counts, 600, 60, func(i int) string { return start.Add(time.Duration(i) * width).Local().Format("2 Jan 15:04:05") })
	}
	return s.answer(w, r, "deadletters.html", page{Title: "Dead letters", Path: "/dead-letters", Data: d})
}

// deadLetter is one letter, with its bytes in readable form.
type deadLetter struct {
	stream.DeadLetter
	JSON    string
	Hex     string
	Bytes   int
	More    bool   // there are more bytes than are shown
	Caption string // of a pair
	Inline  bool   // the bytes have an image
	Pair    *index.Pair
	ID      string
}

func (s *Server) letter(r *http.Request) (stream.DeadLetter, error) {
	q := query{Request: r}
	number := q.path("number", math.MaxInt64)
	if q.err != nil {
		return stream.DeadLetter{}, q.err
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookupTime)
	defer cancel()
	rec, err := s.o.Log.RecordAt(ctx, schemas.DeadLetters, 0, number)
	if err != nil {
		return stream.DeadLetter{}, unanswered(err)
	}
	letter, err := stream.ParseDeadLetter(rec)
	if p := pairOf(letter); err == nil && p != nil && s.o.Index.Forgotten(p.ImageID) {
		return stream.DeadLetter{}, fmt.Errorf("%w: its pair was forgotten", index.ErrNotFound)
	}
	return letter, err
}

func (s *Server) deadLetterPage(w http.ResponseWriter, r *http.Request) error {
	letter, err := s.letter(r)
	if err != nil {
		return err
	}
	d := deadLetter{DeadLetter: letter, Bytes: len(letter.Value)}
	if v, err := msgvalue.Decode(letter.Value); err == nil {
		text := string(msgvalue.JSON(v))
		d.More = len(text) > shownJSON
		d.JSON = text[:min(len(text), shownJSON)]
	} else {
		d.More = len(letter.Value) > shownBytes
		d.Hex = hex.Dump(letter.Value[:min(len(letter.Value), shownBytes)])
	}
	if p := pairOf(letter); p != nil {
		d.Caption, d.ID = p.Caption, p.ID.String()
		d.Inline = len(p.Inline) > 0 || p.Image != nil
		if d.Pair, err = s.o.Index.Pair(r.Context(), p.ID); err != nil && !errors.Is(err, index.ErrNotFound) {
			return err
		}
	}
	return s.answer(w, r, "deadletter.html", page{Title: "Dead letter", Path: "/dead-letters", Data: d})
}

// pairOf returns the pair of a letter. It returns nil for a letter with another record.
func pairOf(d stream.DeadLetter) *schemas.Pair {
	r, err := schemas.Unmarshal(d.Schema, d.Value)
	p, ok := r.(*schemas.Pair)
	if err != nil || !ok {
		return nil
	}
	return p
}

// deadThumb serves the picture of a pair that was set aside.
func (s *Server) deadThumb(w http.ResponseWriter, r *http.Request) error {
	letter, err := s.letter(r)
	if err != nil {
		return noImage(w, r, err)
	}
	p, side := pairOf(letter), sideOf(r)
	switch {
	case p == nil:
		return noImage(w, r, imaging.ErrNotImage)
	case p.Image != nil:
		b, err := s.thumbs.get(r.Context(), *p.Image, p.ImageID, side)
		return sendThumb(w, r, b, err)
	}
	if err := s.thumbs.work.Acquire(r.Context(), 1); err != nil {
		return err
	}
	defer s.thumbs.work.Release(1)
	im, err := imaging.DecodeShrunk(p.Inline, side)
	if err != nil {
		return noImage(w, r, err)
	}
	b, err := thumbnail(im, side)
	return sendThumb(w, r, b, err)
}
