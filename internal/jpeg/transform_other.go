//go:build !amd64

package jpeg

var hasVector = false // tests look at it

func transformVector([]byte, int, *[64]int32) bool { return false }
