package service

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/stagetest"
	"github.com/pairstream/pairstream/schemas"
)

// filtered describes what a stage wrote: "+" an embedding, the rule of a drop, the reason of another refusal, "seal".
func filtered(events []stagetest.Event) string {
	var words []string
	for _, e := range events {
		switch r := e.Record.(type) {
		case *schemas.Embedding:
			words = append(words, "+")
		case *schemas.Refusal:
			words = append(words, strings.TrimPrefix(r.Reason+":"+r.Rule, schemas.MaskFiltered+":"))
		case *schemas.Seal:
			words = append(words, "seal")
		}
	}
	return strings.Join(words, " ")
}

// A drop takes the place of the pair's embedding, whatever the batches are, and wherever a new owner goes on.
func TestDropsHaveTheirPlaces(t *testing.T) {
	pair := func(n int, punsafe any) *schemas.Pair {
		p := pairOf(n)
		if punsafe != nil {
			p.Meta = schemas.Columns{"punsafe": punsafe}
		}
		return p
	}
	small := func(rule string) error { return fmt.Errorf("%w: %w", encoder.ErrUnusable, dropOf(rule)) }
	pairs := []*schemas.Pair{
		pair(0, 0.5), pair(1, 0.01), pair(2, nil), pair(3, 0.9), pair(4, 0.01), pair(5, 0.01), pair(6, 0.01), pair(7, 0.7), pair(18, 0.01),
	}
	bad := map[schemas.PairID]error{pairs[4].ID: shard.ErrMissing, pairs[5].ID: small("size")}
	const rules = `match: similarity > 0.5 && !caption.endsWith("18"); safe: meta.punsafe < 0.1`
	const want = "safe + safe safe missing: size + safe seal match"
	for _, batch := range []int{1, 2, 3, 100} {
		t.Run(fmt.Sprintf("batches of %d", batch), func(t *testing.T) {
			var records []*stagetest.Event
			s, rt := newFilteredStage(t, &core{batch: batch, bad: bad}, rules, shard.SpoolOptions{}, nil)
			var out stagetest.Output
			offset := int64(0)
			next := func(r schemas.Record) { feed(t, s, &out, record(t, offset, r)); offset++ }
			for i, p := range pairs {
				if i == 8 {
					next(&schemas.Seal{})
				}
				next(p)
			}
			must.Do(t, s.Flush(t.Context(), &out))
			if got := filtered(out.Events); got != want {
				t.Errorf("wrote %q, want %q", got, want)
			}
			for i := range out.Events {
				if out.Events[i].Record != nil {
					records = append(records, &out.Events[i])
				}
			}
			for i, e := range records {
				if got := e.Resume.Inputs[0].Offset; got != int64(i+1) {
					t.Errorf("record %d resumes at %d, want %d", i, got, i+1)
				}
			}
			if r := records[2].Record.(*schemas.Refusal); r.Detail != "no such key: punsafe" || r.ID != pairs[2].ID || r.ImageID != pairs[2].ImageID {
				t.Errorf("a missing column gives %+v", r)
			}
			if got := stagetest.Metric(t, rt, "pairstream_encoder_filtered_pairs_total"); got != 6 {
				t.Errorf("%v pairs were counted as filtered, want 6", got)
			}
			if in := stagetest.Metric(t, rt, "pairstream_stage_pairs_in_total"); in != 9 {
				t.Errorf("%v pairs in, want 9", in)
			}
			if dead := len(out.Events) - len(records); dead != 1 {
				t.Errorf("%d dead letters, want that of the missing image alone", dead)
			}
		})
	}
}

// Rules may drop all pairs for hours. What is held then is bounded, and nothing goes to the device.
func TestWhatIsDroppedIsNotHeldForEver(t *testing.T) {
	c := &core{batch: 2}
	s, _ := newFilteredStage(t, c, "none: false", shard.SpoolOptions{}, nil)
	var out stagetest.Output
	for i := range 10 * heldPerBatch {
		feed(t, s, &out, record(t, int64(i), pairOf(i)))
	}
	if len(c.calls) != 0 || len(out.Events) < 8*heldPerBatch {
		t.Errorf("%d records of %d pairs were written, and the device was called %d times", len(out.Events), 10*heldPerBatch, len(c.calls))
	}
}

