package faiss_test

import (
	"testing"

	"github.com/pairstream/pairstream/internal/faiss"
)

// What the package computes is tested in knn/cpu, which brings the kernel that compares rows.

func TestKMeansRefusesBadInput(t *testing.T) {
	if _, _, err := faiss.KMeans(make([]float32, 40), 4, 11, 1, 1); err == nil {
		t.Error("more clusters than rows: no error")
	}
	if _, _, err := faiss.KMeans(make([]float32, 41), 4, 2, 1, 1); err == nil {
		t.Error("a row and a bit: no error")
	}
}
