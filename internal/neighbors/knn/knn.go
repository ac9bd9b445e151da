// Package knn states the two problems that the indexer solves over a group, exact neighbours and k-means, so that the
// results are the same for every engine.
//
// The input is matrices of unit rows and parameters; the output is positions. An [Engine] solves the problems. There
// are three: knn/cpu is fast on a processor, knn/device on a GPU, and knn/reference is the plain one for tests.
//
// Guarantees that every engine gives:
//
//  1. The score of two rows is the float64 dot product in the order of summation that [Score] defines. The products are
//     exact. For float16 rows of norm 1 the sums are exact too (multiples of 2^-48 below 2), so the score is the true
//     dot product of the stored vectors, whatever the order.
//  2. Neighbours are ordered by score, descending, then by position, ascending: a total order.
//  3. So results are a function of the matrices and the parameters alone: never of threads, tiles or the processor.
//
// Engines are safe for concurrent use.
package knn

import (
	"context"
	"errors"
	"fmt"

	"github.com/x448/float16"
)

// Matrix is a row-major matrix of float16 bits or of float32 values; exactly one of the two is set.
type Matrix struct {
	Halves []uint16
	Floats []float32
	Rows   int
	Dim    int
}

// HalfMatrix returns the matrix of float16 rows whose bits are in values.
func HalfMatrix(values []uint16, dim int) Matrix {
	return Matrix{Halves: values, Rows: len(values) / max(dim, 1), Dim: dim}
}

// FloatMatrix returns the matrix of float32 rows in values.
func FloatMatrix(values []float32, dim int) Matrix {
	return Matrix{Floats: values, Rows: len(values) / max(dim, 1), Dim: dim}
}

// Check verifies that the values are there.
func (m Matrix) Check() error {
	values := len(m.Halves) + len(m.Floats)
	if m.Dim <= 0 || m.Rows <= 0 || values != m.Rows*m.Dim || (len(m.Halves) > 0 && len(m.Floats) > 0) {
		return fmt.Errorf("matrix of %d x %d with %d float16 and %d float32 values", m.Rows, m.Dim, len(m.Halves), len(m.Floats))
	}
	return nil
}

// Row appends row i to dst as float32.
func (m Matrix) Row(i int, dst []float32) []float32 {
	if m.Floats != nil {
		return append(dst, m.Floats[i*m.Dim:(i+1)*m.Dim]...)
	}
	for _, bits := range m.Halves[i*m.Dim : (i+1)*m.Dim] {
		dst = append(dst, float16.Frombits(bits).Float32())
	}
	return dst
}

// scoreLanes is the number of partial sums of a score: element i goes to partial sum i mod scoreLanes.
const scoreLanes = 16

// Score is the canonical dot product: 16 interleaved float64 partial sums, folded by halves.
func Score(a, b []float32) float64 {
	var s [scoreLanes]float64
	for i := range a {
		s[i%scoreLanes] += float64(a[i]) * float64(b[i])
	}
	for width := scoreLanes / 2; width > 0; width /= 2 {
		for i := range width {
			s[i] += s[i+width]
		}
	}
	return s[0]
}

// Params select the neighbours to find. Positions beyond a group's size are filled with -1.
type Params struct {
	K  int // V2T: the K nearest texts of every image, its own text among them
	K1 int // V2V: the K1 nearest images of every image, without itself and those that share its owner
	K2 int // T2V: an image is a neighbour of a text if fewer than K2 images, the text's own among them, come before it
	// Owner numbers the image of every member: members with the same number show the same image, and would only find
	// each other. Nil: every member has a different image.
	Owner   []int32
	Threads int // 0: as many as there are processors
}

// Check verifies the parameters for a group of n members.
func (p Params) Check(n int) error {
	switch {
	case p.K < 1 || p.K1 < 1 || p.K2 < 1:
		return fmt.Errorf("k %d, k1 %d, k2 %d: want at least 1 each", p.K, p.K1, p.K2)
	case p.K > maxNeighbors || p.K1 > maxNeighbors:
		return fmt.Errorf("k %d, k1 %d: want at most %d each", p.K, p.K1, maxNeighbors)
	case p.Owner != nil && len(p.Owner) != n:
		return fmt.Errorf("%d owners for %d members", len(p.Owner), n)
	}
	return nil
}

