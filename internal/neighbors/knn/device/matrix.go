package device

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// matrix is a matrix on the device, with its origin.
type matrix struct {
	knn.Matrix
	rows *torch.Tensor
	norm float64
}

// upload measures a matrix and copies it to the device, block by block, to avoid a second copy.
func (e *Engine) upload(ctx context.Context, m knn.Matrix, workers int) (_ *matrix, err error) {
	out := &matrix{Matrix: m}
	if out.norm, err = norm(ctx, m, workers); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			out.free()
		}
	}()
	dtype := torch.Float32
	if e.cuda && m.Halves != nil {
		dtype = torch.Float16
	}
	err = e.worker.Do(ctx, func(s *torch.Scope) error {
		out.rows = s.Keep(s.Zeros(dtype, int64(m.Rows), int64(m.Dim)))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("making room for %d x %d values on %s: %w", m.Rows, m.Dim, e.worker.Device(), err)
	}
	for _, b := range blocks(m.Rows, e.o.Columns) {
		err = e.worker.Do(ctx, func(s *torch.Scope) error {
			part := s.Narrow(out.rows, 0, b.from, b.n)
			from, to := int(b.from)*m.Dim, int(b.from+b.n)*m.Dim
			if m.Halves != nil {
				part.SetFloat16s(m.Halves[from:to])
			} else {
				part.SetFloat32s(m.Floats[from:to])
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("copying rows %d.. to %s: %w", b.from, e.worker.Device(), err)
		}
	}
	return out, nil
}

func (m *matrix) free() { m.rows.Free() }

// block returns a block of rows, converted to another type if need be.
func (m *matrix) block(s *torch.Scope, b block, dtype torch.DType) *torch.Tensor {
	part := s.Narrow(m.rows, 0, b.from, b.n)
	if part.DType() != dtype {
		part = s.To(part, dtype)
	}
	return part
}
