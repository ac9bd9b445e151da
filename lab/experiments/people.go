package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/base/auc"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/hardcaption"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/demo/duplicates"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/lab/experiments/towers"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// judgedSettings are those of X13.
type judgedSettings struct {
	photographSettings
	Thresholds []float64 `json:"thresholds"`
	Wanted     []float64 `json:"wanted"` // precisions of raised Con-Ds
	Raised     float64   `json:"raised"` // by how much the logits of true pairs are
	Least      float64   `json:"least"`
}

func judgedSizes(short bool) judgedSettings {
	s := judgedSettings{
		photographSettings: photographSizes(short), Thresholds: evidence.JudgedThresholds(), Wanted: evidence.RaisedPrecisions(), Raised: 5,
		Least: discriminator.LeastPrecision,
	}
	s.Arms, s.Sizes.FirstSteps, s.Sizes.CondSteps = nil, 600, 2400
	if short {
		s.Scenes, s.Sizes.FirstSteps, s.Sizes.CondSteps = 200, 5, 5
	}
	return s
}

func (s judgedSettings) run(ctx context.Context, j Job) (out []evidence.Measure, err error) {
	dir, err := os.MkdirTemp(j.Dir, "experiment-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for weights: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var w *judgedWorld
	if s.Scenes > 0 {
		w, err = s.drawnWorld(ctx, j, dir)
	} else {
		w, err = readJudged(ctx, j)
	}
	if err != nil {
		return nil, err
	}
	cond, err := s.teach(ctx, j, w, dir)
	if err != nil {
		return nil, err
	}
	answers, err := w.ask(ctx, j, cond)
	if err != nil {
		return nil, err
	}
	return s.report(answers), nil
}

// teach trains a first model and Con-D on the photographs to learn from.
func (s judgedSettings) teach(ctx context.Context, j Job, w *judgedWorld, dir string) (cond string, err error) {
	tars := duplicates.New(filepath.Join(dir, "train"))
	tars.Folder("train")
	var published []towers.Pair
	for i, p := range w.train {
		tars.Add(i, p.encoded, p.captions...)
		for _, c := range p.captions {
			published = append(published, towers.Pair{Picture: p.encoded, Caption: c})
		}
	}
	if err := tars.Close(); err != nil {
		return "", err
	}
	d := &data{}
	if d.train, _, err = dataset.Read(ctx, tars.Folders(), 0); err != nil {
		return "", err
	}
	d.vocab = token.BuildVocab(d.train.Captions, 2000, 1)
	if d.images, d.closeImages, err = bootstrap.Images(ctx, tars.Folders(), s.Shape.ImageSize, 1<<30); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, d.closeImages()) }()
	initial := ""
	if w.Towers != nil {
		initial = filepath.Join(dir, "initial.safetensors")
		if err := w.Start(ctx, j.Worker, s.Shape, d.train.Captions, published, j.Seed, initial); err != nil {
			return "", err
		}
	}
	on := &setup{
		sizes: s.Sizes, seed: j.Seed, dir: dir, worker: j.Worker, data: d, preset: "micro",
		augment: dataset.Augmentation{MinScale: 1, Workers: 2}, log: j.Log,
	}
	first := filepath.Join(dir, "start.safetensors")
	cond = filepath.Join(dir, "con-d.safetensors")
	if err = s.learn(ctx, on, initial, s.Sizes.FirstSteps, bootstrap.Candidates, first); err == nil {
		err = s.learn(ctx, on, first, s.Sizes.CondSteps, s.CondCandidates, cond)
	}
	return cond, err
}

// judgedAnswers are what Con-D says of the test photographs.
type judgedAnswers struct {
	known  discriminator.Known // its candidates are the judged pairs
	judged []auc.Judgement
}

