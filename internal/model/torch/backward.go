package torch

// #include "shim.h"
import "C"

import (
	"fmt"
	"runtime/cgo"
)

// pass is a backward pass that reports its gradients.
type pass struct {
	final func(run int)
	told  int // runs
	bug   any // a panic of final, which must not pass through libtorch
}

// BackwardRuns is [Scope.Backward] for parameters in runs. It calls final for every run, in order, as soon as the
// gradients of this run and of the runs before are final. Meanwhile it computes the others. final may use s.
func (s *Scope) BackwardRuns(loss *Tensor, runs [][]*Tensor, final func(run int)) {
	var params []*C.ps_tensor
	var of []C.int
	for i, run := range runs {
		for _, p := range run {
			params, of = append(params, p.h()), append(of, C.int(i))
		}
	}
	if len(params) == 0 {
		panic(&Error{Op: "backward", Reason: "no parameters"})
	}
	p := &pass{final: final}
	handle := cgo.NewHandle(p)
	defer handle.Delete()
	failed := C.ps_backward_runs(loss.h(), &params[0], &of[0], C.int(len(params)), C.int(len(runs)), C.uintptr_t(handle))
	if p.bug != nil {
		if failed != nil {
			_ = failure("backward", failed) // frees it
		}
		panic(p.bug)
	}
	check("backward", failed)
	if p.told != len(runs) {
		panic(&Error{Op: "backward", Reason: fmt.Sprintf("%d of %d runs of gradients came", p.told, len(runs))})
	}
}

//export pairstreamRunIsFinal
func pairstreamRunIsFinal(handle C.uintptr_t, run C.int) {
	p := cgo.Handle(handle).Value().(*pass)
	if p.bug != nil {
		return
	}
	defer func() { p.bug = recover() }()
	p.told++
	p.final(int(run))
}
