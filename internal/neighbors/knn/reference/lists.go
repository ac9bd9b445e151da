package reference

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// Scan implements [knn.Searcher].
func (Engine) Scan(m knn.Matrix, from int, q []float32, k int) ([]knn.Hit, error) {
	rows := make([]int64, 0, m.Rows)
	for i := from; i < m.Rows; i++ {
		rows = append(rows, int64(i))
	}
	return bestOf(m, rows, q, k)
}

func bestOf(m knn.Matrix, rows []int64, q []float32, k int) ([]knn.Hit, error) {
	if len(q) != m.Dim {
		return nil, fmt.Errorf("query of %d values for rows of %d", len(q), m.Dim)
	}
	hits := make([]knn.Hit, len(rows))
	for i, row := range rows {
		hits[i] = knn.Hit{Row: row, Similarity: float32(knn.Score(m.Row(int(row), nil), q))}
	}
	slices.SortFunc(hits, func(a, b knn.Hit) int {
		return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(a.Row, b.Row))
	})
	return hits[:min(k, len(hits))], nil
}

// NewLists implements [knn.Searcher].
func (Engine) NewLists(centroids []float32, dim int) (knn.Lists, error) {
	m := knn.FloatMatrix(centroids, dim)
	if err := m.Check(); err != nil {
		return nil, err
	}
	return &plainLists{centroids: m, lists: make([][]int64, m.Rows)}, nil
}

type plainLists struct {
	centroids knn.Matrix
	lists     [][]int64
}

// Extended implements [knn.Lists].
func (l *plainLists) Extended(_ knn.Matrix, first int, numbers []int32) (knn.Lists, error) {
	longer := &plainLists{centroids: l.centroids}
	for _, rows := range l.lists {
		longer.lists = append(longer.lists, slices.Clone(rows))
	}
	for i, list := range numbers {
		if list < 0 || int(list) >= len(l.lists) {
			return nil, fmt.Errorf("there is no list %d", list)
		}
		longer.lists[list] = append(longer.lists[list], int64(first+i))
	}
	return longer, nil
}

// Probe implements [knn.Lists].
func (l *plainLists) Probe(q []float32, probes int) ([]int64, error) {
	all := make([]int64, len(l.lists))
	for i := range all {
		all[i] = int64(i)
	}
	hits, err := bestOf(l.centroids, all, q, probes)
	if err != nil {
		return nil, err
	}
	order := make([]int64, len(hits))
	for i, h := range hits {
		order[i] = h.Row
	}
	return order, nil
}

// Search implements [knn.Lists].
func (l *plainLists) Search(m knn.Matrix, from int, q []float32, k, probes int) ([]knn.Hit, error) {
	near, err := l.Probe(q, probes)
	if err != nil {
		return nil, err
	}
	var rows []int64
	for _, list := range near {
		rows = append(rows, l.lists[list]...)
	}
	for i := from; i < m.Rows; i++ {
		rows = append(rows, int64(i))
	}
	return bestOf(m, rows, q, k)
}

// Close implements [knn.Lists].
func (l *plainLists) Close() {}
