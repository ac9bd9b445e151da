package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/schemas"
)

// samplingRow reads what the demo says of itself. It also measures what a pair of the papers' model costs in each stage
// that runs a model.
func samplingRow(ctx context.Context, b *bench) (*Result, error) {
	base, err := baseCosts(ctx, b)
	if err != nil {
		return nil, err
	}
	out := &Result{Size: "scenes, preset micro; processor time of stages, once", Against: "10 % of GPN-S, without Con-D", Unit: "%", Extra: base, Bound: "Con-D: it encodes every pair once, and scores up to four pairs a sample"}
	out.Notes = []string{oneEpoch(base)}
	if b.short {
		out.Notes = append(out.Notes, "the demo is left out")
		return out, nil
	}
	demo, err := demoTimes(ctx, b, "COND_IMAGES=plain")
	if err != nil {
		return nil, err
	}
	augmented, err := demoTimes(ctx, b, "COND_IMAGES=augmented")
	if err != nil {
		return nil, err
	}
	for name, v := range demo {
		out.Extra["demo_"+name] = v
	}
	training := demo["training"]
	out.Extra["demo_share_cond"] = 100 * demo["discriminate"] / training
	out.Extra["demo_share_cond_augmented"] = 100 * augmented["discriminate"] / augmented["training"]
	out.Notes = append(out.Notes, fmt.Sprintf("Con-D takes %.1f %% of training's processor time, and %.1f %% with COND_IMAGES=augmented", out.Extra["demo_share_cond"], out.Extra["demo_share_cond_augmented"]))
	grouping := (demo["encode"] + demo["index"] + demo["group"]) / training
	out.Ours.Value = 100 * (grouping + demo["discriminate"]/training)
	out.Ours.Samples = []float64{out.Ours.Value}
	out.Extra["demo_share_without_cond"] = 100 * grouping
	out.Met = out.Ours.Value <= 15 && grouping <= 0.1
	return out, nil
}

// oneEpoch tells what sampling takes where a pair is seen once, as in a crawl: nothing is shared among epochs.
func oneEpoch(costs map[string]float64) string {
	encode, conD := costs["encode_ms_per_pair"], costs["discriminate_ms_per_pair"]
	of := 100 / costs["train_ms_per_pair"]
	return fmt.Sprintf("with one epoch of the papers' model, the encoder takes %.1f %% of training, Con-D %.1f %%, and both %.1f %%", encode*of, conD*of, (encode+conD)*of)
}

// demoLine matches the line of the demo's report that gives the processor times of sampling.
var demoLine = regexp.MustCompile(`of training's ([\d.]+) s of the processor \(encode ([\d.]+) s, index ([\d.]+) s, group ([\d.]+) s, discriminate ([\d.]+) s\)`)

