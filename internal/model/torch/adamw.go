package torch

// #include "shim.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// AdamWOptions are the optimiser's constants.
type AdamWOptions struct {
	Beta1, Beta2, Eps, WeightDecay float64
}

// DefaultAdamW holds the constants with which ALBEF, GRIT-VLP and MAFA train.
var DefaultAdamW = AdamWOptions{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.02}

// AdamW is Adam with decoupled weight decay. It borrows the parameters and owns their moments.
type AdamW struct {
	params  []*Tensor
	means   []*Tensor
	squares []*Tensor
	steps   []int64
	decay   []uint8
	options AdamWOptions
}

// AdamWState is the state of an optimiser in a checkpoint. It has, for each parameter in the order given to [NewAdamW],
// the number of its steps and its moments.
type AdamWState struct {
	Steps   []int64
	Means   [][]float32
	Squares [][]float32
}

// NewAdamW makes an optimiser of params; decay marks the parameters with weight decay. Call it inside Do.
func NewAdamW(params []*Tensor, decay []bool, o AdamWOptions) (*AdamW, error) {
	if len(params) != len(decay) {
		return nil, fmt.Errorf("torch: making an optimiser: %d parameters and %d decay flags", len(params), len(decay))
	}
	a := &AdamW{params: params, steps: make([]int64, len(params)), decay: make([]uint8, len(params)), options: o}
	for i, p := range params {
		a.decay[i] = uint8(flag(decay[i]))
		for _, moments := range []*[]*Tensor{&a.means, &a.squares} {
			r := C.ps_unary(C.PS_ZEROS_LIKE, p.h(), 0, 0)
			if err := failure("making an optimiser", r.error); err != nil {
				a.Free()
				return nil, err
			}
			live.Add(1)
			*moments = append(*moments, &Tensor{handle: r.tensor, kept: true})
		}
	}
	return a, nil
}

// Free frees the moments.
func (a *AdamW) Free() {
	for _, t := range append(a.means, a.squares...) {
		t.Free()
	}
}

// Step updates every parameter that has a gradient. Other parameters and their moments stay unchanged.
func (a *AdamW) Step(rate float64) error {
	if len(a.params) == 0 {
		return nil
	}
	params, means, squares := handlesOf(a.params), handlesOf(a.means), handlesOf(a.squares)
	o := C.ps_adamw_options{
		rate: C.double(rate), beta1: C.double(a.options.Beta1), beta2: C.double(a.options.Beta2),
		eps: C.double(a.options.Eps), weight_decay: C.double(a.options.WeightDecay),
	}
	return failure("adamw", C.ps_adamw(&params[0], &means[0], &squares[0], (*C.int64_t)(unsafe.Pointer(&a.steps[0])),
		(*C.uint8_t)(unsafe.Pointer(&a.decay[0])), C.int(len(params)), o))
}

func handlesOf(ts []*Tensor) []*C.ps_tensor {
	handles := make([]*C.ps_tensor, len(ts))
	for i, t := range ts {
		handles[i] = t.h()
	}
	return handles
}

// ZeroGrad clears the gradients of all parameters.
func (a *AdamW) ZeroGrad() error {
	if len(a.params) == 0 {
		return nil
	}
	params := handlesOf(a.params)
	return failure("zero_grad", C.ps_zero_grad(&params[0], C.int(len(params))))
}

// State returns a copy of the optimiser's state.
func (a *AdamW) State() AdamWState {
	state := AdamWState{Steps: append([]int64(nil), a.steps...)}
	for i := range a.params {
		state.Means = append(state.Means, a.means[i].Float32s())
		state.Squares = append(state.Squares, a.squares[i].Float32s())
	}
	return state
}

// SetState restores a state from [AdamW.State] for the same parameters.
func (a *AdamW) SetState(state AdamWState) error {
	n := len(a.params)
	if len(state.Steps) != n || len(state.Means) != n || len(state.Squares) != n {
		return fmt.Errorf("torch: restoring an optimiser: state of %d, %d and %d parameters, want %d",
			len(state.Steps), len(state.Means), len(state.Squares), n)
	}
	for i, p := range a.params {
		want := p.Numel()
		if int64(len(state.Means[i])) != want || int64(len(state.Squares[i])) != want || state.Steps[i] < 0 {
			return fmt.Errorf("torch: restoring an optimiser: parameter %d has %d and %d moments and %d steps, want %d moments",
				i, len(state.Means[i]), len(state.Squares[i]), state.Steps[i], want)
		}
	}
	for i := range a.params {
		a.means[i].SetFloat32s(state.Means[i])
		a.squares[i].SetFloat32s(state.Squares[i])
	}
	copy(a.steps, state.Steps)
	return nil
}
