//go:build !amd64

package imaging

func (k kernel) horizontalVector(_, _, _, _ []byte) int { return 0 }

func (k kernel) verticalVector([]byte, []byte, int, int) int { return 0 }

var hasVector, hasWide = false, false // tests look at them
