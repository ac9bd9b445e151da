package eval

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

const (
	testImages = 7
	perImage   = 2 // texts
)

func testModel(t *testing.T) *model.Model {
	t.Helper()
	before := torch.Live()
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Device: "cpu", Threads: 2, Deterministic: true}))(t)
	t.Cleanup(func() {
		w.Close()
		if n := torch.Live() - before; n != 0 {
			t.Errorf("%d tensors were not given back", n)
		}
	})
	m := must.Get(model.New(context.Background(), w, model.Config{
		ImageSize: 32, PatchSize: 16, VisionDim: 32, VisionDepth: 2, VisionHeads: 2,
		TextHidden: 32, TextLayers: 4, FusionLayer: 2, TextHeads: 2, TextIntermediate: 64,
		VocabSize: 40, MaxPositions: 16, EmbedDim: 16, TextTokens: 12,
	}, 7))(t)
	t.Cleanup(m.Free)
	return m
}

// testData returns noise.
func testData() Data {
	r := rng.New(1, "held out")
	d := Data{Images: testImages}
	for image := range int32(testImages) {
		for range perImage {
			ids := []int32{1}
			for range 3 + r.IntN(8) {
				ids = append(ids, int32(4+r.IntN(36)))
			}
			d.Texts, d.ImageOf = append(d.Texts, ids), append(d.ImageOf, image)
		}
	}
	d.Pixels = func(image int, pixels []float32) error {
		r := rng.New(1, "pixels", int64(image))
		for i := range pixels {
			pixels[i] = float32(r.NormFloat64())
		}
		return nil
	}
	return d
}

// oneByOne scores every image with every text, each pair by itself, by the plain forward pass.
func oneByOne(t *testing.T, m *model.Model, d Data) (sim, matched, margin Matrix) {
	t.Helper()
	all := Matrix{Rows: d.Images, Cols: len(d.Texts), Data: make([]float32, d.Images*len(d.Texts))}
	sim, matched, margin = all, all, all
	sim.Data, matched.Data, margin.Data = slices.Clone(all.Data), slices.Clone(all.Data), slices.Clone(all.Data)
	must.Do(t, m.Worker().Do(context.Background(), func(s *torch.Scope) error {
		for i := range d.Images {
			pixels := make([]float32, 3*32*32)
			if err := d.Pixels(i, pixels); err != nil {
				return err
			}
			image, err := model.Images(s, pixels, 1, m)
			if err != nil {
				return err
			}
			tokens := m.Image(s, image)
			for j := range d.Texts {
				ids, mask, err := model.Texts(s, d.Texts[j:j+1], 0, m.Config)
				if err != nil {
					return err
				}
				hidden := m.Text(s, ids, mask)
				logits := m.MatchPairs(s, hidden, mask, m.View(s, tokens), []int64{0}, []int64{0}).Float32s()
				at := i*len(d.Texts) + j
				sim.Data[at] = float32(s.MatMul(m.ImageFeature(s, tokens), s.Transpose(m.TextFeature(s, hidden), 0, 1)).Item())
				matched.Data[at], margin.Data[at] = logits[1], logits[1]-logits[0]
			}
		}
		return nil
	}))
	return sim, matched, margin
}

func TestEvaluateAgreesWithOneByOne(t *testing.T) {
	m, d := testModel(t), testData()
	sim, matched, margin := oneByOne(t, m, d)
	truth := must.Get(NewTruth(d.Images, d.ImageOf))(t)
	want := MatchError{}
	positives, negatives := truth.pairs(), truth.hardestNegatives(sim, nil)
	for _, p := range positives {
		if margin.Row(int(p.Image))[p.Text] <= 0 {
			want.Positive += 100 / float64(len(positives))
		}
	}
	for _, p := range negatives {
		if margin.Row(int(p.Image))[p.Text] > 0 {
			want.Negative += 100 / float64(len(negatives))
		}
	}
	for name, o := range map[string]Options{
		"small batches": {Batch: 3, Part: 5, TopK: RerankAll}, "large batches": {TopK: RerankAll}, "k beyond all": {TopK: 500},
	} {
		t.Run(name, func(t *testing.T) {
			r := must.Get(Evaluate(context.Background(), m, d, o))(t)
			for i, got := range r.Sim.Data {
				if math.Abs(float64(got-sim.Data[i])) > 1e-5 {
					t.Fatalf("similarity %d is %v, want %v", i, got, sim.Data[i])
				}
			}
			if want := ByITC(sim, truth); r.ITC != want {
				t.Errorf("by similarity %+v, want %+v", r.ITC, want)
			}
			if want := ByITC(matched, truth); r.ITM == nil || *r.ITM != want {
				t.Errorf("by the matching head %+v, want %+v", r.ITM, want)
			}
			if math.Abs(r.Match.Positive-want.Positive) > 1e-9 || math.Abs(r.Match.Negative-want.Negative) > 1e-9 ||
				math.Abs(r.Match.Error-(want.Positive+want.Negative)/2) > 1e-9 {
				t.Errorf("matching errors %+v, want %+v", r.Match, want)
			}
			if r.Images != testImages || r.Texts != testImages*perImage || r.Chance != Chance(truth) {
				t.Errorf("report %+v", r)
			}
		})
	}
}

