package trainer

import "strings"

// decays reports whether the weight decay applies to a parameter. It applies to all but those of exactly one dimension and
// those whose name ends in "bias". As in the authors' code, the temperature (no dimension), the class token, the position
// embeddings and all embedding tables decay.
func decays(name string, dims int) bool {
	return dims != 1 && !strings.HasSuffix(name, "bias")
}
