// Package runlog writes the log of a small run that never was: pairs with drawn images, a closed group, mini-batches
// that Con-D has scored, features, reports and dead letters. Everything goes through the codecs and the publisher of a
// run, so whatever reads logs can be tested on it without a model. The same options always give the same records.
package runlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Options say how large the run is.
type Options struct {
	Dir         string // images go here
	Pairs       int    // of lane 0, all in one group
	Batch       int
	Epochs      int
	DeadLetters int
	Captions    map[int]string // by place, instead of the drawn one
	NoImages    bool           // references lead nowhere
	Spoiled     bool           // the bytes of every other image are none
	FirstDead   int            // place of the first dead letter's record, so that letters of two runs differ
	LargeLetter int            // bytes of one more dead letter; 0: none
	RuledOut    bool           // a candidate of every mini-batch is ruled out early
	Check       *schemas.Check // of the first mini-batch, which then has no candidates; connections are off in it
}

const (
	dim      = 16
	clusters = 8
	images   = 64 // distinct pictures
)

// Run is what was written.
type Run struct {
	Pairs []*schemas.Embedding
}

var colours = []struct {
	name string
	c    color.RGBA
}{{"red", color.RGBA{200, 40, 40, 255}}, {"green", color.RGBA{40, 150, 70, 255}}, {"blue", color.RGBA{50, 80, 200, 255}}, {"yellow", color.RGBA{230, 200, 40, 255}}}

// Write writes the run to a log whose topics exist.
func Write(ctx context.Context, log *stream.Log, o Options) (*Run, error) {
	w := &writer{ctx: ctx, o: o, p: log.NewPublisher(stream.PublisherOptions{}), rng: rand.New(rand.NewPCG(1, 2)), seqs: make(map[schemas.Topic]int64)}
	err := w.run()
	if cerr := w.p.Close(ctx); err == nil {
		err = cerr
	}
	return &Run{w.pairs}, err
}

type writer struct {
	ctx   context.Context //nolint:containedctx // of the one call that writes the log
	o     Options
	p     *stream.Publisher
	rng   *rand.Rand
	seqs  map[schemas.Topic]int64
	pairs []*schemas.Embedding
	refs  []schemas.ImageRef
	ids   []schemas.ImageID
}

