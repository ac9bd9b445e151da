package device

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// KMeans implements [knn.Engine]. It takes 16 bytes per row besides the matrix.
func (e *Engine) KMeans(ctx context.Context, x knn.Matrix, p knn.KMeansParams) (knn.Clusters, error) {
	if err := errors.Join(x.Check(), p.Check(x.Rows)); err != nil {
		return knn.Clusters{}, fmt.Errorf("clustering: %w", err)
	}
	var out knn.Clusters
	err := e.withLloyd(ctx, x, p.Threads, func(l *lloyd) (err error) {
		out, err = knn.Lloyd(ctx, x, p, l)
		return err
	})
	if err != nil {
		return knn.Clusters{}, fmt.Errorf("clustering %d rows on %s: %w", x.Rows, e.worker.Device(), err)
	}
	return out, nil
}

// Assign implements [knn.Engine].
func (e *Engine) Assign(ctx context.Context, x knn.Matrix, centroids []float32, threads int) ([]int32, error) {
	if err := errors.Join(x.Check(), knn.FloatMatrix(centroids, x.Dim).Check()); err != nil {
		return nil, fmt.Errorf("assigning: %w", err)
	}
	assign := make([]int32, x.Rows)
	for i := range assign {
		assign[i] = -1
	}
	err := e.withLloyd(ctx, x, threads, func(l *lloyd) error {
		if err := l.SetCentroids(centroids); err != nil {
			return err
		}
		_, err := l.Assign(ctx, assign)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("assigning %d rows on %s: %w", x.Rows, e.worker.Device(), err)
	}
	return assign, nil
}

// scoresChunk is the number of scores that one task computes.
const scoresChunk = 1024

// Scores implements [knn.Scorer], on the processor.
func (e *Engine) Scores(ctx context.Context, x knn.Matrix, left, right []int32, scores []float64) error {
	if err := knn.CheckScores(x, left, right, scores); err != nil {
		return err
	}
	chunks := blocks(len(scores), scoresChunk)
	return knn.Spread(ctx, knn.Workers(0, len(chunks)), len(chunks), func(_, c int) error {
		a, b := newReader(x), newReader(x)
		var row []float32
		for i := chunks[c].from; i < chunks[c].from+chunks[c].n; i++ {
			if i == chunks[c].from || left[i] != left[i-1] { // Seeds asks for one row's scores with many
				row = a.row(int(left[i]))
			}
			scores[i] = knn.Score(row, b.row(int(right[i])))
		}
		return nil
	})
}

// lloyd is a [knn.Kernel]. The device finds the centroids that may be a row's nearest. The processor computes means and
// distances, which need an order of summation.
type lloyd struct {
	e       *Engine
	x       *matrix
	workers int

	centroids knn.Matrix
	halfNorms []float64 // |c|^2/2
	a         arithmetic
}

var _ knn.Kernel = (*lloyd)(nil)

func (e *Engine) withLloyd(ctx context.Context, x knn.Matrix, workers int, use func(*lloyd) error) error {
	done, err := e.wait(ctx)
	if err != nil {
		return err
	}
	defer done()
	rows, err := e.upload(ctx, x, workers)
	if err != nil {
		return err
	}
	defer rows.free()
	return use(&lloyd{e: e, x: rows, workers: workers})
}

// SetCentroids implements [knn.Kernel].
func (l *lloyd) SetCentroids(centroids []float32) (err error) {
	l.centroids = knn.FloatMatrix(centroids, l.x.Dim)
	l.halfNorms = make([]float64, l.centroids.Rows)
	longest, r := 0.0, newReader(l.centroids)
	for i := range l.halfNorms {
		l.halfNorms[i] = knn.Score(r.row(i), r.row(i)) / 2
		longest = max(longest, math.Sqrt(2*l.halfNorms[i]))
	}
	if l.a, err = l.e.arithmetic(l.x.Dim, false, l.x.norm, longest); err != nil {
		return err
	}
	half := longest * longest / 2
	if !(half <= longestFloat) {
		return fmt.Errorf("a centroid of norm %g, want one whose square is at most %g", longest, 2*longestFloat)
	}
	l.a.norm += half
	l.a.eps += 0x1p-22 * l.a.norm // half the square is rounded, and so is the difference
	return nil
}

// Assign implements [knn.Kernel].
func (l *lloyd) Assign(ctx context.Context, assign []int32) (changed int64, err error) {
	var centroids, halves *torch.Tensor
	defer func() {
		centroids.Free()
		halves.Free()
	}()
	err = l.e.worker.Do(ctx, func(s *torch.Scope) error {
		rounded := make([]float32, len(l.halfNorms))
		for i, h := range l.halfNorms {
			rounded[i] = float32(h)
		}
		centroids = s.Keep(s.Float32s(l.centroids.Floats, int64(l.centroids.Rows), int64(l.x.Dim)))
		halves = s.Keep(s.Float32s(rounded, int64(len(rounded))))
		return nil
	})
	if err != nil {
		return 0, err
	}
	size := max(1, l.e.o.Rows*l.e.o.Columns/4/l.centroids.Rows)
	err = overlapped(ctx, func(ctx context.Context, submit func(job) error) error {
		for _, rows := range blocks(l.x.Rows, size) {
			err := l.e.worker.Do(ctx, func(s *torch.Scope) error {
				f := l.candidates(s, rows, centroids, halves).pull()
				return submit(func(ctx context.Context) error {
					n, err := l.choose(ctx, rows, f, assign[rows.from:rows.from+rows.n])
					changed += n
					return err
				})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return changed, err
}

// candidates finds the centroids whose value is within reach of the row's best one. Lines are counted from the block's
// first row; positions are centroids.
func (l *lloyd) candidates(s *torch.Scope, rows block, centroids, halves *torch.Tensor) hits {
	values := s.Sub(product(s, l.x.block(s, rows, torch.Float32), centroids), halves)
	floors := s.AddScalar(s.Max(values, 1), -l.a.reach())
	found := s.NonZero(s.Ge(values, s.Unsqueeze(floors, 1)))
	line, centroid := s.Select(found, 1, 0), s.Select(found, 1, 1)
	at := s.Add(s.Mul(line, number(s, int64(l.centroids.Rows))), centroid)
	return hits{line, centroid, s.IndexSelect(s.Reshape(values, -1), 0, at)}
}

// choose gives every row its nearest centroid, and returns the number of rows that changed theirs. A single candidate
// needs no score.
func (l *lloyd) choose(ctx context.Context, rows block, f found, assign []int32) (int64, error) {
	order, starts := f.byLine(block{0, rows.n})
	chunks := blocks(len(assign), lineChunk)
	changes := make([]int64, len(chunks))
	err := knn.Spread(ctx, knn.Workers(l.workers, len(chunks)), len(chunks), func(_, c int) error {
		x, centroids := newReader(l.x.Matrix), newReader(l.centroids)
		for line := chunks[c].from; line < chunks[c].from+chunks[c].n; line++ {
			of := order[starts[line]:starts[line+1]]
			if len(of) == 0 {
				return fmt.Errorf("row %d has no nearest centroid on %s", rows.from+line, l.e.worker.Device())
			}
			best := f.places[of[0]]
			if len(of) > 1 {
				row, bestScore := x.row(int(rows.from+line)), math.Inf(-1)
				for _, at := range of { // ascending: the lower centroid of a tie stays
					place := f.places[at]
					score := knn.Score(row, centroids.row(int(place))) - l.halfNorms[place]
					if err := l.a.verify(rows.from+line, place, f.values[at], score); err != nil {
						return err
					}
					if score > bestScore {
						best, bestScore = place, score
					}
				}
			}
			if assign[line] != int32(best) {
				assign[line] = int32(best)
				changes[c]++
			}
		}
		return nil
	})
	total := int64(0)
	for _, n := range changes {
		total += n
	}
	return total, err
}

// meansClusters is the number of clusters that one task averages.
const meansClusters = 4

// Means implements [knn.Kernel].
func (l *lloyd) Means(ctx context.Context, order []int32, from []int64, mean []float64) error {
	chunks := blocks(len(from)-1, meansClusters)
	return knn.Spread(ctx, knn.Workers(l.workers, len(chunks)), len(chunks), func(_, i int) error {
		r := newReader(l.x.Matrix)
		for c := chunks[i].from; c < chunks[i].from+chunks[i].n; c++ {
			sum := mean[int(c)*l.x.Dim : int(c+1)*l.x.Dim]
			clear(sum)
			for _, row := range order[from[c]:from[c+1]] {
				for j, x := range r.row(int(row)) {
					sum[j] += float64(x)
				}
			}
			for j := range sum {
				sum[j] /= float64(from[c+1] - from[c])
			}
		}
		return nil
	})
}

// Distances implements [knn.Kernel].
func (l *lloyd) Distances(ctx context.Context, assign []int32, centres, distances []float64) error {
	chunks := blocks(len(assign), scoresChunk)
	return knn.Spread(ctx, knn.Workers(l.workers, len(chunks)), len(chunks), func(_, i int) error {
		r := newReader(l.x.Matrix)
		for at := chunks[i].from; at < chunks[i].from+chunks[i].n; at++ {
			sum, centre := 0.0, centres[int(assign[at])*l.x.Dim:]
			for j, x := range r.row(int(at)) {
				e := float64(x) - centre[j]
				e *= e // a separate statement: no fused multiply-add
				sum += e
			}
			distances[at] = sum
		}
		return nil
	})
}
