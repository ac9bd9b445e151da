package tiled

import (
	"cmp"
	"math"
	"slices"

	"github.com/pairstream/pairstream/internal/torch"
)

// owners know which members show the same image, and so are no neighbours of one another.
type owners struct {
	owner []int32 // nil: everyone has an image of its own
	order []int32 // members by owner, then by position
	from  []int32 // of every member: its owner's members are order[from:to]
	to    []int32
}

func newOwners(owner []int32) *owners {
	o := &owners{owner: owner}
	if owner == nil {
		return o
	}
	n := len(owner)
	o.order, o.from, o.to = make([]int32, n), make([]int32, n), make([]int32, n)
	for i := range o.order {
		o.order[i] = int32(i)
	}
	slices.SortFunc(o.order, func(a, b int32) int { return cmp.Or(cmp.Compare(owner[a], owner[b]), cmp.Compare(a, b)) })
	for from, to := 0, 0; from < n; from = to {
		for to = from; to < n && owner[o.order[to]] == owner[o.order[from]]; to++ {
		}
		for _, i := range o.order[from:to] {
			o.from[i], o.to[i] = int32(from), int32(to)
		}
	}
	return o
}

// same lists the members of b that show member i's image, ascending.
func (o *owners) same(i int64, b block) []int32 {
	if o.owner == nil {
		if i < b.from || i >= b.from+b.n {
			return nil
		}
		return []int32{int32(i)}
	}
	run := o.order[o.from[i]:o.to[i]]
	from, _ := slices.BinarySearch(run, int32(b.from))
	to, _ := slices.BinarySearch(run, int32(b.from+b.n))
	return run[from:to]
}

// mask overwrites the products of members that show the same image by -inf: one by one, as they are few. Where they are
// not, the device compares all owners.
func (o *owners) mask(s *torch.Scope, t *tile) {
	width := t.width()
	var places []int64
	for i := range t.rows.n {
		for _, j := range o.same(t.rows.from+i, t.columns) {
			places = append(places, i*width+int64(j)-t.columns.from)
		}
		if int64(len(places)) > t.rows.n*t.columns.n/16+t.rows.n {
			o.maskAll(s, t)
			return
		}
	}
	if len(places) > 0 {
		s.Reshape(t.products, -1).IndexFill(0, s.Int64s(places, int64(len(places))), math.Inf(-1))
	}
}

func (o *owners) maskAll(s *torch.Scope, t *tile) {
	numbers := func(b block, places int64) *torch.Tensor {
		out := make([]int64, places)
		for i := range out {
			out[i] = math.MinInt64 // no owner: what fills up a group is -inf already
			if int64(i) < b.n {
				out[i] = int64(o.owner[b.from+int64(i)])
			}
		}
		return s.Int64s(out, places)
	}
	rows, columns := numbers(t.rows, t.height()), numbers(t.columns, t.width())
	t.products = s.MaskedFill(t.products, s.Eq(s.Unsqueeze(rows, 1), columns), math.Inf(-1))
}
