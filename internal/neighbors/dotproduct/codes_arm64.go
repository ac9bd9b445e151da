package dotproduct

import "github.com/pairstream/pairstream/internal/base/instructions"

// hasCodes reports whether vector instructions compare codes; tests switch it off to compare.
var hasCodes = instructions.HasDotProduct

// codesBias returns 0: SDOT multiplies two signed numbers.
func codesBias() int32 { return 0 }

// lookVector compares an anchor with count panels. It stops at the first with a sum not below least, writes that
// panel's sums and bits to p, and returns the number of panels passed.
func (c *Codes) lookVector(p *CodeProducts, panels *uint32, minus *int32, anchor *uint8, count int, least int32) int {
	passed := lookSDOT(p, panels, minus, anchor, c.quads, count, least)
	if passed < count {
		for j, v := range p.Values {
			if v >= least {
				p.Reach |= 1 << j
			}
		}
	}
	return passed
}

// lookSDOT compares codes of quads groups of four, a multiple of four, and writes the sums of the panel where it stops to p.
//
//go:noescape
func lookSDOT(p *CodeProducts, panels *uint32, minus *int32, anchor *uint8, quads, count int, least int32) (passed int)
