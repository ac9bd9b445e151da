package plans_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

type features struct {
	Key   string    `parquet:"key"`
	Image []float32 `parquet:"image,list"`
	Text  []float32 `parquet:"text,list"`
}

func TestFeatures(t *testing.T) {
	third := schemas.NewFloat16s([]float32{0.6, 0.8}).Floats() // not quite as long as 1
	f := must.Get(plans.ReadFeatures(t.Context(), write(t, features{"a", []float32{3, 4}, []float32{0, 2}}, features{"b", third, []float32{1, 0}})))(t)
	b := &schemas.ScoredBatch{Batch: schemas.Batch{Group: schemas.GroupID{Lane: 1, Seq: 2}, Epoch: 3, Sequence: 4, Samples: []schemas.Sample{
		{Position: 7, Image: schemas.ImageRef{URI: "t", Offset: 2}}, {Position: 8, Image: schemas.ImageRef{URI: "gone"}}, {Position: 9, Image: schemas.ImageRef{URI: "t", Offset: 1}},
	}}, Masked: []schemas.Mask{{Sample: 0, Positive: true}, {Sample: 1}}}
	keys := func(at plans.Place) string {
		return map[plans.Place]string{{URI: "t", Offset: 1}: "a", {URI: "t", Offset: 2}: "b"}[at]
	}
	block := must.Get(f.Block(b, keys, 5))(t)
	must.Check(t, block.Validate())
	if !slices.Equal(block.Positions, schemas.Int32s{7, 9}) || !slices.Equal(block.V.Floats(), append(slices.Clone(third), schemas.NewFloat16s([]float32{0.6, 0.8}).Floats()...)) ||
		!slices.Equal(block.T.Floats(), []float32{1, 0, 0, 1}) || block.Epoch != 3 || block.Sequence != 4 || block.Step != 5 {
		t.Errorf("block is %+v", block)
	}
	b.Masked = nil
	if _, err := f.Block(b, keys, 5); err == nil || !strings.Contains(err.Error(), `no features of key ""`) {
		t.Errorf("a sample without features: %v", err)
	}
}

func TestFeaturesAreRefused(t *testing.T) {
	one := []float32{1}
	for _, tt := range []struct {
		want string
		rows []features
	}{
		{`key "a" is there twice`, []features{{"a", one, one}, {"a", one, one}}},
		{"vectors of 1 and 2 values", []features{{"a", one, []float32{1, 0}}}},
		{"vectors of 0 and 0 values", []features{{"a", nil, nil}}},
		{"want 2 of both", []features{{"a", []float32{0, 1}, []float32{0, 1}}, {"b", one, one}}},
		{"the image of key \"a\" has no direction", []features{{"a", []float32{0}, one}}},
		{"the text of key \"a\" has no direction", []features{{"a", one, []float32{float32(math.NaN())}}}},
	} {
		if _, err := plans.ReadFeatures(t.Context(), write(t, tt.rows...)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error is %v, want one with %q", err, tt.want)
		}
	}
	if _, err := plans.ReadFeatures(t.Context(), write(t, single{})); err == nil || !strings.Contains(err.Error(), "lists of float32") {
		t.Errorf("a table of something else: %v", err)
	}
}