// ask asks Con-D what the guard asks it, with the judged pairs as candidates. Captions are edited with words of 47
// others.
func (w *judgedWorld) ask(ctx context.Context, j Job, cond string) (*judgedAnswers, error) {
	m, err := model.OpenMatcher(ctx, j.Worker, cond)
	if err != nil {
		return nil, err
	}
	defer m.Free()
	q, err := w.questions(j.Seed)
	if err != nil {
		return nil, err
	}
	images, texts, err := w.encode(ctx, m, q.texts)
	if err != nil {
		return nil, err
	}
	probabilities, err := m.MatchEncoded(ctx, images, texts, q.pairs, 64)
	if err != nil {
		return nil, err
	}
	a := &judgedAnswers{}
	for i, p := range probabilities {
		*q.to(a, i) = append(*q.to(a, i), p)
	}
	a.known.Pairs = len(w.test)
	for i, judged := range w.judgements {
		a.judged = append(a.judged, auc.Judgement{P: a.known.Candidates[i], True: judged.right})
	}
	return a, nil
}

// judgedQuestions are pairs of test photographs and texts: captions first, edited ones behind them.
type judgedQuestions struct {
	texts []string
	pairs []model.Pair
	lists []func(*discriminator.Known) *discriminator.Probabilities // where each answer belongs
}

func (q *judgedQuestions) to(a *judgedAnswers, i int) *discriminator.Probabilities {
	return q.lists[i](&a.known)
}

func (q *judgedQuestions) add(image, text int, list func(*discriminator.Known) *discriminator.Probabilities) {
	q.pairs, q.lists = append(q.pairs, model.Pair{Image: int32(image), Text: int32(text)}), append(q.lists, list)
}

func (w *judgedWorld) questions(seed uint64) (*judgedQuestions, error) {
	tags, err := tagger()
	if err != nil {
		return nil, err
	}
	q, captions := &judgedQuestions{}, make([]hardcaption.Caption, len(w.test))
	for i, p := range w.test {
		q.texts, captions[i] = append(q.texts, p.captions[caption]), hardcaption.Read(tags, p.captions[caption])
	}
	draws := rng.New(seed, "experiments.judged")
	edit := func(i int, make func([]hardcaption.Caption, int, []int32, *rand.Rand) (string, bool), list func(*discriminator.Known) *discriminator.Probabilities) {
		around := []hardcaption.Caption{captions[i]}
		for range 47 {
			around = append(around, captions[draws.IntN(len(captions))])
		}
		if text, ok := make(around, 0, nil, draws); ok {
			q.add(i, len(q.texts), list)
			q.texts = append(q.texts, text)
		}
	}
	for i := range w.test {
		q.add(i, i, func(k *discriminator.Known) *discriminator.Probabilities { return &k.Positives })
		for range 2 {
			edit(i, hardcaption.Edit, func(k *discriminator.Known) *discriminator.Probabilities { return &k.Edited })
			edit(i, hardcaption.Reword, func(k *discriminator.Known) *discriminator.Probabilities { return &k.Reworded })
			if t := draws.IntN(len(w.test)); t != i {
				q.add(i, t, func(k *discriminator.Known) *discriminator.Probabilities { return &k.Others })
			}
		}
	}
	for _, judged := range w.judgements {
		q.add(judged.image, judged.text, func(k *discriminator.Known) *discriminator.Probabilities { return &k.Candidates })
	}
	return q, nil
}

// encode encodes the test photographs and texts.
func (w *judgedWorld) encode(ctx context.Context, m *model.Matcher, texts []string) (images, said []model.Encoding, err error) {
	pre := imaging.Preprocess{Size: m.Config.ImageSize, Mode: imaging.CenterCrop}
	pixels := make([]float32, len(w.test)*pre.Values())
	for i, p := range w.test {
		im, err := imaging.Decode(p.encoded)
		if err != nil {
			return nil, nil, fmt.Errorf("decoding test photograph %d: %w", i, err)
		}
		pre.Into(pixels[i*pre.Values():(i+1)*pre.Values()], im)
	}
	words, err := m.Words()
	if err != nil {
		return nil, nil, err
	}
	ids := make([][]int32, len(texts))
	for i, text := range texts {
		ids[i] = words.Encode(text, m.Config.TextTokens)
	}
	if images, err = m.EncodeImages(ctx, pixels); err != nil {
		return nil, nil, err
	}
	said, err = m.EncodeTexts(ctx, ids)
	return images, said, err
}

