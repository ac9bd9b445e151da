package plans

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
)

// Part is a plan in a blend.
type Part struct {
	Dir    string
	Files  []File
	Weight float64
}

// Blend writes mini-batches of several plans into files of one lane. The first plan gives its epochs whole. Behind k of
// its mini-batches there are k x weight / first weight of each other plan, which goes on from epoch to epoch and begins
// again at its end. Mini-batches stay as they are, but for the number of their group, which tells plan and lane.
func Blend(ctx context.Context, dir string, parts []Part) ([]File, error) {
	w := NewWriter(dir, 0, 0, nil)
	if err := blend(ctx, w, parts); err != nil {
		return nil, errors.Join(err, w.Discard())
	}
	return w.Close()
}

func blend(ctx context.Context, w *Writer, parts []Part) error {
	var others []func() (Planned, error, bool)
	for _, p := range parts[1:] {
		next, stop := iter.Pull2(p.forever(ctx))
		defer stop()
		others = append(others, next)
	}
	first, taken := 0, make([]int, len(others))
	for _, epoch := range parts[0].epochs() {
		for b, err := range InOrder(ctx, parts[0].Dir, parts[0].of(epoch)) {
			if err == nil {
				err = w.write(epoch, b.in(0))
			}
			if err != nil {
				return err
			}
			first++
			for i, next := range others {
				for want := int(float64(first) * parts[i+1].Weight / parts[0].Weight); taken[i] < want; taken[i]++ {
					b, err, ok := next()
					if !ok {
						return fmt.Errorf("%s has no mini-batches", parts[i+1].Dir)
					}
					if err == nil {
						err = w.write(epoch, b.in(i+1))
					}
					if err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// epochs returns the epochs of a plan.
func (p Part) epochs() []int32 {
	all := map[int32]bool{}
	for _, f := range p.Files {
		all[f.Epoch] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// of returns the files of an epoch.
func (p Part) of(epoch int32) []File {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f File) bool { return f.Epoch != epoch })
}

// forever yields the mini-batches of all epochs, again and again. It ends for a plan that has none.
func (p Part) forever(ctx context.Context) iter.Seq2[Planned, error] {
	return func(yield func(Planned, error) bool) {
		for found := true; found; {
			found = false
			for _, epoch := range p.epochs() {
				for b, err := range InOrder(ctx, p.Dir, p.of(epoch)) {
					if found = true; !yield(b, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

// in returns the rows of a mini-batch as those of a part of a blend.
func (b Planned) in(part int) []Row {
	for i := range b.Rows {
		b.Rows[i].Group |= int64(part)<<48 | int64(b.Lane)<<32
	}
	return b.Rows
}
