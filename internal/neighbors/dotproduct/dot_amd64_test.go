package dotproduct

import "testing"

// way is a set of instructions that this processor has code for.
type way struct {
	name               string
	vector, wide, vnni bool
}

// ways lists those that the processor has, the widest first.
func ways() []way {
	var all []way
	for _, w := range []way{
		{"VNNI", true, true, true},
		{"AVX-512", true, true, false},
		{"AVX2", true, false, false},
		{"portable", false, false, false},
	} {
		if (!w.vector || hasVector) && (!w.wide || hasWide) && (!w.vnni || hasVNNI) {
			all = append(all, w)
		}
	}
	return all
}

// use computes with the set until the test ends.
func (w way) use(t testing.TB) {
	vector, wide, codes, vnni := hasVector, hasWide, hasCodes, hasVNNI
	t.Cleanup(func() { hasVector, hasWide, hasCodes, hasVNNI = vector, wide, codes, vnni })
	hasVector, hasWide, hasCodes, hasVNNI = w.vector, w.wide, w.vector, w.vnni
}
