package cpu

/*
#include "cpu.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

var _ knn.CodeScanner = Engine{}

// ScanCodes implements [knn.CodeScanner].
func (Engine) ScanCodes(c knn.Codes, queries []int16, least []float32, hits []knn.CodeHit) ([]knn.CodeHit, error) {
	if err := c.CheckScan(queries, least); err != nil {
		return nil, err
	}
	room := c.Rows() * len(least)
	if room == 0 {
		return hits[:0], nil
	}
	if cap(hits) < room {
		hits = make([]knn.CodeHit, room)
	}
	hits = hits[:room]
	var pin runtime.Pinner
	defer pin.Unpin()
	values, scales := unsafe.SliceData(c.Values), unsafe.SliceData(c.Scales)
	pin.Pin(values)
	pin.Pin(scales)
	rows := C.ps_codes{values: (*C.int8_t)(values), scales: (*C.float)(scales), n: C.int64_t(c.Rows()), d: C.int32_t(c.Dim)}
	var found C.int64_t
	err := check("scanning codes", C.ps_scan_codes(rows, C.int32_t(len(least)), (*C.int16_t)(unsafe.SliceData(queries)), floats(least),
		(*C.ps_code_hit)(unsafe.Pointer(unsafe.SliceData(hits))), &found))
	if err != nil {
		return nil, err
	}
	return hits[:found], nil
}
