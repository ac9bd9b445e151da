package towers

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"iter"

	"gonum.org/v1/gonum/mat"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// Pair is a picture of [Towers.Pictures] with a caption.
type Pair struct {
	Picture []byte
	Caption string
}

// ridge is the weight of the penalty in the fit of the projection, in mean variances of a channel.
const ridge = 1

// shown is the weight of a caption's words beside [CLS], whose own vector says nothing.
const shown = 4

// Start writes a first model that knows what the towers know. Its vocabulary has the text tower's tokens as far as
// captions have them, and every token begins with its vector from the text tower. One ridge regression over pairs
// projects places of images into the space of words. Attention begins with means, so that both encoders give means in
// this space, and words look for places that show them.
func (t *Towers) Start(ctx context.Context, w *torch.Worker, c model.Config, captions iter.Seq[string], pairs []Pair, seed uint64, path string) error {
	vocab, table, err := t.words(captions, c.TextHidden)
	if err != nil {
		return err
	}
	c.VocabSize = len(vocab)
	m, err := model.New(ctx, w, c, seed)
	if err != nil {
		return err
	}
	tensors, err := m.Export(ctx)
	m.Free()
	if err != nil {
		return err
	}
	set := tensorSet{}
	for i := range tensors {
		set[tensors[i].Name] = &tensors[i].Tensor
	}
	*set[wordTable] = table
	set.passOn(c)
	said, err := hidden(ctx, w, c, vocab, tensors, pairs)
	if err != nil {
		return err
	}
	if err := set.project(c, said, pairs); err != nil {
		return err
	}
	m.Vocab = vocab
	metadata, err := m.Metadata()
	if err != nil {
		return err
	}
	return safetensors.WriteFile(path, tensors, metadata)
}

