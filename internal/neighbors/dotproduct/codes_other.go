//go:build !amd64 && !arm64

package dotproduct

var hasCodes = false

func codesBias() int32 { return 0 }

func (c *Codes) lookVector(*CodeProducts, *uint32, *int32, *uint8, int, int32) int {
	panic("no vectors")
}
