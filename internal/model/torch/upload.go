package torch

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Upload is data in transit to a worker's device. For a device other than the CPU it is copied from pinned memory while
// the device computes something else. The tensor of [Scope.Receive] then waits for it on the device, not in Go. Its
// owner passes it to Receive or frees it with Free.
type Upload struct {
	handle *C.ps_upload
	normal []C.float // see ps_upload_receive; nil: Receive does not normalise
}

// Normalization converts the bytes of an image to float32: (v/255 - Mean) / Std, by channel, each operation rounded.
type Normalization struct{ Mean, Std [3]float32 }

// Upload starts to copy data to the worker's device. It may be called on any goroutine, even while the worker is busy.
// The caller may change data when it returns.
func (w *Worker) Upload(data []float32, shape ...int64) (*Upload, error) {
	return upload(w, data, Float32, shape)
}

// UploadImages starts to copy n images to the worker's device, as [Worker.Upload] does. pixels are the bytes of three channels
// of side x side each, one after the other. They travel as bytes. [Scope.Receive] makes a Float32 tensor [n, 3, side, side] of
// them there, normalised, with the same bits on every device.
func (w *Worker) UploadImages(pixels []byte, n, side int, by Normalization) (*Upload, error) {
	u, err := upload(w, pixels, Uint8, []int64{int64(n), 3, int64(side), int64(side)})
	if err != nil {
		return nil, err
	}
	for _, values := range [][3]float32{{255, 255, 255}, by.Mean, by.Std} {
		for _, v := range values {
			u.normal = append(u.normal, C.float(v))
		}
	}
	return u, nil
}

func upload[T float32 | byte](w *Worker, data []T, dtype DType, shape []int64) (*Upload, error) {
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
	device := C.CString(w.options.Device) // the worker's own copy is gone once the worker is closed
	defer C.free(unsafe.Pointer(device))
	dims, rank := dimsOf(shape)
	r := C.ps_upload_start(first, C.int(dtype), dims, rank, device)
	if err := failure("uploading a tensor", r.error); err != nil {
		return nil, err
	}
	live.Add(1)
	return &Upload{handle: r.upload}, nil
}

// Receive returns the uploaded tensor, and uses u up.
func (s *Scope) Receive(u *Upload) *Tensor {
	if u.handle == nil {
		panic("torch: an upload was received twice, or after it was freed")
	}
	handle := u.handle
	u.handle = nil
	live.Add(-1)
	return s.own("receiving a tensor", C.ps_upload_receive(handle, unsafe.SliceData(u.normal)))
}

// Free frees an upload that was not received. Afterwards, and for a nil upload, it does nothing.
func (u *Upload) Free() {
	if u == nil || u.handle == nil {
		return
	}
	C.ps_upload_free(u.handle)
	u.handle = nil
	live.Add(-1)
}
