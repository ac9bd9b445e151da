package torch

// #include <stdlib.h>
// #include "shim.h"
import "C"

import "unsafe"

// Script is a TorchScript module. Its file holds a program, which runs: load only files that you trust.
type Script struct {
	handle *C.ps_script
}

// LoadScript loads a TorchScript archive onto the scope's device, ready for inference. The caller frees it.
func (s *Scope) LoadScript(path string) (*Script, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	r := C.ps_script_load(name, s.worker.device)
	if err := failure("loading "+path, r.error); err != nil {
		return nil, err
	}
	live.Add(1)
	return &Script{handle: r.script}, nil
}

// Call runs a method that takes tensors, at least one, and returns one.
func (s *Scope) Call(m *Script, method string, xs ...*Tensor) *Tensor {
	if m.handle == nil {
		panic("torch: a script was used after it was freed")
	}
	name := C.CString(method)
	defer C.free(unsafe.Pointer(name))
	handles := handlesOf(xs)
	return s.own("calling "+method, C.ps_script_call(m.handle, name, &handles[0], C.int(len(handles))))
}

// Free frees the module. Freeing it twice does nothing.
func (m *Script) Free() {
	if m == nil || m.handle == nil {
		return
	}
	C.ps_script_free(m.handle)
	m.handle = nil
	live.Add(-1)
}