// report compares Con-D and the guard with what people say.
func (s judgedSettings) report(a *judgedAnswers) (out []evidence.Measure) {
	right := 0
	for _, p := range a.judged {
		if p.True {
			right++
		}
	}
	base := share(right, len(a.judged))
	out = append(out, evidence.Measure{Arm: "Con-D", Name: "auc", Value: auc.Of(a.judged)}, evidence.Measure{Arm: "all", Name: "precision", Value: base},
		evidence.Measure{Arm: "Con-D", Name: "calibration_error", Value: 100 * calibrationError(a.judged)})
	for _, high := range s.Thresholds {
		out = append(out, s.guarded("Con-D", high, high, a)...)
	}
	raised := a.raised(s.Raised)
	for _, wanted := range s.Wanted {
		nearest, at := math.Inf(1), 0.5
		for _, t := range discriminator.Thresholds() {
			if v, _ := raised.above(t); v.Confirmed >= 50 && math.Abs(v.Precision-wanted) < nearest {
				nearest, at = math.Abs(v.Precision-wanted), t
			}
		}
		out = append(out, s.guarded("raised", wanted, at, raised)...)
	}
	return out
}

// guarded returns what is measured above a threshold, and what the guard says of it.
func (s judgedSettings) guarded(arm string, x, high float64, a *judgedAnswers) []evidence.Measure {
	v, candidates := a.above(high)
	k := a.known
	p := k.Precision(high)
	check := schemas.Check{Positives: int32(k.Pairs), AUC: k.AUC(), Least: s.Least, Precision: &p}
	out := guarded(arm, x, check, v, candidates)
	rightly := 0.0
	if check.Off() == (v.Precision <= s.Least) {
		rightly = 1
	}
	low, above := evidence.ClopperPearson(v.True, v.Confirmed)
	m := func(name string, value float64) evidence.Measure {
		return evidence.Measure{Arm: arm, X: x, Name: name, Value: value}
	}
	return append(out, m("right", rightly), m("confirmed", float64(v.Confirmed)), m("counted_low", low), m("counted_high", above), m("threshold", high))
}

// above counts the judged pairs above a threshold.
func (a *judgedAnswers) above(high float64) (Verdict, *Connections) {
	v, c := Verdict{High: high}, &Connections{Candidates: len(a.judged)}
	for _, p := range a.judged {
		if p.True {
			c.True++
		}
		if p.P > float32(high) {
			v.Confirmed++
			if p.True {
				v.True++
			}
		}
	}
	v.Precision, v.Recall = share(v.True, v.Confirmed), share(v.True, c.True)
	return v, c
}

// raised returns what a better Con-D would say: the logits of pairs that are true are higher.
func (a *judgedAnswers) raised(by float64) *judgedAnswers {
	raise := func(p float32) float32 {
		return float32(1 / (1 + math.Exp(-by)*(1-float64(p))/max(float64(p), 1e-9)))
	}
	out := &judgedAnswers{known: a.known}
	out.known.Positives, out.known.Candidates = nil, nil
	for _, p := range a.known.Positives {
		out.known.Positives = append(out.known.Positives, raise(p))
	}
	for _, p := range a.judged {
		if p.True {
			p.P = raise(p.P)
		}
		out.judged, out.known.Candidates = append(out.judged, p), append(out.known.Candidates, p.P)
	}
	return out
}

// calibrationError returns the mean distance of probabilities from the share of true pairs, in ten bins of equal width.
func calibrationError(all []auc.Judgement) float64 {
	var sums, rights [10]float64
	for _, p := range all {
		bin := min(int(p.P*10), 9)
		sums[bin] += float64(p.P)
		if p.True {
			rights[bin]++
		}
	}
	off := 0.0
	for i := range sums {
		off += math.Abs(sums[i] - rights[i])
	}
	return off / float64(max(len(all), 1))
}
