package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/stagetest"
	"github.com/pairstream/pairstream/schemas"
)

// core embeds everything alike, and refuses what it is told to.
type core struct {
	batch int
	bad   map[schemas.PairID]error
	fault error
	calls []int // pairs of each call
}

func (c *core) BatchSize() int { return c.batch }

func (c *core) Encode(_ context.Context, pairs []*schemas.Pair, _ encoder.Wanted) ([]encoder.Result, error) {
	c.calls = append(c.calls, len(pairs))
	var out []encoder.Result
	for _, p := range pairs {
		if err := c.bad[p.ID]; err != nil {
			out = append(out, encoder.Result{Unusable: fmt.Errorf("%w: %w", encoder.ErrUnusable, err)})
			continue
		}
		unit := schemas.NewFloat16s([]float32{1, 0})
		out = append(out, encoder.Result{Embedding: &schemas.Embedding{
			ID: p.ID, ImageID: p.ImageID, Image: *p.Image, Caption: p.Caption, V: unit, T: unit, Similarity: 1, Model: "m",
		}})
	}
	return out, c.fault
}

func pairOf(n int) *schemas.Pair {
	image := schemas.NewImageID([]byte{byte(n)})
	p := &schemas.Pair{ImageID: image, Caption: fmt.Sprint("caption ", n), Image: &schemas.ImageRef{URI: "file:///a.tar", Size: 1}}
	p.ID = schemas.NewPairID(image, p.Caption)
	return p
}

func inlinePair(t *testing.T, n int, encoded []byte) *schemas.Pair {
	t.Helper()
	p := pairOf(n)
	p.Image, p.Inline, p.ImageID = nil, encoded, schemas.NewImageID(encoded)
	p.ID = schemas.NewPairID(p.ImageID, p.Caption)
	return p
}

func picture(t *testing.T, n int) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 8, 8))
	m.Pix[0] = byte(n)
	var buf bytes.Buffer
	must.Do(t, png.Encode(&buf, m))
	return buf.Bytes()
}

func newStage(t *testing.T, c *core, o shard.SpoolOptions, state []byte) (stream.Stage, service.Runtime) {
	t.Helper()
	return newFilteredStage(t, c, "", o, state)
}

func newFilteredStage(t *testing.T, c *core, rules string, o shard.SpoolOptions, state []byte) (stream.Stage, service.Runtime) {
	t.Helper()
	instruments, rt := stagetest.Instruments(t, Name)
	sieve := must.Get(newSieve(rules))(t)
	must.Do(t, instruments.Register(sieve.dropped))
	s := must.Get(newStages(stage{core: c, sieve: sieve, instruments: instruments}, o, spans{size: 1000, filter: rules})(2, state))(t)
	t.Cleanup(func() { must.Check(t, s.(*stage).Close()) })
	return s, rt
}

// told describes what a stage did: "+3" an embedding of the pair at offset 3, "-3" its refusal, "x3" a dead letter,
// "seal".
func told(events []stagetest.Event) string {
	var words []string
	for _, e := range events {
		switch r := e.Record.(type) {
		case *schemas.Embedding:
			words = append(words, "+"+strings.TrimPrefix(r.Caption, "caption "))
		case *schemas.Refusal:
			words = append(words, "-"+strconv.FormatInt(e.Resume.Inputs[0].Offset-1, 10))
		case *schemas.Seal:
			words = append(words, "seal")
		default:
			words = append(words, "x"+strconv.FormatInt(e.Dead.Offset, 10))
		}
	}
	return strings.Join(words, " ")
}

// feed gives records to a stage at offsets 0, 1, ... and sets aside what it calls poison, as the log does.
func feed(t *testing.T, s stream.Stage, out *stagetest.Output, records ...stream.Record) {
	t.Helper()
	for _, rec := range records {
		if s.Input() != schemas.Pairs {
			t.Fatalf("the stage asks for %s", s.Input())
		}
		err := s.Process(t.Context(), rec, out)
		if errors.Is(err, stream.ErrPoison) {
			err = out.DeadLetter(rec, err.Error())
		}
		must.Do(t, err)
	}
}

