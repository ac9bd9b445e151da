//go:build !amd64

package imaging

func (k kernel) horizontalVector([]byte, []byte) int { return 0 }

func (k kernel) verticalVector([]byte, []byte, int, int) int { return 0 }

func resampleWide(*Image, view, kernel, kernel) {}

func separateVector(_, _ []byte) int { return 0 }

func (*tables) intoVector([]float32, []byte) int { return 0 }

var hasVector, hasWide = false, false // tests look at them
