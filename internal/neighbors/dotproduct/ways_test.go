package dotproduct

import "testing"

// TestEveryWayHasTheBitsOfTheDefinition runs the comparisons with each set of instructions that the processor has.
func TestEveryWayHasTheBitsOfTheDefinition(t *testing.T) {
	for _, way := range ways() {
		t.Run(way.name, func(t *testing.T) {
			way.use(t)
			t.Run("fixed", TestFixedProductsAreExact)
			t.Run("blocks", TestBlocksHaveTheBitsOfTheDefinition)
			t.Run("gathered", TestGatherHasTheBitsOfTheDefinition)
			t.Run("near codes", TestCodesAreNear)
		})
	}
}
