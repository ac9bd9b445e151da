package plans

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"

	"github.com/pairstream/pairstream/internal/crawl/table"
)

// Batches yields the rows of each mini-batch of a file, in its order. It ends with the first error.
func Batches(ctx context.Context, path string) iter.Seq2[[]Row, error] {
	return func(yield func([]Row, error) bool) {
		stopped := errors.New("stopped")
		var rows []Row
		err := table.Records(ctx, path, func(r Row) error {
			if r.Sample == 0 && len(rows) > 0 {
				if err := checkLinks(rows); err != nil {
					return err
				}
				if !yield(rows, nil) {
					return stopped
				}
				rows = nil
			}
			if int(r.Sample) != len(rows) {
				return fmt.Errorf("sample %d comes after %d samples of mini-batch %d of group %d", r.Sample, len(rows), r.Batch, r.Group)
			}
			rows = append(rows, r)
			return nil
		})
		if err == nil {
			err = checkLinks(rows)
		}
		switch {
		case errors.Is(err, stopped):
		case err != nil:
			yield(nil, fmt.Errorf("reading %s: %w", path, err))
		case len(rows) > 0:
			yield(rows, nil)
		}
	}
}

// checkLinks refuses a mini-batch that refers to samples that it does not have.
func checkLinks(rows []Row) error {
	for _, r := range rows {
		if len(r.I2T) != len(r.ProbI2T) || len(r.T2I) != len(r.ProbT2I) {
			return fmt.Errorf("sample %d of mini-batch %d of group %d has other numbers of candidates and of probabilities", r.Sample, r.Batch, r.Group)
		}
		for _, link := range slices.Concat(r.Partners, r.I2T, r.T2I) {
			if link < -1 || int(link) >= len(rows) {
				return fmt.Errorf("sample %d of mini-batch %d of group %d refers to sample %d of %d", r.Sample, r.Batch, r.Group, link, len(rows))
			}
		}
	}
	return nil
}

// Planned is a mini-batch of a plan.
type Planned struct {
	Lane int32
	Rows []Row
}

// InOrder yields the mini-batches of an epoch in the order of training: its files, one for each lane, take turns.
func InOrder(ctx context.Context, dir string, files []File) iter.Seq2[Planned, error] {
	return func(yield func(Planned, error) bool) {
		type source struct {
			lane int32
			next func() ([]Row, error, bool)
		}
		var lanes []source
		for _, f := range files {
			next, stop := iter.Pull2(Batches(ctx, filepath.Join(dir, f.Name)))
			defer stop()
			lanes = append(lanes, source{f.Lane, next})
		}
		for len(lanes) > 0 {
			left := lanes[:0]
			for _, l := range lanes {
				rows, err, ok := l.next()
				if !ok {
					continue
				}
				if !yield(Planned{l.lane, rows}, err) || err != nil {
					return
				}
				left = append(left, l)
			}
			lanes = left
		}
	}
}
