package model_test

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/safetensors"
)

// matches asks a matcher about pairs of two images and two texts.
func matches(t *testing.T, m *model.Model) (probabilities []float32, fingerprint string) {
	t.Helper()
	matcher, err := model.NewMatcher(context.Background(), m)
	if err != nil {
		t.Fatal(err)
	}
	pixels := make([]float32, 2*3*32*32)
	for i := range pixels {
		pixels[i] = float32(i%11) - 5
	}
	probabilities, err = matcher.Match(context.Background(), pixels, [][]int32{{1, 7, 2}, {1, 8, 9, 2}}, []model.Pair{{Image: 0, Text: 1}, {Image: 1, Text: 1}, {Image: 1}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	return probabilities, matcher.Fingerprint()
}

// A calibration is written beside the weights, read back, applied by the matcher and told by its fingerprint. Without one the
// bits are those of the softmax, and the identity keeps them but for a rounding.
func TestCalibrationTravelsWithTheWeights(t *testing.T) {
	m := testModel(t)
	m.Vocab = make([]string, m.Config.VocabSize)
	copy(m.Vocab, []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"})
	bare, before := matches(t, m)
	encoder := func(m *model.Model) string {
		f, err := m.Fingerprint(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	weights := encoder(m)
	for name, c := range map[string]*model.Calibration{"identity": {Temperature: 1}, "colder": {Temperature: 0.5, Offset: -2, BaseRate: 0.05, Pairs: 30}} {
		m.Calibration, m.Card = c, `{"steps":3}`
		path := filepath.Join(t.TempDir(), "weights")
		if err := m.Save(context.Background(), path); err != nil {
			t.Fatal(err)
		}
		read, err := model.Load(context.Background(), m.Worker(), path, model.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(read.Free)
		if read.Calibration == nil || *read.Calibration != *c || read.Card != m.Card {
			t.Errorf("%s: read %+v with card %q, want %+v", name, read.Calibration, read.Card, c)
		}
		got, fingerprint := matches(t, read)
		for i, p := range bare {
			logit := math.Log(float64(p) / (1 - float64(p)))
			if want := 1 / (1 + math.Exp(-logit/c.Temperature-c.Offset)); math.Abs(float64(got[i])-want) > 1e-5 {
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
	tensors, err := m.Export(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"{":                                 "decoding metadata pairstream.calibration",
		`{"temperature":0,"offset":1}`:      "temperature 0 and offset 1, want a temperature above 0",
		`{"temperature":-1}`:                "want a temperature above 0",
		`{"temperature":1,"offset":1e400}`:  "decoding metadata pairstream.calibration",
		`{"temperature":2,"offset":"much"}`: "decoding metadata pairstream.calibration",
	} {
		metadata, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		metadata["pairstream.calibration"] = text
		path := filepath.Join(t.TempDir(), "weights")
		if err := safetensors.WriteFile(path, tensors, metadata); err != nil {
			t.Fatal(err)
		}
		if read, err := model.Load(context.Background(), m.Worker(), path, model.LoadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
			if err == nil {
				read.Free()
			}
		}
	}
}
