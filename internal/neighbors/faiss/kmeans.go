package faiss

/*
#include "faiss.h"
*/
import "C"

import (
	"fmt"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// KMeans runs libfaiss's own k-means over float32 rows, without sampling, as a reference for ours.
func KMeans(x []float32, dim, clusters, iterations, seed int) (centroids []float32, inertia float64, err error) {
	m := knn.FloatMatrix(x, dim)
	if err := m.Check(); err != nil {
		return nil, 0, fmt.Errorf("clustering: %w", err)
	}
	if clusters < 1 || clusters > m.Rows {
		return nil, 0, fmt.Errorf("clustering %d rows: want 1..%d clusters, not %d", m.Rows, m.Rows, clusters)
	}
	centroids = make([]float32, clusters*dim)
	var objective C.double
	text := C.fs_kmeans(C.int64_t(m.Rows), C.int32_t(dim), floats(x), C.int32_t(clusters), C.int32_t(iterations), C.int32_t(seed),
		floats(centroids), &objective)
	if err := check(fmt.Sprintf("clustering %d rows", m.Rows), text); err != nil {
		return nil, 0, err
	}
	return centroids, float64(objective), nil
}
