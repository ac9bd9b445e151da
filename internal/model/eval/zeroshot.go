package eval

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/interval"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/model"
)

// Templates are the sentences that CLIP's authors chose for ImageNet out of 80, by trying one after another.
var Templates = []string{
	"itap of a {}.", "a bad photo of the {}.", "a origami {}.", "a photo of the large {}.",
	"a {} in a video game.", "art of the {}.", "a photo of the small {}.",
}

// Classified are images of known classes.
type Classified struct {
	Images int
	// Pixels writes an image as [imaging.Preprocess.Bytes] does. Several goroutines call it at once.
	Pixels  loader
	ClassOf []int32    // by image
	Classes [][]string // the names of every class
	// Templates have {} where the name of a class goes.
	Templates []string
}

// Measured is a share in percent, with its 95 % interval.
type Measured struct {
	Percent float64 `json:"percent"`
	From    float64 `json:"from"`
	To      float64 `json:"to"`
}

func measured(s interval.Share) Measured { return Measured{100 * s.Value, 100 * s.Low, 100 * s.High} }

// ClassReport is the result of one class.
type ClassReport struct {
	Name   string  `json:"name"`
	Images int     `json:"images"`
	Top1   float64 `json:"top1"` // percent of these images
	Top5   float64 `json:"top5"`
}

// ZeroShotReport is the result of zero-shot classification.
type ZeroShotReport struct {
	Images    int           `json:"images"`
	Classes   int           `json:"classes"`
	Templates []string      `json:"templates"`
	Top1      Measured      `json:"top1"`
	Top5      Measured      `json:"top5"`
	Mean      Measured      `json:"mean_per_class"` // top-1, over the classes that have images
	Chance    Accuracy      `json:"chance"`         // expectation for random scores
	PerClass  []ClassReport `json:"per_class"`      // classes that have images, by number
}

// ZeroShot classifies images by the class whose vector is the nearest (Radford et al. 2021, section 3.1.4). The vector
// of a class is the mean of the unit vectors of its names in all templates, with length 1 again.
func ZeroShot(ctx context.Context, e *model.Encoder, d Classified) (*ZeroShotReport, error) {
	if d.Images == 0 || len(d.ClassOf) != d.Images || len(d.Classes) == 0 || len(d.Templates) == 0 {
		return nil, fmt.Errorf("classifying: %d images, the classes of %d, %d classes and %d templates",
			d.Images, len(d.ClassOf), len(d.Classes), len(d.Templates))
	}
	classes, err := classVectors(ctx, e, d)
	if err != nil {
		return nil, fmt.Errorf("encoding classes: %w", err)
	}
	t := newTally(len(d.Classes))
	err = encodeAll(ctx, e, d.Images, d.Pixels, func(from int, rows []float32) {
		sim := similarities(rows, classes, e.Dim())
		t.add(sim, d.ClassOf[from:from+sim.Rows])
	})
	if err != nil {
		return nil, fmt.Errorf("classifying: %w", err)
	}
	return t.report(d), nil
}

// loader writes an image as [imaging.Preprocess.Bytes] does.
type loader = func(ctx context.Context, image int, pixels []byte) error

// encodeAll loads and encodes images in batches, and hands over the vectors of each batch with the number of its first
// image.
func encodeAll(ctx context.Context, e *model.Encoder, images int, load loader, each func(from int, rows []float32)) error {
	values := e.Preprocessing().Values()
	pixels := make([]byte, min(images, model.DefaultBatchSize)*values)
	for from := 0; from < images; from += model.DefaultBatchSize {
		to := min(from+model.DefaultBatchSize, images)
		room := pixels[:(to-from)*values]
		loading, inner := errgroup.WithContext(ctx)
		loading.SetLimit(dataset.Readers())
		for i := from; i < to; i++ {
			loading.Go(func() error {
				if err := load(inner, i, room[(i-from)*values:(i-from+1)*values]); err != nil {
					return fmt.Errorf("loading image %d: %w", i, err)
				}
				return nil
			})
		}
		if err := loading.Wait(); err != nil {
			return err
		}
		rows, err := e.EncodeImages(ctx, room, to-from)
		if err != nil {
			return err
		}
		each(from, rows)
	}
	return nil
}

// classVectors returns a unit vector for every class.
func classVectors(ctx context.Context, e *model.Encoder, d Classified) ([]float32, error) {
	var prompts []string
	var of []int // the class of every prompt
	for class, names := range d.Classes {
		for _, name := range names {
			for _, t := range d.Templates {
				prompts, of = append(prompts, strings.ReplaceAll(t, "{}", name)), append(of, class)
			}
		}
	}
	texts, err := e.EncodeTexts(ctx, prompts)
	if err != nil {
		return nil, err
	}
	return meansOf(texts, of, len(d.Classes), e.Dim())
}

