package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// Evaluation says when the weights in training are measured, and on what.
type Evaluation struct {
	Every int64    `env:"EVAL_EVERY" envDefault:"0" desc:"steps between two evaluations on EVAL_DATA, whose figures go to the topic progress; also before the first step and after the last; 0: none"`
	Data  []string `env:"EVAL_DATA" desc:"EVAL_EVERY: folders, tars or places in a bucket with pairs that are not trained on, comma separated; they are read once, at the start, and their images stay in memory"`
}

func (e Evaluation) validate() error {
	switch {
	case e.Every < 0:
		return fmt.Errorf("EVAL_EVERY is %d, want 0 or more", e.Every)
	case e.Every > 0 && len(e.Data) == 0:
		return fmt.Errorf("EVAL_DATA is empty with EVAL_EVERY=%d, want folders, tars or places in a bucket with held-out pairs", e.Every)
	}
	return nil
}

// evaluated is the state of the evaluations in a checkpoint. An evaluation comes before the checkpoint of its step. So
// if a checkpoint has it, its record is in the log; if not, it is repeated.
type evaluated struct {
	Step int64 `json:"step"` // last evaluated step
	Best *best `json:"best,omitempty"`
}

// best is the step with the best figure so far.
type best struct {
	Step  int64   `json:"step"`
	Value float64 `json:"value"`
	By    BestBy  `json:"by"`
	Data  string  `json:"data"` // digest of the pairs that it was measured on
}

// evaluations measure the weights beside training, and change nothing. A nil evaluations measures nothing.
type evaluations struct {
	every   int64
	by      BestBy
	data    string // digest
	measure func(context.Context) (schemas.Measures, error)
	judged  *evaluated
}

// due reports whether a step needs an evaluation and has none yet.
func (e *evaluations) due(step int64) bool {
	return e != nil && step%e.every == 0 && (e.judged == nil || e.judged.Step != step)
}

// missing reports whether the last step was not evaluated. trained says whether a step was made since the last
// checkpoint.
func (e *evaluations) missing(step int64, trained bool) bool {
	return e != nil && step > 0 && (e.judged == nil && trained || e.judged != nil && e.judged.Step != step)
}

// state returns the state for the next checkpoint. before is the state in the last one.
func (e *evaluations) state(before *evaluated) *evaluated {
	if e == nil {
		return before
	}
	return e.judged
}

// judge records the figures of a step. A figure equal to the best so far is no improvement.
func (e *evaluations) judge(step int64, values schemas.Measures) {
	next := &evaluated{Step: step}
	if e.judged != nil {
		next.Best = e.judged.Best
	}
	if b := next.Best; b != nil && (b.By != e.by || b.Data != e.data) {
		next.Best = nil
	}
	if e.by != BestNone && step > 0 && (next.Best == nil || e.by.better(values[string(e.by)], next.Best.Value)) {
		next.Best = &best{Step: step, Value: values[string(e.by)], By: e.by, Data: e.data}
	}
	e.judged = next
}

// evaluateAt evaluates a step if it is one to evaluate.
func (l *loop) evaluateAt(ctx context.Context, step int64) error {
	if !l.eval.due(step) {
		return nil
	}
	return l.evaluate(ctx)
}

// evaluate measures the weights between two steps, and publishes the figures.
func (l *loop) evaluate(ctx context.Context) error {
	step, started := l.core.Steps(), time.Now()
	values, err := l.eval.measure(ctx)
	if err != nil {
		return fmt.Errorf("evaluating step %d: %w", step, err)
	}
	l.eval.judge(step, values)
	took := time.Since(started)
	l.metrics.evaluated(step, values, took)
	l.logger.Info("evaluated", keyStage, Name, keyStep, step, keyRecall, values["recall"], keyDur, took)
	err = l.publisher.Publish(ctx, schemas.ProgressLog, 0, &schemas.Progress{
		Kind: schemas.ProgressEval, Step: step, Time: time.Now().UnixMilli(), Values: values,
	})
	if err != nil {
		return fmt.Errorf("publishing progress: %w", err)
	}
	return nil
}

// newEvaluations reads the pairs to evaluate on. before is the state in the checkpoint.
func newEvaluations(ctx context.Context, tools device.Tools, s Settings, core *trainer.Trainer, before *evaluated) (*evaluations, error) {
	if s.Eval.Every == 0 {
		return nil, nil
	}
	started := time.Now()
	corpus, data, err := readHeldOut(ctx, tools, s, core.Model())
	if err != nil {
		return nil, fmt.Errorf("EVAL_DATA is %q: %w", s.Eval.Data, err)
	}
	tools.Instruments.Log.Info("read the pairs to evaluate on", keyStage, Name, keyImages, corpus.Images(), keyTexts, corpus.Pairs(), keyDur, time.Since(started))
	e := &evaluations{every: s.Eval.Every, by: s.Best, data: digestOf(corpus), judged: before}
	e.measure = func(ctx context.Context) (values schemas.Measures, err error) {
		err = core.Look(func(m *model.Model) error {
			report, err := eval.Evaluate(ctx, m, data, eval.Options{TopK: eval.NoRerank})
			if err == nil {
				values = report.Measures()
			}
			return err
		})
		return values, err
	}
	return e, nil
}

