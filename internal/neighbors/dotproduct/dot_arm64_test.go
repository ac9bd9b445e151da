package dotproduct

import "testing"

// way is a set of instructions that this processor has code for.
type way struct {
	name  string
	codes bool
}

// ways lists those that the processor has, the widest first.
func ways() []way {
	if !hasCodes {
		return []way{{"portable", false}}
	}
	return []way{{"SDOT", true}, {"portable", false}}
}

// use computes with the set until the test ends.
func (w way) use(t testing.TB) {
	codes := hasCodes
	t.Cleanup(func() { hasCodes = codes })
	hasCodes = w.codes
}
