package trainer

import (
	"context"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// goldenConfig is how the vectors describe their model and its special tokens.
type goldenConfig struct {
	Image, Patch, Vdim, Vdepth, Vheads                         int
	Hidden, Layers, Fusion, Heads, Inter, Vocab, Maxpos, Embed int
	B, T                                                       int
	Pad, CLS, Mask                                             int32
}

// vocab returns a vocabulary with the special tokens in their places.
func (g goldenConfig) vocab() []string {
	words := make([]string, g.Vocab)
	words[g.Pad], words[g.CLS], words[g.Mask] = "[PAD]", "[CLS]", "[MASK]"
	return words
}

// precision is one of the reference's two runs, with the tolerances of a comparison with it.
type precision struct {
	dtype                        torch.DType
	out, grad                    string // prefixes
	forward, loss, gradient, abs float64
}

var precisions = []precision{
	{torch.Float32, "out.", "grad.", 1e-5, 2e-6, 5e-5, 1e-6},
	{torch.Float64, "out64.", "grad64.", 1e-10, 1e-10, 1e-8, 1e-12},
}

func goldenModel(t *testing.T, v vectors, w *torch.Worker, prefix string, dtype torch.DType) *model.Model {
	t.Helper()
	var g goldenConfig
	v.Config(&g)
	m := must.Get(model.FromFile(context.Background(), w, v.File.File, model.LoadOptions{
		Prefix: prefix, DType: dtype, Trainable: true, Vocab: g.vocab(), Config: &model.Config{
			ImageSize: g.Image, PatchSize: g.Patch, VisionDim: g.Vdim, VisionDepth: g.Vdepth, VisionHeads: g.Vheads,
			TextHidden: g.Hidden, TextLayers: g.Layers, FusionLayer: g.Fusion, TextHeads: g.Heads, TextIntermediate: g.Inter,
			VocabSize: g.Vocab, MaxPositions: g.Maxpos, EmbedDim: g.Embed, TextTokens: g.T,
		},
	}))(t)
	for _, p := range m.Params() {
		v.Loaded(prefix, p.Name)
	}
	return m
}

// goldenTrainer trains the file's model. It frees everything by the end of the test.
func goldenTrainer(t *testing.T, v vectors, dtype torch.DType, o Options) *Trainer {
	t.Helper()
	before := torch.Live()
	t.Cleanup(func() {
		if n := torch.Live() - before; n != 0 {
			t.Errorf("%d tensors were not given back", n)
		}
	})
	o.Dropout = 0 // as the reference vectors
	m := goldenModel(t, v, newWorker(t), "w.", dtype)
	tr, err := New(context.Background(), m, o)
	if err != nil {
		m.Free()
		t.Fatal(err)
	}
	t.Cleanup(tr.Free)
	return tr
}

// unpadded cuts rows of the given width to the lengths in mask.
func unpadded[T int64 | int32](values []int64, mask []int64, width int, rowOf func(row int) int) [][]T {
	var rows [][]T
	for row := range len(values) / width {
		var kept []T
		for i, id := range values[row*width : (row+1)*width] {
			if mask[rowOf(row)*width+i] != 0 {
				kept = append(kept, T(id))
			}
		}
		rows = append(rows, kept)
	}
	return rows
}

func same(row int) int { return row }

func goldenInput(v vectors) Input {
	width := int(v.Must("in.input_ids").Shape[1])
	return Input{
		Pixels: v.Float32s("in.image"),
		IDs:    unpadded[int32](v.Int64s("in.input_ids"), v.Int64s("in.attention_mask"), width, same),
	}
}

// forwardOf runs the forward pass of a whole batch.
func (t *Trainer) forwardOf(s *torch.Scope, b *schemas.ScoredBatch, in Input, mask masker) (*forward, error) {
	x, err := t.receive(s, in)
	if err != nil {
		return nil, err
	}
	return t.forward(s, b, x, masksOf(b, in), mask)
}

// goldenMasker hides what the file says was hidden. It checks that its rows are those of the file.
func goldenMasker(t *testing.T, v vectors, texts []int64) masker {
	width := int(v.Must("in.mlm_input_ids").Shape[1])
	rowOf := func(row int) int { return int(texts[row]) }
	attention := v.Int64s("in.attention_mask")
	return func(rows [][]int32) maskedRows {
		m := maskedRows{
			ids:    unpadded[int32](v.Int64s("in.mlm_input_ids"), attention, width, rowOf),
			labels: unpadded[int64](v.Int64s("in.mlm_labels"), attention, width, rowOf),
		}
		if len(rows) != len(m.ids) {
			t.Fatalf("%d rows for masked language modelling, want %d", len(rows), len(m.ids))
		}
		for i := range rows {
			if len(rows[i]) != len(m.ids[i]) {
				t.Fatalf("row %d for masked language modelling has %d tokens, want %d", i, len(rows[i]), len(m.ids[i]))
			}
		}
		return m
	}
}

// checkGradients compares all gradients in the file: norms under norms, full ones under full.
func checkGradients(t *testing.T, s *torch.Scope, v vectors, tr *Trainer, p precision, norms, full string) {
	t.Helper()
	compared := map[string]bool{}
	for _, param := range tr.model.Params() {
		if !v.has(norms+param.Name) && !v.has(full+param.Name) {
			continue
		}
		grad := s.Grad(param.Tensor)
		if grad == nil {
			t.Errorf("%s has no gradient", param.Name)
			continue
		}
		compared[param.Name] = true
		if v.has(full + param.Name) {
			golden.Close(t, full+param.Name, grad.Float64s(), v.Float64s(full+param.Name), p.gradient, p.abs)
		}
		if v.has(norms + param.Name) {
			norm := s.Sqrt(s.SumAll(s.Square(s.To(grad, torch.Float64)))).Item()
			golden.Close(t, norms+param.Name, []float64{norm}, v.Float64s(norms+param.Name), p.gradient, p.abs)
		}
	}
	for _, tensor := range v.Names() {
		for _, prefix := range []string{norms, full} {
			if name, ok := strings.CutPrefix(tensor, prefix); ok && !compared[name] {
				t.Errorf("%s was not compared: the model has no such weight", tensor)
			}
		}
	}
	if len(compared) == 0 {
		t.Errorf("no gradient was compared with %s* or %s*", norms, full)
	}
}

// unscored returns a batch that no Con-D has seen.
func unscored(n int) *schemas.ScoredBatch {
	b := batchOf(n, 0, nil, nil)
	for i := range b.Samples {
		b.Samples[i].Position = int32(i)
		b.Samples[i].ImageID = schemas.ImageID{byte(i), 1}
	}
	return b
}
