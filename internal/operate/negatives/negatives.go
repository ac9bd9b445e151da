// Package negatives counts the false negatives of a run: negatives of ITM that another model, the judge, takes for
// matches (MAFA tables 1 and 9).
package negatives

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// Settings are the settings of a run that determine its negatives.
type Settings struct {
	Bucket rundir.Roots
	Device device.Settings
	Run    service.Run
	Core   trainer.Options
}

// Side counts the negatives of one direction, and those that the judge takes for matches.
type Side struct {
	Negatives int     `json:"negatives"`
	False     int     `json:"false"`
	Share     float64 `json:"share"`
}

func (c *Side) add(probability float32, above float64) {
	c.Negatives++
	if float64(probability) > above {
		c.False++
	}
	c.Share = float64(c.False) / float64(c.Negatives)
}

// Report is the output of `eval negatives`.
type Report struct {
	Epoch   int  `json:"epoch"`
	Batches int  `json:"mini_batches"`
	OfImage Side `json:"of_images"`
	OfText  Side `json:"of_texts"`
	Lost    int  `json:"lost"` // negatives whose image cannot be read any more
}

// Options name the judge and the mini-batches.
type Options struct {
	Judge          string
	Epoch, Batches int
	Above          float64
}

// judging holds a judge and the means to read images and texts.
type judging struct {
	matcher *model.Matcher
	loader  *dataset.Loader
	core    trainer.Options
	above   float64
	report  *Report
}

// Count returns the judge's verdicts on the negatives of an epoch of the run.
func (j Options) Count(ctx context.Context, log *stream.Log, s Settings) (report *Report, err error) {
	if j.Epoch < 0 || j.Batches < 0 || j.Above < 0 || j.Above >= 1 {
		return nil, fmt.Errorf("--epoch is %d, --batches %d and --above %g, want 0 or more, 0 or more, and 0 to less than 1",
			j.Epoch, j.Batches, j.Above)
	}
	worker, err := s.Device.NewWorker()
	if err != nil {
		return nil, err
	}
	defer worker.Close()
	matcher, err := model.OpenMatcher(ctx, worker, j.Judge)
	if err != nil {
		return nil, fmt.Errorf("--judge is %s: %w", j.Judge, err)
	}
	defer matcher.Free()
	words, err := matcher.Words()
	if err != nil {
		return nil, fmt.Errorf("--judge is %s: %w", j.Judge, err)
	}
	bucket, err := shard.OpenBucket(ctx, s.Bucket.Roots, nil)
	if err != nil {
		return nil, fmt.Errorf("BUCKET_ROOTS: %w", err)
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	size := matcher.Config.ImageSize
	images := shard.NewImages(bucket, shard.ImagesOptions{MinSide: 2 * size})
	look := judging{
		matcher: matcher, core: s.Core, above: j.Above, report: &Report{Epoch: j.Epoch},
		loader: dataset.NewLoader(images, size, matcher.Config.TextTokens, words, s.Run.Seed, dataset.Augmentation{MinScale: 1}),
	}
	for lane := range log.Config().Lanes {
		if err := look.lane(ctx, log, lane, j); err != nil {
			return nil, fmt.Errorf("lane %d: %w", lane, err)
		}
	}
	if look.report.Batches == 0 {
		return nil, fmt.Errorf("no mini-batch of epoch %d was trained on: want --epoch of a run that has trained, and whose topics still hold it",
			j.Epoch)
	}
	return look.report, nil
}

// lane judges the batches of a lane that have features. The trainer publishes features in the order of the batches.
func (l judging) lane(ctx context.Context, log *stream.Log, lane int, j Options) error {
	next, stop := iter.Pull2(stream.Values[*schemas.FeatureBlock](ctx, log, schemas.Features, lane))
	defer stop()
	seen := 0
	for b, err := range stream.Values[*schemas.ScoredBatch](ctx, log, schemas.Scored, lane) {
		if err != nil {
			return err
		}
		if int(b.Epoch) != j.Epoch {
			continue
		}
		f, err := blockOf(b, next)
		if err != nil || f == nil {
			return err
		}
		if err := l.batch(ctx, b, f); err != nil {
			return fmt.Errorf("batch %d of group %s: %w", b.Sequence, b.Group, err)
		}
		if seen++; seen == j.Batches {
			return nil
		}
	}
	return nil
}

// blockOf returns the features of a batch, nil if there are none.
func blockOf(b *schemas.ScoredBatch, next func() (*schemas.FeatureBlock, error, bool)) (*schemas.FeatureBlock, error) {
	for {
		f, err, ok := next()
		if err != nil || !ok {
			return nil, err
		}
		if f.Group == b.Group && f.Epoch == b.Epoch && f.Sequence == b.Sequence {
			return f, nil
		}
	}
}

// batch judges the negatives of a batch.
func (l judging) batch(ctx context.Context, b *schemas.ScoredBatch, f *schemas.FeatureBlock) error {
	ofImage, ofText, err := trainer.UsedNegatives(b, f, l.core)
	if err != nil {
		return config.Variables(trainer.Options{}, err)
	}
	pixels, lost, err := l.loader.Images(ctx, &b.Batch, f.Masked)
	if err != nil {
		return err
	}
	gone := map[int32]bool{}
	for _, m := range lost {
		gone[m.Sample] = true
	}
	var pairs []model.Pair
	var counts []*Side
	add := func(image, text int32, to *Side) {
		switch {
		case image < 0 || text < 0:
		case gone[image]:
			l.report.Lost++
		default:
			pairs, counts = append(pairs, model.Pair{Image: image, Text: text}), append(counts, to)
		}
	}
	for i := range b.Samples {
		add(int32(i), ofImage[i], &l.report.OfImage)
		add(ofText[i], int32(i), &l.report.OfText)
	}
	l.report.Batches++
	if len(pairs) == 0 {
		return nil
	}
	probabilities, err := l.matcher.Match(ctx, pixels, l.loader.IDs(&b.Batch), pairs, 128)
	for i, p := range probabilities {
		counts[i].add(p, l.above)
	}
	return err
}

// Print prints the counts for people.
func (r *Report) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "epoch %d, %d mini-batches\n"+
		"false negatives of images: %d of %d (%.1f %%)\nfalse negatives of texts: %d of %d (%.1f %%)\n",
		r.Epoch, r.Batches, r.OfImage.False, r.OfImage.Negatives, 100*r.OfImage.Share, r.OfText.False, r.OfText.Negatives, 100*r.OfText.Share)
	if err == nil && r.Lost > 0 {
		_, err = fmt.Fprintf(w, "%d negatives have no image any more\n", r.Lost)
	}
	return err
}