func record(t *testing.T, offset int64, rec schemas.Record) stream.Record {
	t.Helper()
	return stagetest.Record(t, schemas.Pairs, offset, rec)
}

// Whatever the bucket says of an image, its pair has one record, in its place, with the mark behind itself.
func TestEveryPairHasOneRecord(t *testing.T) {
	for _, batch := range []int{1, 2, 3, 100} {
		for name, bad := range map[string]map[schemas.PairID]error{
			"all good": nil,
			"some bad": {pairOf(1).ID: shard.ErrMissing, pairOf(2).ID: imaging.ErrNotImage, pairOf(5).ID: shard.ErrHashMismatch},
			"all bad": {
				pairOf(0).ID: shard.ErrMissing, pairOf(1).ID: shard.ErrMissing, pairOf(2).ID: shard.ErrMissing,
				pairOf(4).ID: shard.ErrMissing, pairOf(5).ID: shard.ErrMissing,
			},
		} {
			t.Run(fmt.Sprintf("%s, batches of %d", name, batch), func(t *testing.T) {
				c := &core{batch: batch, bad: bad}
				s, rt := newStage(t, c, shard.SpoolOptions{}, nil)
				var out stagetest.Output
				feed(t, s, &out, record(t, 0, pairOf(0)), record(t, 1, pairOf(1)), record(t, 2, pairOf(2)), record(t, 3, &schemas.Seal{}),
					record(t, 4, pairOf(4)), record(t, 5, pairOf(5)))
				must.Do(t, s.Flush(t.Context(), &out))
				want, embedded := "", 0
				for i := range int64(6) {
					switch p := pairOf(int(i)); {
					case i == 3:
						want += " seal"
					case bad[p.ID] != nil:
						want += fmt.Sprintf(" x%d -%d", i, i)
					default:
						want, embedded = want+fmt.Sprintf(" +%d", i), embedded+1
					}
				}
				if got := told(out.Events); got != want[1:] {
					t.Errorf("did %q, want %q", got, want[1:])
				}
				at := int64(0)
				for _, e := range out.Events {
					if e.Record == nil {
						continue
					}
					if e.Topic != schemas.Embeddings || e.Resume.Inputs[0].Offset != at+1 {
						t.Errorf("record %d on %s resumes at offset %d", at, e.Topic, e.Resume.Inputs[0].Offset)
					}
					if r, ok := e.Record.(*schemas.Refusal); ok && r.Reason != shard.MaskReason(bad[r.ID]) {
						t.Errorf("pair %d was refused as %q", at, r.Reason)
					}
					at++
				}
				if in, out := stagetest.Metric(t, rt, "pairstream_stage_pairs_in_total"), stagetest.Metric(t, rt, "pairstream_stage_pairs_out_total"); in != 5 || out != float64(embedded) {
					t.Errorf("metrics: %v pairs in, %v out", in, out)
				}
			})
		}
	}
}

// What is no pair is set aside behind what was held back before it, or a mark would run ahead of it.
func TestNoDeadLetterOvertakes(t *testing.T) {
	c := &core{batch: 10}
	s, _ := newStage(t, c, shard.SpoolOptions{}, nil)
	broken := record(t, 1, pairOf(1))
	broken.Value = broken.Value[:10]
	foreign := stagetest.Record(t, schemas.Pairs, 3, &schemas.Progress{Kind: schemas.ProgressEval})
	var out stagetest.Output
	feed(t, s, &out, record(t, 0, pairOf(0)), broken, record(t, 2, pairOf(2)), foreign, record(t, 4, pairOf(4)), record(t, 5, inlinePair(t, 5, picture(t, 5))))
	if got, want := told(out.Events), "+0 x1 +2 x3 +4 x5 -5"; got != want {
		t.Errorf("did %q, want %q", got, want)
	}
	if last := out.Events[len(out.Events)-1].Record.(*schemas.Refusal); last.Reason != schemas.MaskInline {
		t.Errorf("without a spool an inline image is refused as %q", last.Reason)
	}
}

