// Package device finds exact neighbours and clusters by tiles of matrix products on a device: a GPU, or the processor
// through libtorch.
//
// Matrices of rows and parameters go in; the positions that internal/neighbors/knn defines come out. The device's
// products are fast and rounded. They lead to exact results as follows:
//
//   - The vectors are copied to the device once. It multiplies a tile, rows of one matrix by rows of another. It keeps
//     the position and the value of every product that can still matter. Nothing of size members x members exists.
//   - A product's value is within a bound eps of the score (see bound.go). If k products have values of at least A,
//     their scores are at least A-eps. So every product of the best k has a value of at least A-2eps. A is the k-th
//     largest of maxima over disjoint groups of products, which are cheap to find.
//   - The rest, a few more than k products a row, goes to the processor, and [knn.Score] decides. There is no limit on
//     the rest: thousands of ties only take time.
//   - An image is in a text's T2V_k2 if few enough scores are larger. So V T^T serves V2T by rows and these counts by
//     columns. The device counts values outside thr +- eps; the processor scores those within.
//   - k-means finds each row's nearest centroid in the same way, and averages on the processor, in knn.Lloyd's order.
//
// Guarantees:
//
//  1. The engine returns the same as package reference, for any device, tiles and threads.
//  2. Every product that is re-scored is also compared with its score. If a device is less exact than the bound, the
//     computation ends with an error instead of a wrong result.
//  3. Memory on the device is the vectors (2 bytes a value on a GPU, 4 on the processor), 16*k1 bytes a member, and a
//     few tiles. The tensors are freed when a call returns.
//
// An Engine is safe for concurrent use. Calls run one at a time, so that the device holds one group at a time. A call
// occupies the worker for one tile at a time, so that others get their turn. The engine refuses rows with a value that
// is not finite, or norms so large that products overflow.
package device

import (
	"context"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// Options are the sizes of a tile, which change no result. Zero selects a size that suits the device.
type Options struct {
	Rows, Columns int
}

// Engine computes on the device of a worker.
type Engine struct {
	worker *torch.Worker
	o      Options
	cuda   bool
	turn   chan struct{} // held by the call that has its vectors on the device
	// halves makes the processor round products to float16, as a GPU does, so that tests cover the wider bound.
	halves bool
}

var _ knn.Engine = (*Engine)(nil)

// New makes an engine on a worker, which the caller closes.
func New(worker *torch.Worker, o Options) *Engine {
	e := &Engine{worker: worker, o: o, turn: make(chan struct{}, 1), cuda: strings.HasPrefix(worker.Device(), "cuda")}
	rows, columns := 1024, 4096 // 16 MiB of products, which libtorch's allocator keeps for the next tile
	if e.cuda {
		rows, columns = 1<<14, 1<<16 // 2 GiB in float16: starting a kernel costs little in comparison
	}
	if e.o.Rows <= 0 {
		e.o.Rows = rows
	}
	if e.o.Columns <= 0 {
		e.o.Columns = columns
	}
	return e
}

// wait waits until no other call has its vectors on the device; done lets the next one in.
func (e *Engine) wait(ctx context.Context) (done func(), err error) {
	select {
	case e.turn <- struct{}{}:
		return func() { <-e.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// limit returns the number of positions and values gathered on the device at a time.
func (e *Engine) limit() int64 {
	return int64(max(e.o.Rows*e.o.Columns/16, e.o.Columns))
}

// block is rows [from, from+n) of a matrix.
type block struct{ from, n int64 }

// blocks cuts rows into blocks of a size.
func blocks(rows, size int) []block {
	var out []block
	for from := 0; from < rows; from += size {
		out = append(out, block{int64(from), int64(min(size, rows-from))})
	}
	return out
}

// job is work for the processor that the device has prepared.
type job func(context.Context) error

// overlapped runs the jobs that produce submits, one at a time, while produce continues. The processor scores the hits
// of one tile while the device works on the next.
func overlapped(ctx context.Context, produce func(ctx context.Context, submit func(job) error) error) error {
	group, ctx := errgroup.WithContext(ctx)
	jobs := make(chan job, 2)
	group.Go(func() error {
		for j := range jobs {
			if err := j(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		defer close(jobs)
		return produce(ctx, func(j job) error {
			select {
			case jobs <- j:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	return group.Wait()
}
