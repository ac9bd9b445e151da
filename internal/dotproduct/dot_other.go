//go:build !amd64

package dotproduct

func blockVector([]float32, *Matrix, int, int, *Matrix, int, int) (doneA, doneB int) { return 0, 0 }

func gatherVector([]float32, []float32, *Matrix, []int32) int { return 0 }
