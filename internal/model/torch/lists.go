package torch

// #include "shim.h"
import "C"

import "slices"

// A GPU takes a list of tensors in a few kernels. None of these functions records anything for gradients.

// AddAll adds tensor i of from to tensor i of into, in place.
func AddAll(into, from []*Tensor) {
	to, terms := pairsOf("add", into, from)
	if len(to) > 0 {
		check("add", C.ps_add_lists(&to[0], &terms[0], C.int(len(to))))
	}
}

// AverageAll makes tensor i of into share times itself and 1-share times tensor i of from, in place.
func AverageAll(into, from []*Tensor, share float64) {
	to, news := pairsOf("average", into, from)
	if len(to) > 0 {
		check("average", C.ps_average_lists(&to[0], &news[0], C.int(len(to)), C.double(share)))
	}
}

// SetGrads makes scale times tensor i of grads the gradient of parameter i.
func SetGrads(params, grads []*Tensor, scale float64) {
	to, values := pairsOf("set_grads", params, grads)
	if len(to) > 0 {
		check("set_grads", C.ps_set_grads(&to[0], &values[0], C.int(len(to)), C.double(scale)))
	}
}

func pairsOf(op string, a, b []*Tensor) (x, y []*C.ps_tensor) {
	if len(a) != len(b) {
		panic(&Error{Op: op, Reason: "lists of two lengths"})
	}
	return handlesOf(a), handlesOf(b)
}

// ReadAll returns copies of the values of float32 tensors; nil for nil. On a device it reads them in one copy, with one
// wait of the host.
func (s *Scope) ReadAll(ts []*Tensor) [][]float32 {
	all := make([][]float32, len(ts))
	var flat []*Tensor
	for i, t := range ts {
		switch {
		case t == nil:
		case s.worker.options.Device == "cpu":
			all[i] = t.Float32s()
		default:
			flat = append(flat, s.Reshape(t, t.Numel()))
		}
	}
	if len(flat) == 0 {
		return all
	}
	values := s.Cat(0, flat...).Float32s()
	for i, t := range ts {
		if t != nil {
			n := t.Numel()
			all[i], values = values[:n:n], values[n:]
		}
	}
	return all
}

// MakeAll makes float32 tensors from copies of data; nil for nil. On a device they take one copy.
func (s *Scope) MakeAll(data [][]float32, shapes [][]int64) []*Tensor {
	all := make([]*Tensor, len(data))
	var flat *Tensor
	if s.worker.options.Device != "cpu" {
		values := slices.Concat(data...)
		flat = s.Float32s(values, int64(len(values)))
	}
	at := int64(0)
	for i, d := range data {
		switch {
		case d == nil:
		case flat == nil:
			all[i] = s.Float32s(d, shapes[i]...)
		default:
			n := int64(len(d))
			all[i], at = s.Reshape(s.Narrow(flat, 0, at, n), shapes[i]...), at+n
		}
	}
	return all
}