func TestEvaluateWithoutRerank(t *testing.T) {
	m, d := testModel(t), testData()
	r, err := Evaluate(context.Background(), m, d, Options{TopK: NoRerank})
	if err != nil || r.ITM != nil || r.TopK != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A model's similarities choose the negatives: those of another model choose others.
func TestEvaluateMinesByGivenSimilarities(t *testing.T) {
	m, d := testModel(t), testData()
	other := Matrix{Rows: testImages, Cols: testImages * perImage, Data: make([]float32, testImages*testImages*perImage)}
	_, _, margin := oneByOne(t, m, d)
	fooling := 0
	for i, v := range margin.Data {
		other.Data[i] = v // the negatives that fool the head the most
		if v > 0 {
			fooling++
		}
	}
	r := must.Get(Evaluate(context.Background(), m, d, Options{TopK: NoRerank, Mining: &other}))(t)
	truth := must.Get(NewTruth(d.Images, d.ImageOf))(t)
	negatives := truth.hardestNegatives(other, nil)
	want := 0.0
	for _, p := range negatives {
		if margin.Row(int(p.Image))[p.Text] > 0 {
			want += 100 / float64(len(negatives))
		}
	}
	if math.Abs(r.Match.Negative-want) > 1e-9 {
		t.Errorf("%.1f %% of the given negatives fool the head, want %.1f %% (%d of all pairs do)", r.Match.Negative, want, fooling)
	}
}

func TestHardestNegatives(t *testing.T) {
	truth := truthOf(t, 2, 0, 0, 1)
	sim := Matrix{2, 3, []float32{
		9, 8, 1,
		2, 3, 9,
	}}
	want := []Pair{{0, 2}, {1, 1}, {1, 0}, {1, 1}, {0, 2}}
	if got := truth.hardestNegatives(sim, nil); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// Text 1 is true of image 1 as well, so image 1 takes text 0, and text 1 has no negative.
	want = []Pair{{0, 2}, {1, 0}, {1, 0}, {0, 2}}
	if got := truth.hardestNegatives(sim, func(image, text int) bool { return image == 1 && text == 1 }); !slices.Equal(got, want) {
		t.Errorf("without pairs that match: %v, want %v", got, want)
	}
	if got := truthOf(t, 1, 0).hardestNegatives(Matrix{1, 1, []float32{1}}, nil); got != nil {
		t.Errorf("a single image has negatives %v", got)
	}
}

func TestEvaluateRefuses(t *testing.T) {
	m := testModel(t)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for want, change := range map[string]func(d *Data, o *Options) context.Context{
		"image 6 of 7 has no text": func(d *Data, _ *Options) context.Context {
			d.Texts, d.ImageOf = d.Texts[:12], d.ImageOf[:12]
			return context.Background()
		},
		"13 texts and the images of 14": func(d *Data, _ *Options) context.Context {
			d.Texts = d.Texts[:13]
			return context.Background()
		},
		"mining by 2 x 2": func(_ *Data, o *Options) context.Context {
			o.Mining = &Matrix{Rows: 2, Cols: 2, Data: make([]float32, 4)}
			return context.Background()
		},
		"loading image 3: gone": func(d *Data, _ *Options) context.Context {
			d.Pixels = func(image int, _ []float32) error {
				if image == 3 {
					return errors.New("gone")
				}
				return nil
			}
			return context.Background()
		},
		"context canceled": func(*Data, *Options) context.Context { return cancelled },
	} {
		d, o := testData(), Options{}
		ctx := change(&d, &o)
		if _, err := Evaluate(ctx, m, d, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}