func TestDeadLettersSayWhatTheProducerFound(t *testing.T) {
	c := &core{batch: 1}
	s, _ := newStage(t, c, shard.SpoolOptions{}, nil)
	value := must.Get(shard.Problem{URI: "file:///a.tar", Reason: shard.ReasonNoImage, Detail: "no image belongs to the caption", Caption: "alone"}.Record())(t)
	var out stagetest.Output
	feed(t, s, &out, stream.Record{Topic: schemas.Pairs, Schema: schemas.SchemaPair, Value: value})
	if got, want := out.Events[0].Reason, "image missing: no image belongs to the caption ("; !strings.HasPrefix(got, want) {
		t.Errorf("reason %q, want one that begins with %q", got, want)
	}
}

func TestFaultsKeepWhatIsHeld(t *testing.T) {
	c := &core{batch: 2, fault: errors.New("bucket out of reach")}
	s, _ := newStage(t, c, shard.SpoolOptions{}, nil)
	var out stagetest.Output
	feed(t, s, &out, record(t, 0, pairOf(0)))
	if err := s.Process(t.Context(), record(t, 1, pairOf(1)), &out); !errors.Is(err, stream.ErrTransient) || len(out.Events) != 0 {
		t.Errorf("error %v and %d records, want a passing fault", err, len(out.Events))
	}
	c.fault = nil
	if err := s.Flush(t.Context(), &out); err != nil || told(out.Events) != "+0 +1" {
		t.Errorf("when the fault is over: %q, %v", told(out.Events), err)
	}
}

// TestInlineImagesAreSpooled resumes from the mark of every record: the references, and the bytes in the folder, are
// those of a run that nothing disturbed. Junk leaves nothing there.
func TestInlineImagesAreSpooled(t *testing.T) {
	junk := []byte("<html>404</html>")
	cut := picture(t, 9)
	cut = cut[:len(cut)-20]
	// The frame of a JPEG of 56 megapixels, without pixels: its pixels would take more than decoders may.
	empty := []byte("\xff\xd8\xff\xc0\x00\x0b\x08\x1b\x58\x1f\x40\x01\x01\x11\x00\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00")
	records := func(t *testing.T) []stream.Record {
		return []stream.Record{
			record(t, 0, inlinePair(t, 0, picture(t, 0))), record(t, 1, inlinePair(t, 1, junk)), record(t, 2, inlinePair(t, 2, picture(t, 2))),
			record(t, 3, inlinePair(t, 3, cut)), record(t, 4, inlinePair(t, 4, picture(t, 0))), record(t, 5, inlinePair(t, 5, picture(t, 5))),
			record(t, 6, inlinePair(t, 6, empty)), record(t, 7, &schemas.Seal{Final: true}),
		}
	}
	run := func(t *testing.T, dir string, state []byte, from int) []stagetest.Event {
		c := &core{batch: 3}
		s, _ := newStage(t, c, shard.SpoolOptions{Root: dir, Namespace: "crawl", TarBytes: 3000}, state)
		var out stagetest.Output
		feed(t, s, &out, records(t)[from:]...)
		return out.Events
	}
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	whole := run(t, dir, nil, 0)
	if got, want := told(whole), "+0 x1 -1 +2 x3 -3 +4 +5 x6 -6 seal"; got != want {
		t.Fatalf("did %q, want %q", got, want)
	}
	before := contents(t, dir)
	b := must.Get(shard.OpenBucket(t.Context(), []string{shard.FileURI(dir)}, nil))(t)
	defer b.Close()
	for i, e := range whole {
		if x, ok := e.Record.(*schemas.Embedding); ok {
			if _, err := b.ReadRange(t.Context(), x.Image, x.ImageID); err != nil {
				t.Errorf("the image of record %d: %v", i, err)
			}
			if !strings.HasPrefix(x.Image.URI, shard.FileURI(dir)+"/crawl/lane-00002/") {
				t.Errorf("the image of record %d is at %s", i, x.Image.URI)
			}
		}
		if e.Record == nil {
			continue
		}
		rest := run(t, dir, e.Resume.State, int(e.Resume.Inputs[0].Offset))
		if got, want := describe(rest), describe(whole[i+1:]); got != want {
			t.Errorf("resuming behind record %d:\n%s\nwant\n%s", i, got, want)
		}
		if after := contents(t, dir); after != before {
			t.Errorf("resuming behind record %d changed the spool", i)
		}
	}
	for what, content := range map[string][]byte{"text": junk, "a cut picture": cut, "a frame": empty} {
		if strings.Contains(before, string(content)) {
			t.Errorf("%s lies in the spool", what)
		}
	}
}

