package indexer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/schemas"
)

// Archive searches the segments of closed groups. It needs no lane: any number of processes may open the same segments.
//
// Scores are those of 8-bit codes. A search visits a part of the lists, unless it is to be exact (package segment).
// Vectors of different encoders cannot be compared, so a search looks only at segments of one model.
//
// An Archive may be searched and changed by any number of goroutines.
type Archive struct {
	scanner knn.CodeScanner
	gone    func(schemas.PairID) bool // pairs that no search finds

	searching sync.RWMutex // held by every search: a segment is given up when none may see it

	mu       sync.RWMutex
	segments []*segment.Segment // by number of the group, then by lane
	cut      []*segment.Segment // that no search finds, as their files were cut
	indexes  map[string]*segment.Index
}

// NewArchive makes an empty archive. Searches pass over the pairs that gone names.
func NewArchive(scanner knn.CodeScanner, gone func(schemas.PairID) bool) *Archive {
	return &Archive{scanner: scanner, gone: gone, indexes: make(map[string]*segment.Index)}
}

var (
	_ Searcher = (*Archive)(nil)
	_ Searcher = (*Live)(nil)
)

// Add lets searches find a segment, which is the archive's from now on.
func (a *Archive) Add(s *segment.Segment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.segments = append(slices.Clone(a.segments), s) // searches may still read the old list
	slices.SortStableFunc(a.segments, func(a, b *segment.Segment) int {
		return cmp.Or(cmp.Compare(a.Group.Seq, b.Group.Seq), cmp.Compare(a.Group.Lane, b.Group.Lane))
	})
	a.index(s.Model)
}

// Remove gives a segment up, when the searches that run have ended.
func (a *Archive) Remove(s *segment.Segment) error {
	a.mu.Lock()
	same := func(other *segment.Segment) bool { return other == s }
	a.segments, a.cut = slices.DeleteFunc(slices.Clone(a.segments), same), slices.DeleteFunc(a.cut, same)
	a.index(s.Model)
	a.mu.Unlock()
	a.searching.Lock()
	defer a.searching.Unlock()
	return s.Close()
}

// whole calls do until no segment was cut meanwhile. It leaves such segments out of the next try, and of all searches.
func (a *Archive) whole(do func() error) error {
	a.searching.RLock()
	defer a.searching.RUnlock()
	for {
		if err := do(); !a.leaveOut() {
			return err
		}
	}
}

// leaveOut reports whether it leaves out a segment.
func (a *Archive) leaveOut() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	var left []*segment.Segment
	for _, s := range a.segments {
		if s.Err() != nil {
			left = append(left, s)
		}
	}
	if left == nil {
		return false
	}
	a.segments, a.cut = slices.DeleteFunc(slices.Clone(a.segments), func(s *segment.Segment) bool { return slices.Contains(left, s) }), append(a.cut, left...)
	for _, s := range left {
		a.index(s.Model)
	}
	return true
}

// index makes the index of a model's segments anew. It compares the latest one only with those of its size.
func (a *Archive) index(model string) {
	var same []*segment.Segment
	for _, s := range slices.Backward(a.segments) {
		if s.Model == model && (same == nil || s.Dim == same[0].Dim) {
			same = append(same, s)
		}
	}
	slices.Reverse(same)
	if same == nil {
		delete(a.indexes, model)
		return
	}
	a.indexes[model] = segment.NewIndex(a.scanner, same...)
}

// Pairs returns how many rows all segments have.
func (a *Archive) Pairs() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	pairs := 0
	for _, s := range a.segments {
		pairs += s.Rows
	}
	return pairs
}

// Close gives the segments up. No search may run.
func (a *Archive) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var problems []error
	for _, s := range slices.Concat(a.segments, a.cut) {
		problems = append(problems, s.Close())
	}
	a.segments, a.cut = nil, nil
	clear(a.indexes)
	return errors.Join(problems...)
}

// snapshot returns the segments and the index of a model; empty: that of the newest segment.
func (a *Archive) snapshot(model string) ([]*segment.Segment, *segment.Index, string) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if model == "" && len(a.segments) > 0 {
		model = a.segments[len(a.segments)-1].Model
	}
	return a.segments, a.indexes[model], model
}

// Search implements [Searcher], among the segments of the newest segment's model.
func (a *Archive) Search(vector []float32, query Query) (answer Answer, err error) {
	err = a.whole(func() error {
		answer, err = a.searchNewest(vector, query)
		return err
	})
	return answer, err
}

func (a *Archive) searchNewest(vector []float32, query Query) (Answer, error) {
	all, index, model := a.snapshot("")
	if index == nil {
		return Answer{}, fmt.Errorf("%w: there is no segment yet", ErrNoPairs)
	}
	if want := all[len(all)-1].Dim; len(vector) != want {
		return Answer{}, fmt.Errorf("%w: vector of %d values, want %d", ErrQuery, len(vector), want)
	}
	unit, err := normalised(vector)
	if err != nil {
		return Answer{}, err
	}
	return a.search(index, model, unit, query, nil)
}

// Neighbors implements [Searcher]. Of several groups that hold the pair it takes the latest.
func (a *Archive) Neighbors(pair schemas.PairID, query Query) (of Neighbor, answer Answer, err error) {
	err = a.whole(func() error {
		of, answer, err = a.neighbors(pair, query)
		return err
	})
	return of, answer, err
}

func (a *Archive) neighbors(pair schemas.PairID, query Query) (Neighbor, Answer, error) {
	all, _, _ := a.snapshot("")
	if a.gone(pair) {
		all = nil
	}
	for _, s := range slices.Backward(all) {
		row, found := s.Find(pair)
		if !found {
			continue
		}
		_, index, model := a.snapshot(s.Model)
		var leaveOut *schemas.PairID
		if query.Modality == Image {
			leaveOut = &pair
		}
		answer, err := a.search(index, model, s.Codes(segment.Image).Row(row, nil), query, leaveOut)
		return Neighbor{Pair: pair, Group: s.Group, Position: s.Position(row), Similarity: 1}, answer, err
	}
	return Neighbor{}, Answer{}, fmt.Errorf("%w: pair %s is in no segment", ErrNoPairs, pair)
}

func (a *Archive) search(index *segment.Index, model string, vector []float32, query Query, leaveOut *schemas.PairID) (Answer, error) {
	if err := query.check(); err != nil {
		return Answer{}, err
	}
	modality := segment.Image
	if query.Modality == Text {
		modality = segment.Text
	}
	if query.Exact {
		index = index.Exact()
	}
	q := segment.NewQueries(1, len(vector), func(_ int, dst []float32) []float32 { return append(dst, vector...) })
	hits, err := index.Search(context.Background(), modality, q, query.K, 1, func(_ int, h segment.Hit) bool {
		pair := index.Segment(h).Pair(int(h.Row))
		return !a.gone(pair) && (leaveOut == nil || pair != *leaveOut)
	})
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Model: model, Searched: index.Rows()}
	for _, h := range hits[0] {
		s := index.Segment(h)
		answer.Neighbors = append(answer.Neighbors, Neighbor{s.Pair(int(h.Row)), s.Group, s.Position(int(h.Row)), h.Score})
	}
	return answer, nil
}
