package torch

// #include "shim.h"
import "C"

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