// CheckNeighbors verifies the arguments of [Engine.Neighbors].
func CheckNeighbors(v, t Matrix, p Params) error {
	if err := errors.Join(v.Check(), t.Check()); err != nil {
		return err
	}
	if v.Rows != t.Rows || v.Dim != t.Dim {
		return fmt.Errorf("images are %d x %d, texts %d x %d", v.Rows, v.Dim, t.Rows, t.Dim)
	}
	return p.Check(v.Rows)
}

// maxNeighbors bounds candidate lists, which are a few times longer.
const maxNeighbors = 10_000

// Result holds positions, row by row, best first, padded with -1.
type Result struct {
	V2T []int32 // members x K
	V2V []int32 // members x K1
	SE  []int32 // members x K1: V2V_K1(v_i) without images outside T2V_K2(t_i) (GPN-S eq. 9), in V2V's order
}

// KMeansParams configures plain Lloyd iterations by squared L2 distance; centroids are means, not normalised.
type KMeansParams struct {
	Init       []int32 // rows that are the first centroids; their number is the number of clusters
	Iterations int     // rounds of assignment and update; fewer when a round changes nothing
	Threads    int     // 0: as many as there are processors
}

// Check verifies the parameters for n rows.
func (p KMeansParams) Check(n int) error {
	if len(p.Init) == 0 || len(p.Init) > n || p.Iterations < 1 {
		return fmt.Errorf("k-means of %d rows with %d clusters and %d iterations", n, len(p.Init), p.Iterations)
	}
	for _, row := range p.Init {
		if row < 0 || int(row) >= n {
			return fmt.Errorf("k-means starts from row %d of %d", row, n)
		}
	}
	return nil
}

// Clusters is the result of k-means.
type Clusters struct {
	Assign    []int32   // cluster of every row, by the last assignment
	Centroids []float64 // clusters x dim: the means of those members
	Inertia   float64   // sum of the squared distances of rows to the means
	Rounds    int       // rounds made
}

// Engine solves both problems.
type Engine interface {
	Scorer
	// Neighbors finds the neighbours of the pairs whose image and text vectors are the rows of v and t.
	Neighbors(ctx context.Context, v, t Matrix, p Params) (Result, error)
	// KMeans clusters the rows of x.
	KMeans(ctx context.Context, x Matrix, p KMeansParams) (Clusters, error)
	// Assign gives the nearest of the centroids (rows of x's width) to every row of x, ties to the lower one.
	Assign(ctx context.Context, x Matrix, centroids []float32, threads int) ([]int32, error)
}

// Hit is a row found by a search, with its inner product with the query.
type Hit struct {
	Row        int64
	Similarity float32
}

// Searcher answers single queries over growing rows; unlike an Engine, approximately in the last bits.
type Searcher interface {
	// Scan finds the k rows of [from, m.Rows) with the largest inner products, best first.
	Scan(m Matrix, from int, q []float32, k int) ([]Hit, error)
	// NewLists makes empty inverted lists, one per centroid (rows of dim values).
	NewLists(centroids []float32, dim int) (Lists, error)
}

// Lists are inverted lists of rows stored elsewhere. They do not change, so searches may run concurrently until Close.
type Lists interface {
	// Extended returns lists that also hold the rows of m from first on, each in the list of its number.
	Extended(m Matrix, first int, numbers []int32) (Lists, error)
	// Probe finds the lists whose centroids have the largest inner products with the query, best first. If it finds
	// only a part of all lists, a few may be replaced by others that are about as near.
	Probe(q []float32, probes int) ([]int64, error)
	// Search finds the k best rows, best first, of the nearest lists and of [from, m.Rows). A few may be replaced by
	// others that are about as near; the similarities are those of the rows.
	Search(m Matrix, from int, q []float32, k, probes int) ([]Hit, error)
	Close()
}
