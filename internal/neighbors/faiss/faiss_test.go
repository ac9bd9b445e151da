package faiss_test

import (
	"testing"

	"github.com/pairstream/pairstream/internal/neighbors/faiss"
	"github.com/pairstream/pairstream/internal/testing/must"
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

func TestIVFRefusesBadInput(t *testing.T) {
	if _, err := faiss.NewIVF(make([]float32, 5), 4, 1); err == nil {
		t.Error("a centroid and a bit: no error")
	}
	f := must.Get(faiss.NewIVF([]float32{1, 0, 0, 1}, 2, 1))(t)
	if err := f.Add(2, []float32{1, 0}, []int64{7}); err == nil {
		t.Error("a list that is not there: no error")
	}
	if err := f.Add(0, []float32{1, 0, 1}, []int64{7}); err == nil {
		t.Error("a row and a bit: no error")
	}
	if err := f.Write(t.TempDir()); err == nil {
		t.Error("a folder as a file: no error")
	}
	if _, _, err := faiss.Search(t.TempDir()+"/none", []float32{1, 0}, 2, 1); err == nil {
		t.Error("a file that is not there: no error")
	}
}
