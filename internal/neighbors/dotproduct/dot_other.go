//go:build !amd64

package dotproduct

func blockVector([]float32, *Matrix, int, int, *Matrix, int, int) (doneA, doneB int) { return 0, 0 }

func gatherVector([]float32, []float32, *Matrix, []int32) int { return 0 }

func multiplyVector(*Products, []int16, []int16, int, *[BlockRows]int32, *[BlockColumns]int32) bool {
	return false
}

func gatherFixedVector([]int32, []int16, *Fixed, []int32) int { return 0 }
