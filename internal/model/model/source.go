package model

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// initial names the distribution of a tensor's first values.
type initial int

const (
	zeros     initial = iota
	ones              // of a layer normalisation's weight
	normal            // deviation 0.02: BERT's matrices
	truncated         // deviation 0.02, cut at two deviations: the vision transformer's matrices
	fanIn             // uniform within 1/sqrt(inputs): PyTorch's linear layers and convolutions
	warmth            // 0.07, ALBEF's temperature
	odds              // -10, SigLIP's bias: about one positive in e^10 candidates
)

const (
	deviation          = 0.02
	initialTemperature = 0.07
	initialBias        = -10
)

// source provides a network's tensors while the network is built, one call for each. So names, shapes and initial
// values are in one place, the constructors of the layers.
type source struct {
	values   func(name string, shape []int64, first initial) (safetensors.Tensor, error)
	scope    *torch.Scope
	dtype    torch.DType
	train    bool // whether the tensors take gradients
	frozen   bool // whether they never change
	params   []Param
	problems []error
}

// weight returns the weight of a linear layer, [out, in], and the form for its products. The form of a frozen layer is
// made once: in bfloat16 if the worker multiplies that. Otherwise oneDNN gets it by columns, which makes products of
// few rows up to 1.7 times as fast. With MKL the bits would then depend on the input rows' position in memory.
func (src *source) weight(name string, first initial, out, in int) (w, factor *torch.Tensor) {
	narrow := src.scope.Precision() == torch.BFloat16
	w = src.add(name, first, src.frozen && !narrow && src.scope.Multiplier() == "oneDNN", out, in)
	if w == nil || !src.frozen || !narrow || w.DType() != torch.Float32 {
		return w, w
	}
	factor = src.scope.Keep(src.scope.To(w, torch.BFloat16))
	src.params[len(src.params)-1].factor = factor
	return w, factor
}

// tensor returns the tensor of the given name. After a problem it returns nil; the caller looks at err before it uses
// any.
func (src *source) tensor(name string, first initial, shape ...int) *torch.Tensor {
	return src.add(name, first, false, shape...)
}

func (src *source) add(name string, first initial, byColumns bool, shape ...int) *torch.Tensor {
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
	}
	values, err := src.values(name, dims, first)
	if err == nil {
		err = finite(values)
	}
	if err != nil {
		src.problems = append(src.problems, fmt.Errorf("tensor %s %w", name, err))
		return nil
	}
	if len(src.problems) > 0 {
		return nil
	}
	t, err := src.make(values, dims)
	if err == nil && byColumns {
		t = src.scope.Transpose(src.scope.Contiguous(src.scope.Transpose(t, 0, 1)), 0, 1)
	}
	if err != nil {
		src.problems = append(src.problems, fmt.Errorf("tensor %s %w", name, err))
		return nil
	}
	t.SetRequiresGrad(src.train)
	src.params = append(src.params, Param{Name: name, Tensor: src.scope.Keep(t)})
	return t
}

func (src *source) make(values safetensors.Tensor, shape []int64) (*torch.Tensor, error) {
	if src.dtype == torch.Float64 {
		v, err := values.Float64s()
		if err != nil {
			return nil, err
		}
		return src.scope.Float64s(v, shape...), nil
	}
	v, err := values.Float32s()
	if err != nil {
		return nil, err
	}
	return src.scope.Float32s(v, shape...), nil
}

// err returns the first problem and the number of others. A file of another model has a problem with every tensor.
func (src *source) err() error {
	switch n := len(src.problems); n {
	case 0:
		return nil
	case 1:
		return src.problems[0]
	default:
		return fmt.Errorf("%w (and %d more like this)", src.problems[0], n-1)
	}
}

func finite(t safetensors.Tensor) error {
	values, err := t.Float32s()
	if err != nil {
		return err
	}
	for i, v := range values {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("has %v as value %d", v, i)
		}
	}
	return nil
}

// fromFile returns a function that reads values from a weights file. rename gives the possible names in the file. side
// is the number of patches to which position embeddings are resized; 0: they are not resized.
func fromFile(f *safetensors.File, rename func(string) []string, side int) func(string, []int64, initial) (safetensors.Tensor, error) {
	return func(name string, shape []int64, _ initial) (safetensors.Tensor, error) {
		for _, candidate := range rename(name) {
			t, ok := f.Tensor(candidate)
			if !ok {
				continue
			}
			if name == positionsName && side != 0 {
				var err error
				if t, err = resizePositions(t, side); err != nil {
					return t, err
				}
			}
			if got, want := shapeString(t.Shape), shapeString(shape); got != want {
				return safetensors.Tensor{}, fmt.Errorf("has shape %s, want %s", got, want)
			}
			return t, nil
		}
		return safetensors.Tensor{}, errors.New("is missing")
	}
}

func shapeString(shape []int64) string {
	if len(shape) == 0 {
		return "scalar"
	}
	var parts []string
	for _, d := range shape {
		parts = append(parts, strconv.FormatInt(d, 10))
	}
	return strings.Join(parts, "x")
}

// fromSeed returns a function that draws values (invariant 1 of the package).
func fromSeed(seed uint64) func(string, []int64, initial) (safetensors.Tensor, error) {
	return func(name string, shape []int64, first initial) (safetensors.Tensor, error) {
		n, inputs := int64(1), int64(1)
		for i, d := range shape {
			n *= d
			if i > 0 {
				inputs *= d
			}
		}
		values := make([]float32, n)
		draw(values, rng.New(seed, "initial weights of "+name), first, float64(inputs))
		return safetensors.FromFloat32s(values, shape...), nil
	}
}

func draw(values []float32, r *rand.Rand, first initial, inputs float64) {
	bound := 1 / math.Sqrt(inputs)
	for i := range values {
		switch first {
		case zeros:
		case ones:
			values[i] = 1
		case normal:
			values[i] = float32(deviation * r.NormFloat64())
		case truncated:
			v := r.NormFloat64()
			for math.Abs(v) > 2 {
				v = r.NormFloat64()
			}
			values[i] = float32(deviation * v)
		case fanIn:
			values[i] = float32(bound * (2*r.Float64() - 1))
		case warmth:
			values[i] = initialTemperature
		case odds:
			values[i] = initialBias
		}
	}
}
