package dotproduct

import "testing"

// TestWithoutVectors runs the comparisons with the code for processors that lack AVX-512, then AVX2 too.
func TestWithoutVectors(t *testing.T) {
	vector, wide := hasVector, hasWide
	defer func() { hasVector, hasWide = vector, wide }()
	hasWide = false
	t.Run("fixed, no AVX-512", TestFixedProductsAreExact)
	t.Run("no AVX-512", TestBlocksHaveTheBitsOfTheDefinition)
	hasVector = false
	t.Run("fixed, no AVX2", TestFixedProductsAreExact)
	t.Run("no AVX2", TestBlocksHaveTheBitsOfTheDefinition)
	t.Run("no AVX2", TestGatherHasTheBitsOfTheDefinition)
}