// hidden returns what a model's text encoder says of captions, a row each.
func hidden(ctx context.Context, w *torch.Worker, c model.Config, vocab []string, tensors []safetensors.NamedTensor, pairs []Pair) (*mat.Dense, error) {
	var b bytes.Buffer
	if err := safetensors.Write(&b, tensors, nil); err != nil {
		return nil, err
	}
	f, err := safetensors.Parse(b.Bytes())
	if err != nil {
		return nil, err
	}
	m, err := model.FromFile(ctx, w, f, model.LoadOptions{Config: &c, Vocab: vocab})
	if err != nil {
		return nil, err
	}
	defer m.Free()
	words, err := m.Words()
	if err != nil {
		return nil, err
	}
	out := make([]float64, 0, len(pairs)*c.TextHidden)
	for from := 0; from < len(pairs); from += at {
		part := pairs[from:min(from+at, len(pairs))]
		ids, mask := make([]int64, len(part)*c.TextTokens), make([]int64, len(part)*c.TextTokens)
		for i, p := range part {
			for j, id := range words.Encode(p.Caption, c.TextTokens) {
				ids[i*c.TextTokens+j], mask[i*c.TextTokens+j] = int64(id), 1
			}
		}
		err := w.Do(ctx, func(s *torch.Scope) error {
			s.NoGrad(func() {
				n, length := int64(len(part)), int64(c.TextTokens)
				first := s.Select(m.Text(s, s.Int64s(ids, n, length), s.Int64s(mask, n, length)), 1, 0)
				for _, v := range s.Contiguous(first).Float32s() {
					out = append(out, float64(v))
				}
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return mat.NewDense(len(pairs), c.TextHidden, out), nil
}

// tensorSet is the tensors of a model by name.
type tensorSet map[string]*safetensors.Tensor

// identity replaces a part of a matrix, from a row on, by a multiple of the identity.
func (v tensorSet) identity(name string, row int, scale float32) {
	t := v[name]
	width := int(t.Shape[1])
	all, _ := t.Float32s() // New makes float32
	clear(all[row*width : (row+width)*width])
	for i := range width {
		all[(row+i)*width+i] = scale
	}
	*t = safetensors.FromFloat32s(all, t.Shape...)
}

// zero replaces a tensor by zeros.
func (v tensorSet) zero(name string) {
	*v[name] = safetensors.FromFloat32s(make([]float32, v[name].Len()), v[name].Shape...)
}

// passOn lets both encoders, and the first cross-attention, hand on what they attend to.
func (v tensorSet) passOn(c model.Config) {
	for i := range c.VisionDepth {
		block := fmt.Sprintf("visual_encoder.blocks.%d.", i)
		v.identity(block+"attn.qkv.weight", 2*c.VisionDim, 1)
		v.identity(block+"attn.proj.weight", 0, 1)
		v.zero(block + "mlp.fc2.weight")
	}
	for i := range c.FusionLayer {
		layer := fmt.Sprintf("text_encoder.bert.encoder.layer.%d.", i)
		v.identity(layer+"attention.self.value.weight", 0, 1)
		v.identity(layer+"attention.output.dense.weight", 0, shown)
		v.zero(layer + "output.dense.weight")
	}
	look := fmt.Sprintf("text_encoder.bert.encoder.layer.%d.crossattention.", c.FusionLayer)
	for _, part := range []string{"self.query", "self.key", "self.value", "output.dense"} {
		v.identity(look+part+".weight", 0, 1)
	}
	v.identity("vision_proj.weight", 0, 1)
	v.identity("text_proj.weight", 0, 1)
}

// project fits the patch embedding, so that the mean of an image's places comes near to what is said of it.
func (v tensorSet) project(c model.Config, said *mat.Dense, pairs []Pair) error {
	n := len(pairs)
	x := mat.NewDense(n, channels, nil)
	for i, p := range pairs {
		if err := pooled(p.Picture, x.RawRowView(i)); err != nil {
			return err
		}
	}
	means, mean := centre(x), centre(said)
	var cov, cross, a mat.Dense
	cov.Mul(x.T(), x)
	penalty := ridge * mat.Trace(&cov) / channels
	for i := range channels {
		cov.Set(i, i, cov.At(i, i)+penalty)
	}
	cross.Mul(x.T(), said)
	if err := a.Solve(&cov, &cross); err != nil {
		return fmt.Errorf("fitting the projection: %w", err)
	}
	// A channel is (byte-128)/32, and the model sees (byte/255-mean)/deviation of each colour.
	weights, bias := make([]float32, c.VisionDim*channels), make([]float32, c.VisionDim)
	for o := range c.VisionDim {
		var constant float64
		for k := range channels {
			colour, place := k%3, k/3
			w := a.At(k, o)
			weights[(o*3+colour)*patch*patch+place] = float32(w * 255 * float64(imaging.CLIPStd[colour]) / 32)
			constant += w * ((255*float64(imaging.CLIPMean[colour])-128)/32 - means[k])
		}
		bias[o] = float32(constant)
	}
	*v["visual_encoder.patch_embed.proj.weight"] = safetensors.FromFloat32s(weights, int64(c.VisionDim), 3, patch, patch)
	*v["visual_encoder.patch_embed.proj.bias"] = safetensors.FromFloat32s(bias, int64(c.VisionDim))
	off := make([]float32, len(mean))
	for i, m := range mean {
		off[i] = float32(-m)
	}
	*v["text_proj.bias"] = safetensors.FromFloat32s(off, int64(len(off)))
	return nil
}

// centre takes the means off the columns and returns them.
func centre(x *mat.Dense) []float64 {
	n, width := x.Dims()
	means := make([]float64, width)
	for i := range n {
		for j, v := range x.RawRowView(i) {
			means[j] += v / float64(n)
		}
	}
	for i := range n {
		row := x.RawRowView(i)
		for j := range row {
			row[j] -= means[j]
		}
	}
	return means
}

// pooled writes the mean of a picture's places, channel by channel.
func pooled(picture []byte, to []float64) error {
	im, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return fmt.Errorf("decoding a picture: %w", err)
	}
	for y := range Side {
		for x := range Side {
			r, g, b, _ := im.At(x, y).RGBA()
			p := 3 * (y%patch*patch + x%patch)
			for i, v := range []uint32{r, g, b} {
				to[p+i] += (float64(v>>8) - 128) / 32 / (grid * grid)
			}
		}
	}
	return nil
}
