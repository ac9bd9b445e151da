package device

import (
	"context"
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// Products above longestHalf are not multiplied in float16, whose largest value is 65,504. Products above longestFloat
// are not multiplied at all: the largest float32 is 3.4e38, and a tile must stay far below it.
const (
	longestHalf  = 1 << 14
	longestFloat = 1e30
)

// norm returns the norm of the longest row of a matrix.
func norm(ctx context.Context, m knn.Matrix, workers int) (float64, error) {
	const step = 1024
	parts := blocks(m.Rows, step)
	longest := make([]float64, len(parts))
	err := knn.Spread(ctx, knn.Workers(workers, len(parts)), len(parts), func(_, i int) error {
		r := newReader(m)
		for at := parts[i].from; at < parts[i].from+parts[i].n; at++ {
			row := r.row(int(at))
			square := knn.Score(row, row)
			if math.IsNaN(square) || math.IsInf(square, 0) {
				return fmt.Errorf("row %d has values that are not finite", at)
			}
			longest[i] = max(longest[i], math.Sqrt(square))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	out := 0.0
	for _, n := range longest {
		out = max(out, n)
	}
	return out, nil
}

// arithmetic describes the computation of products, and the maximum distance of a value from the score.
type arithmetic struct {
	dtype torch.DType // of the factors and the products
	round bool        // on the processor: compute in float32 and round to float16
	norm  float64     // no score is larger
	eps   float64
}

// arithmetic chooses the computation for the products of rows with these norms.
//
// Let d be their length, n = |x||y|, u = 2^-24 and g = d u / (1 - d u). Float32 sums of products, in any order and
// fused or not, are within g sum|x_i y_i| <= g n of the exact sum. (See Higham, Accuracy and Stability of Numerical
// Algorithms, section 3.1, and Cauchy-Schwarz.) A GPU adds several products at once and truncates the sum, which is at
// most four times as much. Two more errors add to that:
//
//   - float16 rows are multiplied as they are, and the sum is rounded to float16: (1+4g) n 2^-11, and 2^-25 where the
//     result is subnormal.
//   - float32 rows may be cut to ten bits first (TF32, which is a setting of the whole process): (2 2^-10 + 2^-20) n.
//
// Products that vanish as subnormals lose d 2^-126: 1e-30 covers that.
func (e *Engine) arithmetic(dim int, halves bool, x, y float64) (arithmetic, error) {
	n := x * y
	if !(n <= longestFloat) {
		return arithmetic{}, fmt.Errorf("rows of norms %g and %g, want a product of at most %g", x, y, longestFloat)
	}
	du := float64(dim) * 0x1p-24
	if du > 0.1 {
		return arithmetic{}, fmt.Errorf("rows of %d values: float32 sums would mean nothing", dim)
	}
	sum := du / (1 - du)
	a := arithmetic{dtype: torch.Float32, norm: n, eps: sum * n}
	halves = halves && n <= longestHalf
	if e.cuda {
		sum *= 4
		a.eps = (sum + 0x1p-9 + 0x1p-20) * n
		if halves {
			a.dtype = torch.Float16
		}
	}
	if a.round = e.halves && halves && !e.cuda; a.round || a.dtype == torch.Float16 {
		a.eps = sum*n + (1+sum)*n*0x1p-11 + 0x1p-25
	}
	a.eps = a.eps*(1+1e-9) + 1e-30
	return a, nil
}

// reach returns the distance below the k-th best value at which products can still matter. It is 2 eps, and the
// device's rounding in the subtraction.
func (a arithmetic) reach() float64 { return 2*a.eps + 0x1p-22*a.norm }

// below and above return the float32 values next to x, or x itself.
func below(x float64) float32 { return -above(-x) }

func above(x float64) float32 {
	f := float32(x)
	if float64(f) < x {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return f
}

// verify compares a value with its score.
func (a arithmetic) verify(left, right int64, value float32, score float64) error {
	if d := math.Abs(float64(value) - score); !(d <= a.eps) {
		return fmt.Errorf("the product of rows %d and %d is %g from their score %g, want at most %g: the device is less exact than assumed",
			left, right, d, score, a.eps)
	}
	return nil
}