// meansOf returns the mean of the rows of every class, scaled to length 1.
func meansOf(rows []float32, of []int, classes, dim int) ([]float32, error) {
	sums := make([]float64, classes*dim)
	for row, class := range of {
		for k, v := range rows[row*dim : (row+1)*dim] {
			sums[class*dim+k] += float64(v)
		}
	}
	out := make([]float32, len(sums))
	for class := range classes {
		sum := sums[class*dim : (class+1)*dim]
		squares := 0.0
		for _, v := range sum {
			squares += v * v
		}
		if !(squares > 0) || math.IsInf(squares, 0) {
			return nil, errors.New("the vectors of a class have no finite mean other than 0: is the model trained?")
		}
		for k, v := range sum {
			out[class*dim+k] = float32(v / math.Sqrt(squares))
		}
	}
	return out, nil
}

// similarities returns the scalar products of all rows of a with all rows of b.
func similarities(a, b []float32, dim int) Matrix {
	m := Matrix{Rows: len(a) / dim, Cols: len(b) / dim}
	m.Data = make([]float32, 0, m.Rows*m.Cols)
	for i := range m.Rows {
		x := a[i*dim : (i+1)*dim]
		for j := range m.Cols {
			sum := 0.0
			for k, v := range b[j*dim : (j+1)*dim] {
				sum += float64(v) * float64(x[k])
			}
			m.Data = append(m.Data, float32(sum))
		}
	}
	return m
}

// tally counts right answers by class.
type tally struct{ images, first, five []int }

func newTally(classes int) tally {
	return tally{make([]int, classes), make([]int, classes), make([]int, classes)}
}

// add counts the answers for images, whose similarities to the classes are the rows of sim.
func (t tally) add(sim Matrix, classOf []int32) {
	for i, class := range classOf {
		rank := bestRank(sim.Row(i), []int32{class})
		t.images[class]++
		if rank < 1 {
			t.first[class]++
		}
		if rank < guesses {
			t.five[class]++
		}
	}
}

func (t tally) report(d Classified) *ZeroShotReport {
	n := len(d.Classes)
	r := &ZeroShotReport{
		Images: d.Images, Classes: n, Templates: d.Templates,
		Chance: Accuracy{100 / float64(n), 100 * float64(min(n, guesses)) / float64(n)},
	}
	first, five := 0, 0
	var shares []interval.Share
	for class, images := range t.images {
		if images == 0 {
			continue
		}
		first, five = first+t.first[class], five+t.five[class]
		shares = append(shares, interval.Of(t.first[class], images))
		r.PerClass = append(r.PerClass, ClassReport{
			Name: d.Classes[class][0], Images: images,
			Top1: 100 * float64(t.first[class]) / float64(images), Top5: 100 * float64(t.five[class]) / float64(images),
		})
	}
	r.Top1, r.Top5 = measured(interval.Of(first, d.Images)), measured(interval.Of(five, d.Images))
	r.Mean = measured(interval.Mean(shares))
	return r
}

// Print prints the accuracies as a table.
func (r *ZeroShotReport) Print(w io.Writer) error {
	fmt.Fprintf(w, "%d images of %d classes out of %d, %d templates\n",
		r.Images, len(r.PerClass), r.Classes, len(r.Templates))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\taccuracy, %\tfrom\tto\tchance\t")
	row := func(name string, m Measured, chance float64) {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t\n", name, m.Percent, m.From, m.To, chance)
	}
	row("top-1", r.Top1, r.Chance.Top1)
	row("top-5", r.Top5, r.Chance.Top5)
	row("mean per class", r.Mean, r.Chance.Top1)
	return t.Flush()
}

// ClassifiedCorpus returns a corpus with classes in the form of inputs of an encoder.
func ClassifiedCorpus(e *model.Encoder, source *shard.Images, c *dataset.Corpus, classOf []int32) Classified {
	return Classified{Images: c.Images(), ClassOf: classOf, Pixels: pixelsOf(e.Preprocessing(), source, c)}
}

// pixelsOf returns a function that prepares the images of a corpus.
func pixelsOf(pre imaging.Preprocess, source *shard.Images, c *dataset.Corpus) loader {
	return func(ctx context.Context, i int, pixels []byte) error {
		ref, id := c.Image(i)
		im, err := source.Get(ctx, ref, id)
		if err == nil {
			pre.Bytes(pixels, im)
		}
		return err
	}
}
