//go:build !amd64

package dotproduct

var hasCodes = false

func lookVector(*CodeProducts, *uint32, *int32, *uint8, int, int, int32) int { panic("no vectors") }
