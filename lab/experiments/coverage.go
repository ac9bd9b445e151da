package experiments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// Coverage says, for m candidates a pair and direction, how often the sample that the model in training finds hardest
// is one of them, and how long Con-D takes to score them.
type Coverage struct {
	M        int
	Anchors  int
	Found    int
	PerBatch time.Duration // of scoring
	Share    float64       // of the training step's time
}

// RunCoverage trains on GRIT's mini-batches of FirstBatch pairs, whose candidates come from the features of the epoch
// before, and compares these with the model's own choice in every step after the first epoch.
func RunCoverage(ctx context.Context, j Job) (out []Coverage, err error) {
	s, err := j.setup(ctx, scenes.Kinds{Shapes: 6, Objects: 2, Large: true, Plain: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	start := filepath.Join(s.dir, "start.safetensors")
	if err := s.first(ctx, s.sizes.FirstSteps, bootstrap.Candidates, start); err != nil {
		return nil, err
	}
	g, err := s.group(ctx, start)
	if err != nil {
		return nil, err
	}
	return s.cover(ctx, g, start)
}

// coverage collects what RunCoverage returns.
type coverage struct {
	*setup
	con     conD
	trainer *trainer.Trainer
	rows    []Coverage
	steps   int
	took    time.Duration // by the steps
}

func (s *setup) cover(ctx context.Context, g *group, start string) ([]Coverage, error) {
	n := s.sizes.FirstBatch
	c := coverage{setup: s}
	for _, m := range []int{1, 2, 4, 8, 16, n - 1} {
		if m < n && (len(c.rows) == 0 || m > c.rows[len(c.rows)-1].M) {
			c.rows = append(c.rows, Coverage{M: m})
		}
	}
	var err error
	if c.con, err = s.openCond(ctx, start); err != nil {
		return nil, err
	}
	defer c.con.model.Free()
	m, err := model.Load(ctx, s.worker, start, model.LoadOptions{})
	if err != nil {
		return nil, err
	}
	if c.trainer, err = trainer.New(ctx, m, s.training(int64(s.sizes.Epochs*(len(s.data.pairs)/n+1)))); err != nil {
		m.Free()
		return nil, err
	}
	defer c.trainer.Free()
	err = g.batches(ctx, s.sampling(grouper.StrategyGRIT, n, s.sizes.Epochs, n-1), func(b *schemas.Batch) (*schemas.FeatureBlock, error) {
		return c.step(ctx, b)
	})
	for i := range c.rows {
		c.rows[i].PerBatch /= time.Duration(max(c.steps, 1))
		c.rows[i].Share = float64(c.rows[i].PerBatch) * float64(c.steps) / float64(max(c.took, 1))
	}
	return c.rows, err
}

// step trains on a batch, and scores its candidates once for every m.
func (c *coverage) step(ctx context.Context, b *schemas.Batch) (*schemas.FeatureBlock, error) {
	loader, err := c.loader(c.trainer.Model())
	if err != nil {
		return nil, err
	}
	pixels, lost, err := loader.Images(ctx, b, nil)
	if err != nil {
		return nil, err
	}
	ids := loader.IDs(b)
	if b.Epoch > 0 {
		for i := range c.rows {
			began := time.Now()
			if _, err := c.con.Score(ctx, first(b, c.rows[i].M), discriminator.Input{Pixels: pixels, IDs: ids, Masked: lost}); err != nil {
				return nil, err
			}
			c.rows[i].PerBatch += time.Since(began)
		}
	}
	began := time.Now()
	r, err := c.trainer.Step(ctx, &schemas.ScoredBatch{Batch: *first(b, 0), Masked: lost}, trainer.Input{Pixels: pixels, IDs: ids})
	if err != nil {
		return nil, err
	}
	if b.Epoch > 0 { // those of the first are the encoder's, and nothing was trained between
		c.steps++
		c.took += time.Since(began)
		c.count(b, &r.Features)
	}
	return &r.Features, nil
}

// first returns a batch with the m hardest candidates alone.
func first(b *schemas.Batch, m int) *schemas.Batch {
	out := *b
	out.M, out.I2T, out.T2I = int32(m), nil, nil
	for i := range b.Samples {
		from := i * int(b.M)
		out.I2T, out.T2I = append(out.I2T, b.I2T[from:from+m]...), append(out.T2I, b.T2I[from:from+m]...)
	}
	return &out
}

// count looks up the hardest sample of every anchor, by the features of the step, in its list of candidates.
func (c *coverage) count(b *schemas.Batch, f *schemas.FeatureBlock) {
	v, t, n, dim := f.V.Floats(), f.T.Floats(), len(b.Samples), int(f.Dim)
	for anchor := range n {
		for _, way := range []struct {
			anchors, others []float32
			list            schemas.Int32s
		}{{v, t, b.I2T}, {t, v, b.T2I}} {
			hardest, most := int32(-1), float32(0)
			for _, other := range way.list[anchor*int(b.M) : (anchor+1)*int(b.M)] { // all samples, without those of the same image
				if other < 0 {
					break
				}
				sum := float32(0)
				for k := range dim {
					sum += way.anchors[anchor*dim+k] * way.others[int(other)*dim+k]
				}
				if hardest < 0 || sum > most {
					hardest, most = other, sum
				}
			}
			if hardest < 0 {
				continue
			}
			for i := range c.rows {
				c.rows[i].Anchors++
				if slices.Contains(way.list[anchor*int(b.M):anchor*int(b.M)+c.rows[i].M], hardest) {
					c.rows[i].Found++
				}
			}
		}
	}
}

// PrintCoverage writes the results as a table.
func PrintCoverage(out io.Writer, rows []Coverage) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "m\tanchors\thardest scored\tscoring a mini-batch\tof a step\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%d\t%d\t%.1f %%\t%.1f ms\t%.0f %%\t\n", r.M, r.Anchors, 100*float64(r.Found)/float64(max(r.Anchors, 1)),
			float64(r.PerBatch.Microseconds())/1000, 100*r.Share)
	}
	return w.Flush()
}
