// Counts counts what a GPU would do: kernels, waits of the host, operations of products, bytes. It runs every stage's
// model once on the device of tests ([testdevice]), which needs no GPU. From the counts it predicts the time on an
// H100.
//
// Operations and bytes of a larger batch follow from those of two small ones, as they are linear in it. The number of
// kernels does not depend on it.
//
// Usage:
//
//	bin/lab/counts                                       # preset base, mini-batches of 96
//	bin/lab/counts --preset tiny --batch 96
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/testdevice"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "counts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("counts", flag.ContinueOnError)
	preset := f.String("preset", "base", "of the models")
	batch := f.Int("batch", 96, "samples of a mini-batch")
	few := f.Int("few", 4, "samples of the small batch that is run; the other one has twice as many")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *few < 4 {
		return fmt.Errorf("--few is %d, want 4 or more", *few)
	}
	small, err := measure(ctx, *preset, *few)
	if err != nil {
		return err
	}
	large, err := measure(ctx, *preset, 2**few)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(out, table(small, large, *few, *batch))
	return err
}

// Prediction is what a stage takes on an H100, by its counts.
type Prediction struct{ Products, Memory, Host float64 } // seconds

const (
	products  = 0.4 * 989e12 // operations/s: bfloat16, dense, at 40 % of the data sheet
	bandwidth = 0.8 * 3.35e12
	launch    = 8e-6  // s of the host for a kernel
	wait      = 30e-6 // s from the end of a kernel until the host has started the next
)

// predict predicts the time of counts. The host starts kernels while the device computes, so the longer of the two
// counts.
func predict(c testdevice.Counts) Prediction {
	return Prediction{
		Products: c.Operations / products, Memory: c.Bytes / bandwidth,
		Host: launch*float64(testdevice.Total(c.Kernels)) + wait*float64(testdevice.Total(c.Syncs)),
	}
}

// Seconds returns the time of a stage.
func (p Prediction) Seconds() float64 { return max(p.Products+p.Memory, p.Host) }

// scaled returns the counts of n samples, by those of few and of twice as many.
func scaled(small, large testdevice.Counts, few, n int) testdevice.Counts {
	times := float64(n-few) / float64(few)
	line := func(a, b float64) float64 { return a + times*(b-a) }
	c := large
	c.Operations, c.Bytes, c.Uploaded = line(small.Operations, large.Operations), line(small.Bytes, large.Bytes), line(small.Uploaded, large.Uploaded)
	return c
}

func table(small, large map[stage]testdevice.Counts, few, n int) string {
	var t strings.Builder
	t.WriteString("| a mini-batch of " + strconv.Itoa(n) + " | kernels | waits | products | read and written | float64 or int64 | predicted, H100 |\n|---|---|---|---|---|---|---|\n")
	for _, s := range stages {
		c := scaled(small[s], large[s], few, n)
		p := predict(c)
		fmt.Fprintf(&t, "| %s | %d | %d | %.3g TFLOP | %.3g GB | %d | %.3g ms: products %.3g, memory %.3g; host %.3g |\n", s, testdevice.Total(c.Kernels), testdevice.Total(c.Syncs),
			c.Operations/1e12, c.Bytes/1e9, testdevice.Total(c.Wide), 1e3*p.Seconds(), 1e3*p.Products, 1e3*p.Memory, 1e3*p.Host)
	}
	return t.String()
}

// stage is what is counted by itself.
type stage string

const (
	encoding stage = "encoder: images and captions"
	scoring  stage = "discriminator: two candidates each way"
	learning stage = "trainer: losses and gradients"
	updating stage = "trainer: an update, with clipping"
	sharing  stage = "ranks: the share leaves"
	summing  stage = "ranks: the sum comes back, with an update"
)

var stages = []stage{encoding, scoring, learning, updating, sharing, summing}

const vocabulary = 30522

// words returns a vocabulary whose words are numbers.
func words() []string {
	all := []string{"[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"}
	for i := len(all); i < vocabulary; i++ {
		all = append(all, fmt.Sprintf("w%d", i))
	}
	return all
}

