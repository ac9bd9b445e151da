package dataset

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

// Connections writes the connections of scored batches as examples of a WebDataset: pairs of images and captions that
// are not in the crawl, but that Con-D takes for matches. (MAFA table 20 calls the crawl and these ECM-6M.)
// [shard.Scan] reads them as pairs, and their JSON holds the probability.
type Connections struct {
	bucket *shard.Bucket
	out    *shard.DirWriter
	above  float32
	seen   map[schemas.PairID]bool
	sum    ConnectionSummary
}

// ConnectionSummary counts the candidates above the threshold by outcome.
type ConnectionSummary struct {
	Written  int // new pairs
	Known    int // pairs of the same batch, and pairs written before, which keep their first probability
	Replaced int // texts that are not captions but the objects of an image (GPN-S)
	Lost     int // pairs whose image is no longer in the bucket
}

// NewConnections writes pairs with a probability above a threshold to out, which the caller closes.
func NewConnections(bucket *shard.Bucket, out *shard.DirWriter, above float64) *Connections {
	return &Connections{bucket: bucket, out: out, above: float32(above), seen: map[schemas.PairID]bool{}}
}

// Summary returns the counts so far.
func (c *Connections) Summary() ConnectionSummary { return c.sum }

// Add writes the connections of a batch: first those of its images, then those of its texts, in the batch's order.
func (c *Connections) Add(ctx context.Context, b *schemas.ScoredBatch) error {
	for _, s := range b.Samples {
		if !s.Replaced {
			c.seen[s.ID] = true
		}
	}
	for k, candidate := range b.I2T {
		if err := c.candidate(ctx, b, k/int(b.M), int(candidate), b.ProbI2T[k]); err != nil {
			return err
		}
	}
	for k, candidate := range b.T2I {
		if err := c.candidate(ctx, b, int(candidate), k/int(b.M), b.ProbT2I[k]); err != nil {
			return err
		}
	}
	return nil
}

// candidate writes the pair of an image and a text of the batch if it is a new connection.
func (c *Connections) candidate(ctx context.Context, b *schemas.ScoredBatch, image, text int, p float32) error {
	if image < 0 || text < 0 || p <= c.above {
		return nil
	}
	i, t := &b.Samples[image], &b.Samples[text]
	if t.Replaced {
		c.sum.Replaced++
		return nil
	}
	id := schemas.NewPairID(i.ImageID, t.Text)
	if c.seen[id] {
		c.sum.Known++
		return nil
	}
	c.seen[id] = true
	encoded, err := c.bucket.ReadRange(ctx, i.Image, i.ImageID)
	if shard.Permanent(err) {
		c.sum.Lost++
		return nil
	}
	if err != nil {
		return err
	}
	meta, err := json.Marshal(map[string]any{"caption": t.Text, "probability": p, "image_of": i.ID.String(), "caption_of": t.ID.String(), "con_d": b.Model})
	if err != nil {
		return fmt.Errorf("encoding connection %s: %w", id, err)
	}
	key := fmt.Sprintf("%09d", c.sum.Written)
	c.sum.Written++
	return c.out.Write(key, shard.File{Ext: shard.Extension(encoded), Data: encoded}, shard.File{Ext: "json", Data: meta})
}
