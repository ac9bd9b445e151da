package demo

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/base/auc"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// truth compares Con-D's connections with the truth about the pictures.
type truth struct {
	knowledge
	ecm                trainer.ECMOptions
	candidates, trues  int // all candidates, and those whose caption is true of the picture
	confirmed, correct int // all connections, and those whose caption is true of the picture
	judged             []auc.Judgement
}

// ofScenes returns the truth about the pictures of generated tars.
func ofScenes(ctx context.Context, dir string) (*knowledge, error) {
	shows, err := scenes.Shown(ctx, []string{dir})
	fits := func(image schemas.ImageID, caption string) bool { return scenes.Matches(shows[image], caption) }
	return &knowledge{fits: fits, says: "true of their picture", held: true}, err
}

// read compares every candidate of a run's scored batches with the truth, and counts the false negatives of the first
// epoch.
func (t *truth) read(ctx context.Context, a *arm) error {
	for lane := range a.log.Config().Lanes {
		embedded, err := embeddings(ctx, a.log, lane)
		if err != nil {
			return err
		}
		for b, err := range stream.Values[*schemas.ScoredBatch](ctx, a.log, schemas.Scored, lane) {
			if err != nil {
				return fmt.Errorf("comparing connections with what is true: %w", err)
			}
			converted := map[[2]int32]bool{}
			for k := range b.I2T {
				anchor := int32(k / int(b.M))
				t.judge(b, anchor, b.I2T[k], b.ProbI2T[k], converted)
				t.judge(b, b.T2I[k], anchor, b.ProbT2I[k], converted)
			}
			if b.Epoch == 0 {
				if err := t.hardest(ctx, &a.hardest, members(embedded, b.Samples), converted); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// judge compares a candidate with the truth. It adds connections to converted.
func (t *truth) judge(b *schemas.ScoredBatch, image, text int32, p float32, converted map[[2]int32]bool) {
	if image < 0 || text < 0 {
		return
	}
	holds := t.fits(b.Samples[image].ImageID, b.Samples[text].Text)
	connection := t.ecm.ClassOf(p) == trainer.Connection
	if connection {
		converted[[2]int32{image, text}] = true
	}
	t.judged = append(t.judged, auc.Judgement{P: p, True: holds})
	for _, c := range []struct {
		n  *int
		is bool
	}{{&t.candidates, true}, {&t.trues, holds}, {&t.confirmed, connection}, {&t.correct, connection && holds}} {
		if c.is {
			*c.n++
		}
	}
}

// base returns the share of true candidates, and the AUC of Con-D's probabilities.
func (t *truth) base() string {
	return fmt.Sprintf("%.1f %% of them are %s; Con-D tells them from the others with an AUC of %.3f (0.5: a coin)",
		percent(t.trues, t.candidates), t.says, auc.Of(t.judged))
}

// String returns the precision and the recall of connections.
func (t *truth) String() string {
	return fmt.Sprintf("%.1f %% of them are %s; they are %.1f %% of all that are",
		percent(t.correct, t.confirmed), t.says, percent(t.correct, t.trues))
}

// percent returns a part of a whole in percent, 0 if the whole is 0.
func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }

// negatives counts the hardest negatives of mini-batches: for every image the most similar text, and for every text the
// most similar image, by the encoder's vectors, as in experiment X1.
type negatives struct {
	all, untrue int // untrue: false negatives, whose text is true of the image
	left        int // false negatives that no connection makes a positive
}

// embeddings reads the embeddings of a lane.
func embeddings(ctx context.Context, log *stream.Log, lane int) (map[schemas.PairID]*schemas.Embedding, error) {
	of := map[schemas.PairID]*schemas.Embedding{}
	for e, err := range stream.Values[*schemas.Embedding](ctx, log, schemas.Embeddings, lane) {
		if err != nil {
			return nil, fmt.Errorf("counting false negatives: %w", err)
		}
		if of[e.ID] == nil {
			of[e.ID] = e
		}
	}
	return of, nil
}

// members returns the embeddings of a mini-batch's samples.
func members(of map[schemas.PairID]*schemas.Embedding, samples []schemas.Sample) []*schemas.Embedding {
	var out []*schemas.Embedding
	for _, s := range samples {
		if e := of[s.ID]; e != nil {
			out = append(out, e)
		}
	}
	return out
}

// hardest counts the hardest negatives of a mini-batch. converted holds the image and the text of every connection.
func (t *truth) hardest(ctx context.Context, to *negatives, batch []*schemas.Embedding, converted map[[2]int32]bool) error {
	if len(batch) == 0 {
		return nil
	}
	image, number := make([]int32, len(batch)), map[schemas.ImageID]int32{}
	v, u := dotproduct.NewMatrix(len(batch), batch[0].V.Len()), dotproduct.NewMatrix(len(batch), batch[0].V.Len())
	for i, e := range batch {
		if _, known := number[e.ImageID]; !known {
			number[e.ImageID] = int32(len(number))
		}
		image[i] = number[e.ImageID]
		copy(v.Row(i), e.V.Floats())
		copy(u.Row(i), e.T.Floats())
	}
	texts, images, err := grouper.HardCandidates(ctx, v, u, image, 1)
	if err != nil {
		return err
	}
	count := func(image, text int32) {
		if image < 0 || text < 0 {
			return
		}
		to.all++
		if t.fits(batch[image].ImageID, batch[text].Caption) {
			to.untrue++
			if !converted[[2]int32{image, text}] {
				to.left++
			}
		}
	}
	for i := range batch {
		count(int32(i), texts[i])
		count(images[i], int32(i))
	}
	return nil
}

// remaining returns the percentage of false negatives that training uses as negatives.
func (n negatives) remaining() float64 { return percent(n.left, n.all) }