// measure runs every stage on a batch of n samples and counts.
func measure(ctx context.Context, preset string, n int) (map[stage]testdevice.Counts, error) {
	if err := testdevice.Install(); err != nil {
		return nil, err
	}
	w, err := torch.NewWorker(torch.WorkerOptions{Device: testdevice.Name, Threads: 1, Deterministic: true})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	config, err := model.Preset(preset, vocabulary)
	if err != nil {
		return nil, err
	}
	d := drawn(config, n)
	all := make(map[stage]testdevice.Counts)
	for _, part := range []func(context.Context, *model.Model, data, map[stage]testdevice.Counts) error{encode, score, train} {
		m, err := model.New(ctx, w, config, 1)
		if err != nil {
			return nil, err
		}
		m.Vocab = words()
		if err := part(ctx, m, d, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// counted counts what fn does.
func counted(fn func() error) (testdevice.Counts, error) {
	testdevice.Reset()
	if err := fn(); err != nil {
		return testdevice.Counts{}, err
	}
	return testdevice.Read()
}

// data is a batch: noise, and captions of 25 tokens, the longest.
type data struct {
	pixels   []float32
	images   []byte
	captions []string
	ids      [][]int32
	batch    *schemas.ScoredBatch
}

func drawn(c model.Config, n int) data {
	r := rng.New(1, "bench.counts")
	d := data{pixels: make([]float32, n*3*c.ImageSize*c.ImageSize)}
	for i := range d.pixels {
		d.pixels[i] = float32(r.NormFloat64())
	}
	d.images = make([]byte, len(d.pixels))
	for i := range d.images {
		d.images[i] = byte(r.Uint32())
	}
	d.batch = &schemas.ScoredBatch{Batch: schemas.Batch{Batches: 1, Strategy: schemas.StrategyGRIT, M: 2}}
	for i := range n {
		ids, caption := []int32{1}, ""
		for range c.TextTokens - 2 {
			id := int32(5 + r.IntN(vocabulary-5))
			ids, caption = append(ids, id), caption+fmt.Sprintf(" w%d", id)
		}
		d.ids, d.captions = append(d.ids, append(ids, 2)), append(d.captions, caption)
		d.batch.Samples = append(d.batch.Samples, schemas.Sample{Position: int32(i)})
		for k := range int(d.batch.M) {
			d.batch.I2T = append(d.batch.I2T, int32((i+1+k)%n))
			d.batch.T2I = append(d.batch.T2I, int32((i+n-1-k)%n))
			d.batch.ProbI2T, d.batch.ProbT2I = append(d.batch.ProbI2T, 0.1), append(d.batch.ProbT2I, 0.1)
		}
	}
	return d
}

func encode(ctx context.Context, m *model.Model, d data, all map[stage]testdevice.Counts) error {
	e, err := model.NewEncoder(ctx, m, len(d.ids))
	if err != nil {
		m.Free()
		return err
	}
	defer e.Free()
	all[encoding], err = counted(func() error {
		if _, err := e.EncodeImages(ctx, d.images, len(d.ids)); err != nil {
			return err
		}
		_, err := e.EncodeTexts(ctx, d.captions)
		return err
	})
	return err
}

func score(ctx context.Context, m *model.Model, d data, all map[stage]testdevice.Counts) error {
	defer m.Free()
	matcher, err := model.NewMatcher(ctx, m)
	if err != nil {
		return err
	}
	con, err := discriminator.New(matcher, discriminator.Options{})
	if err != nil {
		return err
	}
	all[scoring], err = counted(func() error {
		_, err := con.Score(ctx, &d.batch.Batch, discriminator.Input{Pixels: d.pixels, IDs: d.ids})
		return err
	})
	return err
}

// train makes a step of two batches, of which the second has the update behind it.
func train(ctx context.Context, m *model.Model, d data, all map[stage]testdevice.Counts) error {
	o := trainer.MAFA()
	o.StepBatches, o.ClipNorm = 2, 1
	t, err := trainer.New(ctx, m, o)
	if err != nil {
		m.Free()
		return err
	}
	defer t.Free()
	var passes []testdevice.Counts
	for range o.StepBatches {
		c, err := counted(func() error {
			in, err := t.Send(trainer.Input{Pixels: d.pixels, IDs: d.ids})
			if err != nil {
				return err
			}
			_, err = t.Step(ctx, d.batch, in)
			return err
		})
		if err != nil {
			return err
		}
		passes = append(passes, c)
	}
	all[learning], all[updating] = passes[0], without(passes[1], passes[0])
	return share(ctx, t, d, all)
}

// share makes a step of one batch as a rank does, whose share is the sum.
func share(ctx context.Context, t *trainer.Trainer, d data, all map[stage]testdevice.Counts) error {
	sum := trainer.Share{Grads: make([][]float32, len(t.Model().Params()))}
	give := func(run int, grads [][]float32) {
		for k, i := range t.Runs()[run] {
			sum.Grads[i] = grads[k]
		}
	}
	c, err := counted(func() error {
		in, err := t.Send(trainer.Input{Pixels: d.pixels, IDs: d.ids})
		if err != nil {
			return err
		}
		_, err = t.Learn(ctx, d.batch, in, 0, give)
		return err
	})
	if err != nil {
		return err
	}
	all[sharing] = without(c, all[learning])
	own, err := t.TakeShare(ctx, give)
	if err != nil {
		return err
	}
	sum.Batches, sum.Learned = own.Batches, own.Learned
	all[summing], err = counted(func() error { return t.Complete(ctx, sum, 1e-4) })
	return err
}

// without returns the counts of one run without those of another.
func without(c, less testdevice.Counts) testdevice.Counts {
	c.Operations, c.Bytes, c.Uploaded = c.Operations-less.Operations, c.Bytes-less.Bytes, c.Uploaded-less.Uploaded
	for _, of := range []struct{ from, less map[string]int64 }{{c.Syncs, less.Syncs}, {c.Kernels, less.Kernels}, {c.Wide, less.Wide}} {
		for name, n := range of.less {
			of.from[name] -= n
		}
		maps.DeleteFunc(of.from, func(_ string, n int64) bool { return n == 0 })
	}
	return c
}
