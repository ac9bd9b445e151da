package dotproduct

import "github.com/pairstream/pairstream/internal/base/instructions"

// Available instructions for comparing codes; tests switch them off to compare.
var (
	hasCodes = instructions.HasAVX2
	hasVNNI  = instructions.HasVNNI
)

// codesBias returns 128 for VNNI, which multiplies unsigned by signed numbers.
func codesBias() int32 {
	if hasCodes && hasVNNI {
		return 128
	}
	return 0
}

// lookVector compares an anchor with count panels. It stops at the first with a sum not below least, writes that
// panel's sums and bits to p, and returns the number of panels passed.
func (c *Codes) lookVector(p *CodeProducts, panels *uint32, minus *int32, anchor *uint8, count int, least int32) int {
	if c.bias != 0 {
		return lookVNNI(p, panels, minus, anchor, c.quads, count, least)
	}
	return lookAVX2(p, panels, minus, anchor, c.quads, count, least)
}

// lookVNNI is lookVector for codes with a bias, of quads groups of four, a multiple of four. It needs AVX-512 VNNI.
//
//go:noescape
func lookVNNI(p *CodeProducts, panels *uint32, minus *int32, anchor *uint8, quads, count int, least int32) (passed int)

// lookAVX2 is lookVector for codes without a bias. It needs AVX2.
//
//go:noescape
func lookAVX2(p *CodeProducts, panels *uint32, minus *int32, anchor *uint8, quads, count int, least int32) (passed int)
