package trainer

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// MomentumOptions sets the momentum encoder, which GRIT-VLP and MAFA pre-training do without.
type MomentumOptions struct {
	// Decay is the share that a step keeps of an exponential average of the image and text encoders; 0.995 in ALBEF. The
	// contrastive loss takes its keys from the average. 0: there is none.
	Decay float64 `env:"MOMENTUM_DECAY" envDefault:"0" desc:"keep a momentum encoder, whose features are ITC's keys: the share of its weights that a step keeps, 0.995 in ALBEF; 0: none"`
	// Queue is the number of earlier momentum features that serve as further negatives in ITC; ALBEF 65,536; 0 for MDNQ.
	// It starts empty and fills up.
	Queue int `env:"MOMENTUM_QUEUE" envDefault:"0" desc:"earlier momentum features that are further negatives; ALBEF 65536"`
}

// Enabled reports whether there is a momentum encoder.
func (o MomentumOptions) Enabled() bool { return o.Decay > 0 }

// momentum is an exponential average of the model, whose features are the keys of the contrastive loss, and a queue of
// the latest keys. ALBEF section 3.2 describes it; GRIT-VLP and MAFA use it when they fine-tune for retrieval. All
// methods take a nil receiver: no momentum encoder.
type momentum struct {
	model       *model.Model
	decay       float64
	limit       int               // of the queue
	image, text *torch.Tensor     // the queue [filled, E], newest first; nil: empty
	ids         []schemas.ImageID // of its rows
}

// newMomentum makes an average that starts from a copy of the weights.
func newMomentum(ctx context.Context, m *model.Model, o MomentumOptions) (*momentum, error) {
	tensors, err := m.Export(ctx)
	if err != nil {
		return nil, fmt.Errorf("copying the model: %w", err)
	}
	var file bytes.Buffer
	if err := safetensors.Write(&file, tensors, nil); err != nil {
		return nil, fmt.Errorf("copying the model: %w", err)
	}
	f, err := safetensors.Parse(file.Bytes())
	if err != nil {
		return nil, fmt.Errorf("copying the model: %w", err)
	}
	return momentumFrom(ctx, m, f, "", o)
}

// momentumFrom reads the average from the tensors of a file whose names begin with prefix.
func momentumFrom(ctx context.Context, m *model.Model, f *safetensors.File, prefix string, o MomentumOptions) (*momentum, error) {
	average, err := model.FromFile(ctx, m.Worker(), f, model.LoadOptions{
		Prefix: prefix, Config: &m.Config, ImageSize: m.Config.ImageSize, Vocab: m.Vocab, DType: m.Params()[0].Tensor.DType(),
	})
	if err != nil {
		return nil, fmt.Errorf("making the momentum encoder: %w", err)
	}
	if m.Bias() != nil {
		if err := average.AddBias(ctx); err != nil {
			average.Free()
			return nil, fmt.Errorf("making the momentum encoder: %w", err)
		}
		average.SetTrainable(false)
	}
	average.SetDropout(m.Dropout()) // ALBEF's average runs in training mode as well
	return &momentum{model: average, decay: o.Decay, limit: o.Queue}, nil
}

// AverageFrom begins the momentum encoder with the trained average of a checkpoint, in place of a copy of the weights.
// Of weights without one it keeps the copy.
func (t *Trainer) AverageFrom(ctx context.Context, path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	if _, trained := f.Tensor(momentumPrefix + t.model.Params()[0].Name); !trained || t.momentum == nil {
		return nil
	}
	average, err := momentumFrom(ctx, t.model, f, momentumPrefix, t.options.Momentum)
	if err != nil {
		return fmt.Errorf("reading the trained average of %s: %w", path, err)
	}
	t.momentum.free()
	t.momentum = average
	return nil
}

func (a *momentum) free() {
	if a == nil {
		return
	}
	a.model.Free()
	a.image.Free()
	a.text.Free()
}

// follow moves the average towards the weights before every step, as ALBEF does.
func (a *momentum) follow(m *model.Model) {
	if a == nil {
		return
	}
	torch.AverageAll(tensorsOf(a.model), tensorsOf(m), a.decay)
}

// tensorsOf returns a model's parameters, sorted by name.
func tensorsOf(m *model.Model) (all []*torch.Tensor) {
	for _, p := range m.Params() {
		all = append(all, p.Tensor)
	}
	return all
}

// keys returns the average's features of the batch. TCL shows the average a second view of the images.
func (a *momentum) keys(s *torch.Scope, x tensors) (k keys) {
	if a == nil {
		return k
	}
	pixels := x.pixels
	if x.second != nil {
		pixels = x.second
	}
	s.NoGrad(func() {
		k.tokens = a.model.Image(s, pixels)
		k.batchImage = a.model.ImageFeature(s, k.tokens)
		k.hidden = a.model.Text(s, x.ids, x.attention)
		k.batchText = a.model.TextFeature(s, k.hidden)
	})
	return k
}

// stack puts the gathered keys of the step's other batches behind those of the batch, and the queue behind them.
func (a *momentum) stack(s *torch.Scope, k *keys, gathered []batchKeys) {
	image, text := []*torch.Tensor{k.batchImage}, []*torch.Tensor{k.batchText}
	for _, g := range gathered {
		image, text, k.others = append(image, g.image), append(text, g.text), append(k.others, g.ids...)
	}
	if a != nil && a.image != nil {
		image, text, k.others = append(image, a.image), append(text, a.text), append(k.others, a.ids...)
	}
	if k.image, k.text = k.batchImage, k.batchText; len(image) > 1 {
		s.NoGrad(func() { k.image, k.text = s.Cat(0, image...), s.Cat(0, text...) })
	}
}

// keep returns the batch's keys for the queue, and whether there is one.
func (a *momentum) keep(s *torch.Scope, f *forward) (k batchKeys, wanted bool) {
	if a == nil || a.limit == 0 || len(f.samples) == 0 {
		return k, false
	}
	return f.ownKeys(s), true
}

// ownKeys keeps the batch's own keys.
func (f *forward) ownKeys(s *torch.Scope) (k batchKeys) {
	if len(f.samples) == 0 {
		return k
	}
	k.image, k.text = s.Keep(s.Contiguous(f.keys.batchImage)), s.Keep(s.Contiguous(f.keys.batchText))
	for i := range f.samples {
		k.ids = append(k.ids, f.samples[i].ImageID)
	}
	return k
}

// push puts the keys of a batch in front of the queue and lets the oldest fall out.
func (a *momentum) push(s *torch.Scope, k batchKeys) {
	s.NoGrad(func() {
		newest := func(rows, queue *torch.Tensor) *torch.Tensor {
			if queue != nil {
				rows = s.Cat(0, rows, queue)
			}
			return s.Keep(s.Contiguous(s.Narrow(rows, 0, 0, min(int64(a.limit), rows.Size(0)))))
		}
		image, text := newest(k.image, a.image), newest(k.text, a.text)
		a.image.Free()
		a.text.Free()
		a.image, a.text = image, text
	})
	ids := append(slices.Clone(k.ids), a.ids...)
	a.ids = slices.Clip(ids[:min(a.limit, len(ids))])
}
