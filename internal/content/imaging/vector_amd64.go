package imaging

import "github.com/pairstream/pairstream/internal/base/instructions"

// hasVector and hasWide report whether the processor supports the vector code; tests switch them off to compare.
var (
	hasVector = instructions.HasAVX2
	hasWide   = hasVector && instructions.HasVNNI && instructions.HasVBMI
)

// horizontalVector filters the first pixels of a row, and returns how many: those for which all reads and writes of
// whole words stay within the row.
func (k kernel) horizontalVector(dst, src []byte) int {
	if !hasVector {
		return 0
	}
	const overread = 4 // 4 pixels are read as 16 bytes
	fours := len(k.spread) / (16 * len(k.first))
	n := k.within(len(src), len(k.first)-1, 4*fours, overread)
	if n > 0 {
		filterRow(&dst[0], &src[0], &k.first[0], &k.spread[0], n, 2*fours)
	}
	return n
}

// within returns how many of the first n pixels need no byte beyond those of a row, reading taps pixels and some bytes.
func (k kernel) within(length, n, taps, bytes int) int {
	for n > 0 && 3*(k.first[n-1]+taps)+bytes > length {
		n--
	}
	return max(0, n)
}

// verticalVector filters the first bytes of row y of the result, and returns how many.
func (k kernel) verticalVector(dst, src []byte, y, base int) int {
	n := len(dst) / 32 * 32
	if !hasVector || n == 0 {
		return 0
	}
	filterColumns(&dst[0], &src[(k.first[y]-base)*len(dst)], len(dst), &k.weights[y*k.taps], k.taps, n/32)
	return n
}

// filterRow writes n pixels of dst, each the weighted sum of 2*pairs pixels of src from first on; a pixel's weight is
// there four times. It reads 2 bytes, and writes 1, beyond the last. It needs AVX2.
//
//go:noescape
func filterRow(dst, src *byte, first *int, weights *int32, n, pairs int)

// filterColumns writes 32*blocks bytes of dst, each the weighted sum of the bytes at its place in taps rows that lie
// stride bytes apart. It needs AVX2.
//
//go:noescape
func filterColumns(dst, src *byte, stride int, weights *int32, taps, blocks int)
