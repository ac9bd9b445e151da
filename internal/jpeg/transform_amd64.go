package jpeg

import "golang.org/x/sys/cpu"

// hasVector says whether the processor runs the vector code; tests switch it off to compare.
var hasVector = cpu.X86.HasAVX2

// transformVector is transform, if the processor can.
func transformVector(dst []byte, stride int, b *[64]int32) bool {
	if !hasVector {
		return false
	}
	_ = dst[7*stride+7]
	transformBlock(&dst[0], stride, b)
	return true
}

// transformBlock is transform. It needs AVX2.
//
//go:noescape
func transformBlock(dst *byte, stride int, b *[64]int32)