func (w *writer) run() error {
	for _, step := range []func() error{w.draw, w.embed, w.group, w.train, w.setAside} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// madeOf names the input of a topic whose records are made of one record each.
var madeOf = map[schemas.Topic]schemas.Topic{schemas.Embeddings: schemas.Pairs, schemas.Scored: schemas.Batches}

func (w *writer) emit(topic schemas.Topic, r schemas.Record) error {
	seq := w.seqs[topic]
	w.seqs[topic]++
	var mark stream.Mark
	if input, ok := madeOf[topic]; ok {
		mark.Inputs = []stream.TopicPosition{{Topic: input, Position: stream.Position{Offset: seq + 1, Seq: seq + 1}}}
	}
	return w.p.PublishSeq(w.ctx, topic, 0, seq, mark, r)
}

// draw writes all pictures into one object.
func (w *writer) draw() error {
	var all bytes.Buffer
	path := filepath.Join(w.o.Dir, "images.bin")
	for i := range images {
		m := image.NewRGBA(image.Rect(0, 0, 96, 72+i%40))
		for y := range m.Rect.Dy() {
			for x := range m.Rect.Dx() {
				c := color.RGBA{230, 230, uint8(200 + i%50), 255}
				if (x-48)*(x-48)+(y-36)*(y-36) < (10+i%20)*(10+i%20) {
					c = colours[i%len(colours)].c
				}
				m.SetRGBA(x, y, c)
			}
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, m, nil); err != nil {
			return err
		}
		if w.o.Spoiled && i%2 == 0 {
			b.Truncate(b.Len() / 4)
		}
		w.refs = append(w.refs, schemas.ImageRef{URI: "file://" + path, Offset: int64(all.Len()), Size: int64(b.Len())})
		w.ids = append(w.ids, schemas.NewImageID(b.Bytes()))
		all.Write(b.Bytes())
	}
	if w.o.NoImages {
		return nil
	}
	return os.WriteFile(path, all.Bytes(), 0o600)
}

// near returns a unit vector near that of a kind.
func (w *writer) near(kind int, spread float64) []float32 {
	v := make([]float64, dim)
	v[kind%dim] = 1
	sum := 0.0
	for i := range v {
		v[i] += spread * w.rng.NormFloat64()
		sum += v[i] * v[i]
	}
	out := make([]float32, dim)
	for i := range v {
		out[i] = float32(v[i] / math.Sqrt(sum))
	}
	return out
}

func (w *writer) embed() error {
	for i := range w.o.Pairs {
		at := w.rng.IntN(images)
		caption := fmt.Sprintf("a %s circle, number %d", colours[at%len(colours)].name, i)
		if text, ok := w.o.Captions[i]; ok {
			caption = text
		}
		v, t := schemas.NewFloat16s(w.near(at%clusters, 0.15)), schemas.NewFloat16s(w.near(at%clusters, 0.2))
		sim := 0.0
		for k, x := range v.Floats() {
			sim += float64(x) * float64(t.Floats()[k])
		}
		e := &schemas.Embedding{
			ID: schemas.NewPairID(w.ids[at], caption), ImageID: w.ids[at], Image: w.refs[at], Caption: caption, V: v, T: t, Similarity: float32(sim), Model: "5e1f0c0ffee15bad",
		}
		ref := e.Image
		if err := w.p.Publish(w.ctx, schemas.Pairs, 0, &schemas.Pair{ID: e.ID, ImageID: e.ImageID, Image: &ref, Caption: caption}); err != nil {
			return err
		}
		if err := w.emit(schemas.Embeddings, e); err != nil {
			return err
		}
		w.pairs = append(w.pairs, e)
	}
	return nil
}

const (
	k  = 10
	k1 = 5
)

func (w *writer) group() error {
	if len(w.pairs) == 0 {
		return nil
	}
	id := schemas.GroupID{}
	digest := sha256.New()
	for start := 0; start < len(w.pairs); start += schemas.ChunkMembers {
		c := &schemas.NeighborChunk{Group: id, Start: int32(start), K: k, K1: k1}
		for i := start; i < min(start+schemas.ChunkMembers, len(w.pairs)); i++ {
			c.IDs = append(c.IDs, w.pairs[i].ID[:]...)
			for n := range k {
				c.V2T = append(c.V2T, int32((i+n)%len(w.pairs)))
			}
			for n := range k1 {
				at := int32(-1)
				if n < i%(k1+1) {
					at = int32((i + 7*(n+1)) % len(w.pairs))
				}
				c.SE = append(c.SE, at)
			}
			c.Cluster = append(c.Cluster, int32(i%min(clusters, len(w.pairs))))
			if i%4 > 0 {
				c.Obj = append(c.Obj, 0)
			}
			if i%4 > 1 {
				c.Obj = append(c.Obj, int32(1+i%4))
			}
			c.ObjEnd = append(c.ObjEnd, int32(len(c.Obj)))
		}
		raw, err := schemas.Marshal(c)
		if err != nil {
			return err
		}
		digest.Write(raw)
		if err := w.emit(schemas.Neighbors, c); err != nil {
			return err
		}
	}
	n := int32(len(w.pairs))
	return w.emit(schemas.Groups, &schemas.Group{
		Group: id, EndSeq: int64(n), Count: n, Chunks: (n + schemas.ChunkMembers - 1) / schemas.ChunkMembers, Dim: dim, Clusters: min(clusters, n),
		MinSimilarity: -0.25, MaxSimilarity: 1, Nouns: []string{"circle", "dog", "house", "number", "sea"}, Model: "5e1f0c0ffee15bad", Closed: schemas.ClosedByCount,
		K: k, K1: k1, K2: 500, P: 0.3, MinCount: 10, Modality: schemas.ModalityImage, Digest: digest.Sum(nil),
	})
}

// train writes mini-batches, what Con-D and the trainer made of them, and the trainer's reports.
func (w *writer) train() error {
	if w.o.Batch == 0 {
		return nil
	}
	step := int64(0)
	per := len(w.pairs) / w.o.Batch
	for epoch := range w.o.Epochs {
		order := w.rng.Perm(len(w.pairs))
		for number := range per {
			b := w.batch(epoch, number, per, order[number*w.o.Batch:(number+1)*w.o.Batch])
			if err := w.emit(schemas.Batches, &b.Batch); err != nil {
				return err
			}
			if err := w.emit(schemas.Scored, b); err != nil {
				return err
			}
			if err := w.emit(schemas.Features, w.features(b, step)); err != nil {
				return err
			}
			x := float64(step)
			err := w.p.Publish(w.ctx, schemas.ProgressLog, 0, &schemas.Progress{Kind: schemas.ProgressStep, Step: step, Time: 1_750_000_000_000 + 1000*step, Values: schemas.Measures{
				"loss": 3 / (1 + x/50), "loss_itc": 2 / (1 + x/40), "loss_itm": 0.7 / (1 + x/90), "loss_mlm": 1.5 / (1 + x/60), "learning_rate": 1e-4 / (1 + x/100),
				"pairs_per_second": 250 + 20*math.Sin(x/9), "candidates": float64(4 * w.o.Batch), "connections": float64(w.o.Batch),
			}})
			if err != nil {
				return err
			}
			step++
		}
	}
	return w.p.Publish(w.ctx, schemas.ProgressLog, 0, &schemas.Progress{Kind: schemas.ProgressEval, Step: step, Time: 1_750_000_000_000 + 1000*step, Values: schemas.Measures{"tr_r1": 35, "ir_r1": 29}})
}

func (w *writer) batch(epoch, number, per int, members []int) *schemas.ScoredBatch {
	strategy := schemas.StrategyGRIT
	if epoch == 0 {
		strategy = schemas.StrategyRandom
	}
	n := len(members)
	b := &schemas.ScoredBatch{Model: "c0de00000000c0de", Batch: schemas.Batch{
		Group: schemas.GroupID{}, Epoch: int32(epoch), Sequence: int32(number), Batches: int32(per), Strategy: strategy, M: 2,
	}}
	for _, at := range members {
		p := w.pairs[at]
		b.Samples = append(b.Samples, schemas.Sample{ID: p.ID, ImageID: p.ImageID, Image: p.Image, Text: p.Caption, Position: int32(at)})
	}
	if w.o.Check != nil && epoch == 0 && number == 0 {
		b.M, b.Check = 0, w.o.Check
		return b
	}
	for i := range n {
		for m := range 2 {
			b.I2T, b.T2I = append(b.I2T, int32((i+m+1)%n)), append(b.T2I, int32((i+m+3)%n))
			b.ProbI2T, b.ProbT2I = append(b.ProbI2T, w.rng.Float32()), append(b.ProbT2I, w.rng.Float32())
		}
	}
	if w.o.RuledOut {
		b.ProbI2T[0], b.RuledOut = 0, 1
	}
	return b
}

func (w *writer) features(b *schemas.ScoredBatch, step int64) *schemas.FeatureBlock {
	f := &schemas.FeatureBlock{Group: b.Group, Epoch: b.Epoch, Sequence: b.Sequence, Dim: dim, Step: step}
	for _, s := range b.Samples {
		f.Positions = append(f.Positions, s.Position)
		f.V = append(f.V, w.pairs[s.Position].V...)
		f.T = append(f.T, w.pairs[s.Position].T...)
	}
	return f
}

// atOnce is how many dead letters of a long list are on their way at a time. Short lists keep their order.
const atOnce = 256

// setAside writes dead letters of several reasons and stages.
func (w *writer) setAside() error {
	reasons := []string{"malformed: not msgpack", "unusable image: decoding jpeg: unexpected EOF", "image missing: no such object", "image bytes do not have the image id"}
	all, ctx := errgroup.WithContext(w.ctx)
	all.SetLimit(1)
	if w.o.DeadLetters > 1000 {
		all.SetLimit(atOnce)
	}
	for i := range w.o.DeadLetters {
		all.Go(func() error {
			rec := stream.Record{Topic: schemas.Pairs, Offset: int64(1_000_000 + w.o.FirstDead + i), Schema: schemas.SchemaPair, Value: fmt.Appendf(nil, "\xffno pair %d", i)}
			return w.p.DeadLetter(ctx, []string{"encoder", "indexer"}[i%2], rec, reasons[i%len(reasons)])
		})
	}
	if err := all.Wait(); err != nil || w.o.LargeLetter == 0 {
		return err
	}
	rec := stream.Record{Topic: schemas.Pairs, Offset: 2_000_000, Schema: schemas.SchemaPair, Value: bytes.Repeat([]byte("<b>"), w.o.LargeLetter/3)}
	return w.p.DeadLetter(w.ctx, "encoder", rec, "malformed: "+strings.Repeat("<b>\u202e", 5000))
}
