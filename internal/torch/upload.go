package torch

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Upload is data on its way to a worker's device. Where the device is not the CPU it travels from pinned memory, while
// the device computes something else, and what [Scope.Receive] gives waits for it there, not here. Its owner hands it to
// Receive or gives it back with Free.
type Upload struct {
	handle *C.ps_upload
}

// Upload starts to copy data to the worker's device. It may be called on any goroutine, and before the worker is free; data
// is the caller's again when it returns.
func (w *Worker) Upload(data []float32, shape ...int64) (*Upload, error) {
	n, err := elements(shape)
	if err == nil && n != int64(len(data)) {
		err = fmt.Errorf("%d values for shape %v", len(data), shape)
	}
	if err != nil {
		return nil, &Error{Op: "uploading a tensor", Reason: err.Error()}
	}
	var first unsafe.Pointer
	if len(data) > 0 {
		first = unsafe.Pointer(&data[0])
	}
	device := C.CString(w.options.Device) // the worker's own is gone once it is closed
	defer C.free(unsafe.Pointer(device))
	dims, rank := dimsOf(shape)
	r := C.ps_upload_start(first, C.int(Float32), dims, rank, device)
	if err := failure("uploading a tensor", r.error); err != nil {
		return nil, err
	}
	live.Add(1)
	return &Upload{handle: r.upload}, nil
}

// Receive makes the tensor that u has become; u is used up.
func (s *Scope) Receive(u *Upload) *Tensor {
	if u.handle == nil {
		panic("torch: an upload was received twice, or after it was freed")
	}
	handle := u.handle
	u.handle = nil
	live.Add(-1)
	return s.own("receiving a tensor", C.ps_upload_receive(handle))
}

// Free gives back an upload that nobody received. Afterwards, and for a nil upload, it does nothing.
func (u *Upload) Free() {
	if u == nil || u.handle == nil {
		return
	}
	C.ps_upload_free(u.handle)
	u.handle = nil
	live.Add(-1)
}
