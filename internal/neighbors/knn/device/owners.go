package device

import (
	"cmp"
	"math"
	"slices"

	"github.com/pairstream/pairstream/internal/model/torch"
)

// owners tell which members show the same image, and so are no neighbours of one another.
type owners struct {
	owner []int32 // nil: every member has a different image
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

// same lists the members that show member i's image.
func (o *owners) same(i int64) []int32 {
	if o.owner == nil {
		return []int32{int32(i)}
	}
	return o.order[o.from[i]:o.to[i]]
}

// member is a row of a block, and a member that shows its image.
type member struct {
	row  int32
	same int32
}

// few is the average number of members per image in a block up to which they are masked one by one.
const few = 64

// masks lists, for every block of columns, the members that show the image of one of the rows. all reports that there
// are too many to list.
func (o *owners) masks(rows block, columns []block) (out [][]member, all bool) {
	if o.owner != nil {
		total := int64(0)
		for i := rows.from; i < rows.from+rows.n; i++ {
			total += int64(o.to[i] - o.from[i])
		}
		if total > few*rows.n {
			return nil, true
		}
	}
	out = make([][]member, len(columns))
	for i := rows.from; i < rows.from+rows.n; i++ {
		for _, j := range o.same(i) {
			at := int64(j) / columns[0].n
			out[at] = append(out[at], member{int32(i - rows.from), j})
		}
	}
	return out, false
}

// mask overwrites products of members that show the same image with -inf.
func mask(s *torch.Scope, t *tile, members []member) {
	if len(members) == 0 {
		return
	}
	places, width := make([]int64, len(members)), t.width()
	for i, m := range members {
		places[i] = int64(m.row)*width + int64(m.same) - t.columns.from
	}
	s.Reshape(t.products, -1).IndexFill(0, s.Int64s(places, int64(len(places))), math.Inf(-1))
}

// maskAll is mask by comparison of the owners of all rows and columns of a tile.
func (o *owners) maskAll(s *torch.Scope, t *tile) {
	numbers := func(b block, places int64) *torch.Tensor {
		out := make([]int64, places)
		for i := range out {
			out[i] = math.MinInt64 // no owner: the padding of a group is -inf already
			if int64(i) < b.n {
				out[i] = int64(o.owner[b.from+int64(i)])
			}
		}
		return s.Int64s(out, places)
	}
	rows, columns := numbers(t.rows, t.height()), numbers(t.columns, t.width())
	t.products = s.MaskedFill(t.products, s.Eq(s.Unsqueeze(rows, 1), columns), math.Inf(-1))
}