func dropOf(rule string) error {
	e := &droppedError{}
	e.Rule = rule
	return e
}

// The size is that of the whole image, upright, although the model's input is small.
func TestSizesAreThoseOfTheImage(t *testing.T) {
	s, err := newSieve("size: width == 600 && height == 200 && aspect == 3.0")
	must.Do(t, err)
	dir := t.TempDir()
	var encoded bytes.Buffer
	must.Do(t, png.Encode(&encoded, image.NewGray(image.Rect(0, 0, 600, 200))))
	path := filepath.Join(dir, "a.png")
	must.Do(t, os.WriteFile(path, encoded.Bytes(), 0o600))
	b := must.Get(shard.OpenBucket(t.Context(), []string{shard.FileURI(dir)}, nil))(t)
	defer b.Close()
	cache := shard.NewImages(b, shard.ImagesOptions{MaxBytes: 1 << 20})
	p := pairOf(1)
	p.Image, p.ImageID = &schemas.ImageRef{URI: shard.FileURI(path), Size: int64(encoded.Len())}, schemas.NewImageID(encoded.Bytes())
	pre := imaging.Preprocess{Size: 32}
	i := &images{cache: cache.Reduced(imaging.ForModel(32)), pre: pre}
	for range 2 { // from the bucket, and from the cache
		got, err := i.Load(t.Context(), p, s.judgeSize, make([]byte, pre.Values()))
		if err != nil || got.Width != 600 || got.Height != 200 {
			t.Errorf("loaded %+v, %v", got, err)
		}
	}
	if s, err = newSieve("size: width < 600"); err != nil {
		t.Fatal(err)
	}
	var dropped *droppedError
	if _, err := i.Load(t.Context(), p, s.judgeSize, make([]byte, pre.Values())); !errors.As(err, &dropped) || dropped.Rule != "size" || !errors.Is(err, encoder.ErrUnusable) {
		t.Errorf("error %v, want a drop by rule size", err)
	}
}

func TestFilterIsCheckedWithTheSettings(t *testing.T) {
	environ := map[string]string{"ENCODER_CHECKPOINT": "m", "BUCKET_ROOTS": "file:///", "FILTER": "size: widht > 3"}
	_, err := config.Parse[Settings](environ)
	if want := "FILTER: line 1, column 7, in rule size: undeclared reference to 'widht'"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	environ["FILTER"] = "size: width > 3"
	if _, err := config.Parse[Settings](environ); err != nil {
		t.Error(err)
	}
}

// A pair that is forgotten has a refusal in its place and no dead letter, before and after its image is read.
func TestWhatIsTakenBackIsNotEmbedded(t *testing.T) {
	late := pairOf(2)
	c := &core{batch: 4, bad: map[schemas.PairID]error{late.ID: shard.ErrForgotten}}
	s, _ := newFilteredStage(t, c, "", shard.SpoolOptions{}, nil)
	log := logtest.Open(t, logtest.Broker(t), "test", 1)
	must.Get(forget.Publish(t.Context(), log, []forget.Key{{Kind: forget.Image, ID: pairOf(1).ImageID}, forget.SourceKey("http://x/")}, time.Unix(1, 0)))(t)
	var err error
	if s.(*stage).sieve.gone, err = forget.Open(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	bySource := pairOf(3)
	bySource.Source = "http://x/"
	var out stagetest.Output
	feed(t, s, &out, record(t, 0, pairOf(0)), record(t, 1, pairOf(1)), record(t, 2, late), record(t, 3, bySource), record(t, 4, &schemas.Seal{}))
	if got, want := filtered(out.Events), "+ forgotten: forgotten: forgotten: seal"; got != want || len(out.Events) != 5 {
		t.Errorf("did %q in %d events, want %q", got, len(out.Events), want)
	}
}