// readHeldOut reads the pairs of EVAL_DATA, without forgotten images.
func readHeldOut(ctx context.Context, tools device.Tools, s Settings, m *model.Model) (corpus *dataset.Corpus, data eval.Data, err error) {
	gone, err := tools.Forgotten(ctx)
	if err != nil {
		return nil, data, err
	}
	words, err := m.Words()
	if err != nil {
		return nil, data, err
	}
	places := shard.WithOptions(s.Eval.Data, s.Bucket.Roots)
	all, _, err := dataset.Read(ctx, places, 0)
	if err != nil {
		return nil, data, err
	}
	if corpus = all.Without(gone.Image); corpus.Images() == 0 {
		return nil, data, errors.New("it has no pairs, want tars with images and captions")
	}
	roots, err := shard.Roots(places)
	if err != nil {
		return nil, data, err
	}
	bucket, err := shard.OpenBucket(ctx, roots, nil)
	if err != nil {
		return nil, data, err
	}
	side := m.Config.ImageSize
	images := shard.NewImages(bucket, shard.ImagesOptions{MinSide: 2 * side})
	data, err = eval.Held(ctx, corpus, images, words, side, m.Config.RetrievalTokens())
	return corpus, data, errors.Join(err, bucket.Close())
}

// digestOf identifies the pairs to evaluate on. Figures on other pairs do not compare.
func digestOf(c *dataset.Corpus) string {
	h := sha256.New()
	for i := range c.Pairs() {
		text, _, id := c.Pair(i)
		h.Write(id[:])
		io.WriteString(h, text+"\x00") //nolint:errcheck // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// BestBy names the figure by which the best checkpoint is chosen.
type BestBy string

const (
	// BestNone keeps none.
	BestNone BestBy = ""
	// BestRecall keeps the checkpoint with the highest mean of the six recalls.
	BestRecall BestBy = "recall"
	// BestMatching keeps the checkpoint with the lowest matching error.
	BestMatching BestBy = "matching_error"
)

func (b BestBy) valid() bool { return b == BestNone || b == BestRecall || b == BestMatching }

// better reports whether a figure is better than another one.
func (b BestBy) better(value, than float64) bool {
	if b == BestMatching {
		return value < than
	}
	return value > than
}

// validateBest checks that the steps that are evaluated have checkpoints.
func (s Settings) validateBest() error {
	switch {
	case !s.Best.valid():
		return fmt.Errorf("CHECKPOINT_BEST is %q, want %q, %q or nothing", s.Best, BestRecall, BestMatching)
	case s.Best == BestNone:
		return nil
	case s.Eval.Every <= 0:
		return fmt.Errorf("CHECKPOINT_BEST is %q with EVAL_EVERY=%d, want EVAL_EVERY above 0: evaluations tell which one is best", s.Best, s.Eval.Every)
	case s.Every <= 0 || s.Eval.Every%s.Every != 0:
		return fmt.Errorf("EVAL_EVERY is %d with CHECKPOINT_BEST=%s, want a multiple of CHECKPOINT_EVERY=%d: only checkpoints that are written can stay", s.Eval.Every, s.Best, s.Every)
	}
	return nil
}

// bestFile is the name of the best checkpoint: a second name of the checkpoint of its step, as long as that exists.
const bestFile = "best.safetensors"

// keepBest gives the checkpoint of a step its second name, if it is the best so far.
func keepBest(dir string, j *evaluated, step int64, path string) error {
	if j == nil || j.Best == nil || j.Best.Step != step {
		return nil
	}
	if err := linkOrCopy(path, filepath.Join(dir, bestFile)); err != nil {
		return fmt.Errorf("keeping the best checkpoint: %w", err)
	}
	return nil
}

// linkOrCopy gives a file a second name, and replaces another file of that name. On a disk without hard links it makes
// a copy.
func linkOrCopy(path, to string) error {
	temporary := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+"-link.tmp")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(path, temporary); err != nil {
		return atomicfile.Copy(path, to, 0o644)
	}
	if err := os.Rename(temporary, to); err != nil {
		return err
	}
	// If both names are links to the same file, rename leaves both in place.
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.SyncFolder(filepath.Dir(to))
}