// watched notes when its spool is synced.
type watched struct {
	spool
	note func()
}

func (w watched) Sync() error {
	w.note()
	return w.spool.Sync()
}

// syncs tells in the order of events when the spool was synced.
type syncs struct {
	stagetest.Output
	told []string
}

func (s *syncs) Emit(topic schemas.Topic, rec schemas.Record, resume stream.Mark) error {
	s.told = append(s.told, "record")
	return s.Output.Emit(topic, rec, resume)
}

// Images outlast a loss of power that comes when their embeddings are in the log.
func TestImagesAreOnTheDiskBeforeTheirEmbeddings(t *testing.T) {
	s, _ := newStage(t, &core{batch: 2}, shard.SpoolOptions{Root: t.TempDir(), TarBytes: 4000}, nil)
	var out syncs
	st := s.(*stage)
	st.spool = watched{st.spool, func() { out.told = append(out.told, "sync") }}
	for i := range 5 {
		p := inlinePair(t, i, picture(t, i))
		if i == 2 || i == 3 { // what did not come inline needs none
			p = pairOf(i)
		}
		must.Do(t, s.Process(t.Context(), record(t, int64(i), p), &out))
	}
	must.Do(t, s.Flush(t.Context(), &out))
	if got, want := strings.Join(out.told, " "), "sync record record record record sync record"; got != want {
		t.Errorf("did %q, want %q", got, want)
	}
}

// describe says what was made and where it resumes.
func describe(events []stagetest.Event) string {
	var b strings.Builder
	for _, e := range events {
		if e.Record != nil {
			value, _ := schemas.Marshal(e.Record)
			fmt.Fprintf(&b, "%s %x %+v\n", e.Topic, value, e.Resume)
		}
	}
	return b.String()
}

func contents(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must.Do(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s\n%s\n", path, raw)
		return err
	}))
	return b.String()
}

// A lane that begins where another log has left its images ends the process: to go on would overwrite them.
func TestTheSpoolOfAnotherLogIsRefused(t *testing.T) {
	dir := t.TempDir()
	o := shard.SpoolOptions{Root: dir, Namespace: "crawl", TarBytes: 4000}
	var out stagetest.Output
	first, _ := newStage(t, &core{batch: 1}, o, nil)
	feed(t, first, &out, record(t, 0, inlinePair(t, 0, picture(t, 0))))
	second, _ := newStage(t, &core{batch: 1}, o, nil)
	err := second.Process(t.Context(), record(t, 0, inlinePair(t, 0, picture(t, 1))), &out)
	if !errors.Is(err, shard.ErrForeignSpool) || errors.Is(err, stream.ErrTransient) || errors.Is(err, stream.ErrPoison) || !strings.Contains(err.Error(), "SPOOL_DIR") {
		t.Errorf("error %v, want a fatal one that names the setting", err)
	}
}

func TestTheQuotaIsSharedOut(t *testing.T) {
	for _, c := range []struct{ quota, keep, tar int64 }{{0, 0, tarBytes}, {8 << 30, 2 << 30, tarBytes}, {64 << 20, 16 << 20, 4 << 20}, {1, 1, 1}} {
		got := Settings{SpoolDir: "/spool", SpoolBytes: c.quota}.spool("crawl", 4)
		if got != (shard.SpoolOptions{Root: "/spool", Namespace: "crawl", TarBytes: c.tar, KeepBytes: c.keep}) {
			t.Errorf("a quota of %d gives %+v", c.quota, got)
		}
	}
}
