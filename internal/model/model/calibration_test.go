package model_test

import (
	"context"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// matches asks a matcher about pairs of two images and two texts.
func matches(t *testing.T, m *model.Model) (probabilities []float32, fingerprint string) {
	t.Helper()
	matcher := must.Get(model.NewMatcher(context.Background(), m))(t)
	pixels := make([]float32, 2*3*32*32)
	for i := range pixels {
		pixels[i] = float32(i%11) - 5
	}
	probabilities = must.Get(matcher.Match(context.Background(), pixels, [][]int32{{1, 7, 2}, {1, 8, 9, 2}}, []model.Pair{{Image: 0, Text: 1}, {Image: 1, Text: 1}, {Image: 1}}, 2))(t)
	return probabilities, matcher.Fingerprint()
}

// A calibration is written beside the weights, read back, applied by the matcher and told by its fingerprint. Without
// one the bits are those of the softmax.
func TestCalibrationTravelsWithTheWeights(t *testing.T) {
	m := testModel(t)
	m.Vocab = make([]string, m.Config.VocabSize)
	copy(m.Vocab, []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"})
	bare, before := matches(t, m)
	encoder := func(m *model.Model) string {
		f := must.Get(m.Fingerprint(context.Background()))(t)
		return f
	}
	weights := encoder(m)
	for name, c := range map[string]*model.Calibration{
		"level":  {Differences: []float64{0}, Probabilities: []float64{0.25}},
		"rising": {Differences: []float64{-2, 0.5, 2}, Probabilities: []float64{0.1, 0.1, 0.7}, BaseRate: 0.05, Pairs: 30},
	} {
		m.Calibration, m.Card = c, `{"steps":3}`
		path := filepath.Join(t.TempDir(), "weights")
		must.Do(t, m.Save(context.Background(), path))
		read := must.Get(model.Load(context.Background(), m.Worker(), path, model.LoadOptions{}))(t)
		t.Cleanup(read.Free)
		if !reflect.DeepEqual(read.Calibration, c) || read.Card != m.Card {
			t.Errorf("%s: read %+v with card %q, want %+v", name, read.Calibration, read.Card, c)
		}
		got, fingerprint := matches(t, read)
		for i, p := range bare {
			logit := math.Log(float64(p) / (1 - float64(p)))
			if want := c.Of(logit); math.Abs(float64(got[i])-want) > 1e-5 || got[i] == p {
				t.Errorf("%s: pair %d has %v, want %v", name, i, got[i], want)
			}
		}
		if fingerprint == before || encoder(read) != weights {
			t.Errorf("%s: the matcher's fingerprint is %s as without, or the weights' has changed", name, fingerprint)
		}
	}
	m.Calibration, m.Card = nil, ""
	metadata, err := m.Metadata()
	if err != nil || len(metadata) != 2 {
		t.Errorf("metadata %v of a model without calibration and card, %v", metadata, err)
	}
	if again, fingerprint := matches(t, m); fingerprint != before || again[0] != bare[0] || again[2] != bare[2] {
		t.Error("a model without calibration does not answer as before")
	}
}

func TestCalibrationsThatAreRefused(t *testing.T) {
	m := testModel(t)
	tensors := must.Get(m.Export(context.Background()))(t)
	for text, want := range map[string]string{
		"{":  "decoding metadata pairstream.calibration",
		`{}`: "0 differences with 0 probabilities, want one for each",
		`{"differences":[1,2],"probabilities":[0.5]}`:     "2 differences with 1 probabilities",
		`{"differences":[1,2],"probabilities":[0.5,0.4]}`: "probability 0.4 at difference 2 behind 0.5 at 1, want rising ones",
		`{"differences":[1,1],"probabilities":[0.5,0.6]}`: "want rising ones",
		`{"differences":[1],"probabilities":[1.5]}`:       "probability 1.5 at difference 1, want 0 to 1",
		`{"differences":[1],"probabilities":[-0.5]}`:      "want 0 to 1",
		`{"differences":[1e400],"probabilities":[0.5]}`:   "decoding metadata pairstream.calibration",
		`{"differences":["much"],"probabilities":[0.5]}`:  "decoding metadata pairstream.calibration",
	} {
		metadata := must.Get(m.Metadata())(t)
		metadata["pairstream.calibration"] = text
		path := filepath.Join(t.TempDir(), "weights")
		must.Do(t, safetensors.WriteFile(path, tensors, metadata))
		if read, err := model.Load(context.Background(), m.Worker(), path, model.LoadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
			if err == nil {
				read.Free()
			}
		}
	}
}

// Between points a calibration is linear, outside level, and at a point it has the point's probability. A thousandth of
// the softmax keeps the order.
func TestCalibrationBetweenPoints(t *testing.T) {
	c := &model.Calibration{Differences: []float64{-1, 1, 3}, Probabilities: []float64{0.2, 0.4, 0.4}}
	for difference, want := range map[float64]float64{-9: 0.2, -1: 0.2, 0: 0.3, 0.5: 0.35, 1: 0.4, 2: 0.4, 3: 0.4, 9: 0.4} {
		softmax := 1 / (1 + math.Exp(-difference))
		if got := c.Of(difference); math.Abs(got-0.999*want-0.001*softmax) > 1e-12 {
			t.Errorf("at %v: %v, want %v", difference, got, want)
		}
	}
	if !math.IsNaN(c.Of(math.NaN())) {
		t.Error("NaN has a probability")
	}
	for d, last := -5.0, -1.0; d < 6; d += 0.25 {
		p := c.Of(d)
		if p <= last || p < 0 || p > 1 {
			t.Errorf("at %v: %v behind %v", d, p, last)
		}
		last = p
	}
	if one := (*model.Calibration)(nil).Of(0.5); one != 1/(1+math.Exp(-0.5)) {
		t.Errorf("without a calibration: %v", one)
	}
}
