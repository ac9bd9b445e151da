package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// These are the first ids of the vocabulary of a training step; the others are words.
const (
	padID = iota
	clsID
	sepID
	maskID
	unknownID
	firstWord
)

// stepVocabulary returns the size of the vocabulary for a preset, which is about that of its data.
func stepVocabulary(preset string) int {
	if preset == "tiny" {
		return 2000
	}
	return 8000
}

// torchPrograms returns a peer's program as it is, and compiled, which Debian's PyTorch cannot do.
func torchPrograms(script string) []program {
	return []program{{script: script, variant: "eager"}, {script: script, variant: "compiled", home: pypi}}
}

func stepRow(preset string, batch int) func(context.Context, *bench) (*Result, error) {
	return func(ctx context.Context, b *bench) (*Result, error) {
		n := b.size(batch, 4)
		steps := map[string]int{"tiny": 20, "small": 2}[preset]
		return duel{
			size:    fmt.Sprintf("batch %d", n),
			against: "PyTorch, the same model and losses, float32, with SDPA and fused AdamW where it has them, eager or compiled: the faster",
			bound:   "float32 products", least: 1,
			kind: "step", programs: torchPrograms("step.py"), unit: "pairs/s", warmUp: 1, higher: true,
			job:   job{Folder: b.folder, Preset: preset, Options: map[string]float64{"batch": float64(n), "steps": float64(b.size(steps, 1))}},
			value: func(a answer) float64 { return float64(n*b.size(steps, 1)) / a.Seconds },
			check: sameLosses,
		}.run(ctx, b)
	}
}

// sameLosses compares every loss of the first steps. Rounding differs from the first step on, and training amplifies
// differences. So it compares the first step within 1e-4 and the others within 1e-3.
func sameLosses(ours, peer answer) ([]string, error) {
	worst := 0.0
	for _, name := range []string{"itc", "itm", "mlm"} {
		a, b := ours.Series[name], peer.Series[name]
		if len(a) == 0 || len(a) != len(b) {
			return nil, fmt.Errorf("%d and %d steps of loss %s", len(a), len(b), name)
		}
		for i := range a {
			difference := math.Abs(a[i] - b[i])
			if limit := 1e-3; difference > limit || i == 0 && difference > limit/10 || math.IsNaN(difference) {
				return nil, fmt.Errorf("loss %s of step %d is %.6f, the peer's %.6f", name, i, a[i], b[i])
			}
			worst = max(worst, difference)
		}
	}
	return []string{fmt.Sprintf("the same three losses in the first %d steps, within %.0e", len(ours.Series["itc"]), worst)}, nil
}

// stepWorker trains on one batch again and again.
type stepWorker struct {
	worker  *torch.Worker
	trainer *trainer.Trainer
	batch   *schemas.ScoredBatch
	input   trainer.Input
	steps   int
	losses  map[string][]float64 // of the first steps
}

func newStepWorker(ctx context.Context, j job) (worker, error) {
	w, err := newStepper(ctx, j)
	if err != nil {
		return nil, err
	}
	return worker{"run": w.run, "check": w.check}, nil
}

func newStepper(ctx context.Context, j job) (_ *stepWorker, err error) {
	w := &stepWorker{steps: j.option("steps"), losses: map[string][]float64{}}
	if w.worker, err = j.tensors(); err != nil {
		return nil, err
	}
	c, err := j.shape(stepVocabulary(j.Preset))
	if err != nil {
		return nil, err
	}
	m, err := model.New(ctx, w.worker, c, 1)
	if err != nil {
		return nil, err
	}
	m.Vocab = []string{padID: "[PAD]", clsID: "[CLS]", sepID: "[SEP]", maskID: "[MASK]", unknownID: "[UNK]"}
	for i := firstWord; i < c.VocabSize; i++ {
		m.Vocab = append(m.Vocab, fmt.Sprintf("w%d", i))
	}
	w.draw(c, j.option("batch"))
	if err := w.share(ctx, m, j); err != nil {
		return nil, err
	}
	o := trainer.GRITVLP()
	o.Dropout = 0 // two libraries cannot drop the same elements
	w.trainer, err = trainer.New(ctx, m, o)
	return w, err
}

// draw makes a batch of captions of 8 to 14 tokens, as in the demo.
func (w *stepWorker) draw(c model.Config, n int) {
	r := rng.New(1, "bench.step")
	w.batch = &schemas.ScoredBatch{Batch: schemas.Batch{Batches: 1, Strategy: schemas.StrategyGRIT}}
	w.input.Pixels = make([]float32, n*3*c.ImageSize*c.ImageSize)
	for i := range w.input.Pixels {
		w.input.Pixels[i] = float32(r.NormFloat64())
	}
	for i := range n {
		w.batch.Samples = append(w.batch.Samples, schemas.Sample{Position: int32(i)})
		ids := []int32{clsID}
		for range 6 + r.IntN(7) {
			ids = append(ids, int32(firstWord+r.IntN(c.VocabSize-firstWord)))
		}
		w.input.IDs = append(w.input.IDs, append(ids, sepID))
	}
}

// shared is what the peer needs to take the same steps, besides the weights and the pixels.
type shared struct {
	Config model.Config `json:"config"`
	IDs    [][]int32    `json:"ids"`
	Masked [][]int32    `json:"masked"`
	Labels [][]int64    `json:"labels"`
	Rates  []float64    `json:"rates"` // of the first steps; the last one stays for all later steps
	Pad    int32        `json:"pad"`
	Lambda float64      `json:"lambda"`
	Decay  float64      `json:"decay"`
}

// share writes weights, pixels, and everything that is drawn. The masks are those that the trainer draws, which are the
// same for the same batch.
func (w *stepWorker) share(ctx context.Context, m *model.Model, j job) error {
	o, b := trainer.GRITVLP(), w.batch
	s := shared{Config: m.Config, IDs: w.input.IDs, Pad: padID, Lambda: o.ITC.Lambda, Decay: o.AdamW.WeightDecay}
	vocabulary, err := trainer.VocabularyOf(m.Vocab)
	if err != nil {
		return err
	}
	r := rng.New(o.Seed, "mlm", int64(b.Group.Lane), b.Group.Seq, int64(b.Epoch), int64(b.Sequence))
	for _, ids := range w.input.IDs {
		masked, labels := vocabulary.MaskTokens(ids, o.MaskProbability, r)
		s.Masked, s.Labels = append(s.Masked, masked), append(s.Labels, labels)
	}
	for step := range int64(4096) {
		s.Rates = append(s.Rates, o.Schedule.At(step))
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(j.path("step.json"), raw, 0o644),
		writeFloats(j.path("pixels.f32"), w.input.Pixels), m.Save(ctx, j.path("step.safetensors")))
}

// comparedSteps is the number of first steps whose losses are compared.
const comparedSteps = 5

func (w *stepWorker) run(ctx context.Context, _ *answer) error {
	for range w.steps {
		if err := w.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *stepWorker) check(ctx context.Context, a *answer) error {
	for len(w.losses["itc"]) < comparedSteps {
		if err := w.step(ctx); err != nil {
			return err
		}
	}
	a.Series = w.losses
	return nil
}

func (w *stepWorker) step(ctx context.Context) error {
	r, err := w.trainer.Step(ctx, w.batch, w.input)
	if err != nil {
		return err
	}
	if len(w.losses["itc"]) < comparedSteps {
		for name, loss := range map[string]float64{"itc": r.Losses.ITC, "itm": r.Losses.ITM, "mlm": r.Losses.MLM} {
			w.losses[name] = append(w.losses[name], loss)
		}
	}
	return nil
}
