package scenes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/crawl/shard"
)

// Options configure the generator.
type Options struct {
	Seed            uint64
	Scenes          int
	Captions        int     // of each scene
	Side            int     // of the pictures, in pixels
	Format          string  // "png" or "jpeg"
	PerShard        int     // scenes in a tar
	WrongShare      float64 // of captions that are false
	IrrelevantShare float64 // of captions unrelated to the picture
	// FalseNegatives is the share of pictures that fit at least one of the captions of 95 other scenes: the most false
	// negatives that random mini-batches of 96 can have. 0 leaves the captions unchanged.
	FalseNegatives float64
	Kinds          Kinds // of scenes
}

// Defaults returns 1,000 scenes of 96 pixels with three true captions each.
func Defaults() Options {
	return Options{Seed: 1, Scenes: 1000, Captions: 3, Side: 96, Format: "png", PerShard: 250}
}

// maxCaptions is a number of captions for which even the plainest scene has enough different words.
const maxCaptions = 20

// Validate reports every option that is out of bounds.
func (o Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Scenes >= 1, "scenes is %d, want at least 1", o.Scenes)
	check(o.Captions >= 1 && o.Captions <= maxCaptions, "captions is %d, want 1..%d", o.Captions, maxCaptions)
	check(o.Side >= 16 && o.Side <= 1024, "side is %d, want 16..1024 pixels", o.Side)
	check(o.Format == "png" || o.Format == "jpeg", "format is %q, want png or jpeg", o.Format)
	check(o.PerShard >= 1, "scenes per shard is %d, want at least 1", o.PerShard)
	check(o.Kinds.Shapes >= 0 && o.Kinds.Shapes <= len(Shapes), "shapes is %d, want 0..%d", o.Kinds.Shapes, len(Shapes))
	check(o.Kinds.Colours >= 0 && o.Kinds.Colours <= len(Colours), "colours is %d, want 0..%d", o.Kinds.Colours, len(Colours))
	check(o.Kinds.Objects >= 0 && o.Kinds.Objects <= len(countShares), "objects is %d, want 0..%d", o.Kinds.Objects, len(countShares))
	check(o.FalseNegatives == 0 || o.FalseNegatives >= leastFalseNegatives && o.FalseNegatives <= mostFalseNegatives,
		"share of false negatives is %g, want 0 or %g..%g", o.FalseNegatives, leastFalseNegatives, mostFalseNegatives)
	check(o.FalseNegatives == 0 || o.Kinds == Kinds{}, "share of false negatives is %g, which needs scenes of all kinds: leave out shapes, colours, objects, large, plain and partial", o.FalseNegatives)
	check(!o.Kinds.Partial || o.Kinds.Objects != 1, "objects is 1, which leaves nothing out: with partial captions want 0 or 2..%d", len(countShares))
	check(o.WrongShare >= 0 && o.IrrelevantShare >= 0 && o.WrongShare+o.IrrelevantShare <= 1,
		"shares of wrong and irrelevant captions are %g and %g, want a sum in 0..1", o.WrongShare, o.IrrelevantShare)
	return errors.Join(errs...)
}

// Record is the key.json of a scene: everything known about the picture and its captions.
type Record struct {
	Captions []string `json:"captions"`
	Labels   []Label  `json:"labels"` // beside Captions
	Scene    Scene    `json:"scene"`
}

// ReadRecord reads a key.json.
func ReadRecord(meta []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(meta, &r); err != nil {
		return Record{}, fmt.Errorf("reading the record of a scene: %w", err)
	}
	return r, nil
}

// Make makes the scene of an index: its record and its encoded picture. Options must be valid.
func Make(o Options, index int) (Record, []byte, error) {
	r := rng.New(o.Seed, "scenes", int64(index))
	kinds := o.Kinds
	kinds.several = o.FalseNegatives > 0 || o.Kinds.Partial
	record := Record{Scene: kinds.Random(r)}
	record.Labels = record.Scene.labels(o, r)
	for _, l := range record.Labels {
		record.Captions = append(record.Captions, l.Caption)
	}
	encoded, err := encode(record.Scene.Draw(o.Side), o.Format)
	if err != nil {
		return Record{}, nil, fmt.Errorf("encoding scene %d: %w", index, err)
	}
	return record, encoded, nil
}

func encode(m image.Image, format string) ([]byte, error) {
	var buf bytes.Buffer
	if format == "jpeg" {
		err := jpeg.Encode(&buf, m, &jpeg.Options{Quality: 92})
		return buf.Bytes(), err
	}
	err := (&png.Encoder{CompressionLevel: png.BestSpeed, BufferPool: encoders{}}).Encode(&buf, m)
	return buf.Bytes(), err
}

// encoders lends the PNG encoder's buffers, a megabyte that would otherwise be allocated for every picture.
type encoders struct{}

var encoderPool sync.Pool

// Get implements png.EncoderBufferPool.
func (encoders) Get() *png.EncoderBuffer {
	b, _ := encoderPool.Get().(*png.EncoderBuffer) // nil makes the encoder allocate its own
	return b
}

// Put implements png.EncoderBufferPool.
func (encoders) Put(b *png.EncoderBuffer) { encoderPool.Put(b) }

// WriteDir generates scenes into the tars of a folder, which must have none yet. After every tar's worth of scenes, or
// fewer, it reports their number to progress, which may be nil.
func WriteDir(ctx context.Context, dir string, o Options, progress func(done int)) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("generating scenes: %w", err)
	}
	if found, err := filepath.Glob(filepath.Join(dir, "*.tar")); err != nil || len(found) > 0 {
		return errors.Join(fmt.Errorf("generating scenes: the folder %s holds %d tars already", dir, len(found)), err)
	}
	w, err := shard.NewDirWriter(dir, o.PerShard)
	if err != nil {
		return err
	}
	for from := 0; from < o.Scenes; from += blockScenes {
		end := min(from+blockScenes, o.Scenes)
		if err := writeBlock(ctx, w, o, from, end); err != nil {
			return errors.Join(fmt.Errorf("generating scenes %d to %d: %w", from, end-1, err), w.Abort())
		}
		if progress != nil {
			progress(end)
		}
	}
	return w.Close()
}

// blockScenes is the number of scenes that are made at the same time, on all processors, and then written in order.
const blockScenes = 64

func writeBlock(ctx context.Context, w *shard.DirWriter, o Options, from, end int) error {
	files := make([][]shard.File, end-from)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range files {
		g.Go(func() (err error) {
			if err := ctx.Err(); err != nil {
				return err
			}
			files[i], err = sceneFiles(o, from+i)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, f := range files {
		if err := w.Write(fmt.Sprintf("%09d", from+i), f...); err != nil {
			return err
		}
	}
	return nil
}

func sceneFiles(o Options, index int) ([]shard.File, error) {
	record, encoded, err := Make(o, index)
	if err != nil {
		return nil, err
	}
	meta, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encoding the record of scene %d: %w", index, err)
	}
	ext := "png"
	if o.Format == "jpeg" {
		ext = "jpg"
	}
	return []shard.File{{Ext: ext, Data: encoded}, {Ext: "json", Data: meta}}, nil
}