// demoTimes runs the demo with a setting and returns its processor times. Every stage computes on one thread there, so
// that none of them is missed.
func demoTimes(ctx context.Context, b *bench, setting string) (map[string]float64, error) {
	cpus := "0-" + strconv.Itoa(b.threads-1)
	cmd := exec.CommandContext(ctx, "taskset", "-c", cpus, "bin/pairstream", "demo", "--dir", filepath.Join(b.folder, "demo"))
	cmd.Env = append(os.Environ(), "TORCH_THREADS=1", setting)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running the demo: %w", err)
	}
	found := demoLine.FindStringSubmatch(string(text))
	if found == nil {
		return nil, fmt.Errorf("the demo does not say what sampling took: %s", text)
	}
	times := map[string]float64{}
	for i, name := range []string{"training", "encode", "index", "group", "discriminate"} {
		if times[name], err = strconv.ParseFloat(found[i+1], 64); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// baseCosts returns costs in milliseconds per pair, and what follows from them. That is the share of sampling in
// training a group for E epochs. It gives this share for the papers' two candidates per direction, and for none.
func baseCosts(ctx context.Context, b *bench) (costs map[string]float64, err error) {
	preset := map[bool]string{false: "base", true: "tiny"}[b.short]
	j := job{Folder: b.folder, Preset: preset, Options: map[string]float64{"batch": float64(b.size(8, 4)), "steps": 1}}
	some := *b
	some.repeats = min(b.repeats, 3)
	s, err := some.ours(ctx, "base", j)
	if err != nil {
		return nil, err
	}
	defer closing(s, &err)
	costs = map[string]float64{}
	for _, stage := range []string{"train", "encode", "discriminate"} {
		answers, err := race(1, some.repeats, stage, s)
		if err != nil {
			return nil, err
		}
		costs[stage+"_ms_per_pair"] = figure(answers[0], seconds).Value / j.Options["batch"] * 1000
	}
	const epochs = 20 // of GRIT-VLP and MAFA
	train := costs["train_ms_per_pair"]
	costs["share_encode"] = 100 * costs["encode_ms_per_pair"] / epochs / train
	costs["share_discriminate"] = 100 * costs["discriminate_ms_per_pair"] / train
	return costs, nil
}

// baseWorker has a model that trains, encodes and discriminates. For the last two it acts as if it were frozen.
type baseWorker struct {
	*stepWorker
	encoder *model.Encoder
	conD    *discriminator.Discriminator
	batch   *schemas.Batch
	images  []byte
	texts   []string
}

func newBaseWorker(ctx context.Context, j job) (worker, error) {
	steps, err := newStepper(ctx, j)
	if err != nil {
		return nil, err
	}
	w := &baseWorker{stepWorker: steps}
	m := w.trainer.Model()
	if w.encoder, err = frozen(ctx, w.stepWorker, m, j); err != nil {
		return nil, err
	}
	matcher, err := model.NewMatcher(ctx, m)
	if err != nil {
		return nil, err
	}
	if w.conD, err = discriminator.New(matcher, discriminator.Options{}); err != nil {
		return nil, err
	}
	w.batch = hardest(w.stepWorker.batch, 2)
	for range w.input.IDs {
		w.texts = append(w.texts, strings.Repeat("w7 ", 10))
	}
	w.images = make([]byte, len(w.input.Pixels))
	r := rng.New(1, "bench.images")
	for i := range w.images {
		w.images[i] = byte(r.Uint32())
	}
	return worker{"train": func(ctx context.Context, _ *answer) error { return w.step(ctx) }, "images": w.encodeImages, "encode": w.encode, "discriminate": w.discriminate}, nil
}

// frozen returns the encoder of the same shape as the model in training.
func frozen(ctx context.Context, w *stepWorker, m *model.Model, j job) (*model.Encoder, error) {
	twin, err := model.New(ctx, w.worker, m.Config, 2)
	if err != nil {
		return nil, err
	}
	twin.Vocab = m.Vocab
	return model.NewEncoder(ctx, twin, j.option("batch"))
}

// hardest gives every anchor its next samples as candidates.
func hardest(scored *schemas.ScoredBatch, m int) *schemas.Batch {
	b := scored.Batch
	n := len(b.Samples)
	b.M = int32(m)
	for i := range n {
		for k := range m {
			b.I2T = append(b.I2T, int32((i+1+k)%n))
			b.T2I = append(b.T2I, int32((i+n-1-k)%n))
		}
	}
	return &b
}

func (w *baseWorker) encodeImages(ctx context.Context, _ *answer) error {
	_, err := w.encoder.EncodeImages(ctx, w.images, len(w.texts))
	return err
}

func (w *baseWorker) encode(ctx context.Context, a *answer) error {
	if err := w.encodeImages(ctx, a); err != nil {
		return err
	}
	_, err := w.encoder.EncodeTexts(ctx, w.texts)
	return err
}

func (w *baseWorker) discriminate(ctx context.Context, _ *answer) error {
	_, err := w.conD.Score(ctx, w.batch, discriminator.Input{Pixels: w.input.Pixels, IDs: w.input.IDs})
	return err
}
