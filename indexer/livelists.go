package indexer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/pairstream/pairstream/internal/knn"
	"github.com/pairstream/pairstream/internal/rng"
)

const (
	trainPerList    = 16 // sampled rows per centroid
	trainIterations = 6
	retrainGrowth   = 2  // lists are trained anew when a group has grown that much since
	calibrations    = 48 // queries of each modality that the number of probes is measured with
	calibratedK     = 10
)

// side is the inverted lists over the rows [0, covered) of one modality of a group; the rows after them are the tail.
type side struct {
	quantizer *quantizer
	parts     []part // all of the quantizer
	covered   int
}

type part struct {
	lists knn.Lists
	rows  int
}

func (s *side) close() {
	for _, p := range s.parts {
		p.lists.Close()
	}
	s.parts = nil
}

type quantizerKey struct {
	model    string
	modality string
}

// quantizer is a set of centroids and what is known of them.
type quantizer struct {
	base      knn.Lists // without entries
	centroids []float32 // rows of norm 1
	trainedOn int       // rows of the group that it was trained for
	probes    int       // lists to visit
}

// search looks into the lists, unless told to be exact, and through the tail.
func (g *liveGroup) search(engine knn.Searcher, vector []float32, query Query) (hits []knn.Hit, searched int, err error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	n := g.rows(query.Modality).Len()
	if g.gone || n == 0 {
		return nil, 0, nil
	}
	m, s := g.matrix(query.Modality, n), g.sides[query.Modality]
	covered := 0
	if !query.Exact && len(s.parts) > 0 {
		covered = s.covered
		near, err := s.parts[0].lists.Probe(vector, s.quantizer.probes)
		if err != nil {
			return nil, 0, err
		}
		for _, p := range s.parts {
			found, err := p.lists.Search(m, vector, query.K, near)
			if err != nil {
				return nil, 0, err
			}
			hits = append(hits, found...)
		}
	}
	if covered < n {
		found, err := engine.Scan(m, covered, vector, query.K)
		if err != nil {
			return nil, 0, err
		}
		hits = append(hits, found...)
	}
	return hits, n, nil
}

// Run puts pairs into inverted lists until ctx ends. It returns an error when the engine fails.
func (l *Live) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		}
		if err := l.index(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("indexing for live search: %w", err)
		}
	}
}

// index brings the lists of all groups up to date.
func (l *Live) index(ctx context.Context) error {
	l.mu.RLock()
	groups := l.groups
	for _, g := range groups {
		g.retain() // a group in the list holds its vectors; after this so do we
	}
	l.mu.RUnlock()
	l.forget(groups)
	var problems []error
	for _, g := range groups {
		for _, modality := range []string{Image, Text} {
			if len(problems) == 0 {
				if err := l.extend(ctx, g, modality); err != nil {
					problems = append(problems, fmt.Errorf("group %s, %ss: %w", g.group, modality, err))
				}
			}
		}
		problems = append(problems, g.release())
	}
	return errors.Join(problems...)
}

// forget drops the quantizers of models that no group has any more.
func (l *Live) forget(groups []*liveGroup) {
	for key, q := range l.quantizers {
		if !slices.ContainsFunc(groups, func(g *liveGroup) bool { return g.model == key.model }) {
			q.base.Close()
			delete(l.quantizers, key)
		}
	}
}

// extend puts a tail that is long enough into lists.
func (l *Live) extend(ctx context.Context, g *liveGroup, modality string) error {
	s, n := g.sides[modality], g.rows(modality).Len()
	if n-s.covered < l.o.TailRows { // only this goroutine writes covered
		return nil
	}
	q, err := l.quantizer(ctx, g, modality, n)
	if err != nil {
		return fmt.Errorf("training lists: %w", err)
	}
	from := s.covered
	if s.quantizer != q {
		from = 0
	}
	fresh, err := l.assign(ctx, g, modality, q, from, n)
	if err != nil {
		return err
	}
	parts, replaced, err := g.combine(s, fresh, from == 0)
	if err != nil {
		return err
	}
	g.swap(s, q, parts, n, replaced)
	return nil
}

// quantizer returns the present one of the group's model, or one trained anew when the group has outgrown it.
func (l *Live) quantizer(ctx context.Context, g *liveGroup, modality string, n int) (*quantizer, error) {
	key := quantizerKey{g.model, modality}
	old := l.quantizers[key]
	if old != nil && n < retrainGrowth*old.trainedOn {
		return old, nil
	}
	fresh, err := l.train(ctx, g, modality, n)
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.base.Close() // lists made from it live on
	}
	l.quantizers[key] = fresh
	return fresh, nil
}

// combine merges fresh with the last parts that are no larger, as a binary counter does: there are few parts, and a row
// is moved seldom. A group that is gone has no parts. It holds the group's lock as a search does, for the lists.
func (g *liveGroup) combine(s *side, fresh part, anew bool) (parts, replaced []part, err error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if anew {
		return []part{fresh}, s.parts, nil
	}
	parts = slices.Clone(s.parts)
	for len(parts) > 0 && parts[len(parts)-1].rows <= fresh.rows {
		last := parts[len(parts)-1]
		merged, err := merge(last, fresh)
		fresh.lists.Close()
		if err != nil {
			return nil, nil, err
		}
		parts, fresh, replaced = parts[:len(parts)-1], merged, append(replaced, last)
	}
	return append(parts, fresh), replaced, nil
}

// swap gives searches the new lists, of which the last are new. Once it has the lock, no search uses the replaced ones.
func (g *liveGroup) swap(s *side, q *quantizer, parts []part, covered int, replaced []part) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone { // and all its lists were closed, but for those that it did not have yet
		parts[len(parts)-1].lists.Close()
		return
	}
	s.parts, s.quantizer, s.covered = parts, q, covered
	for _, p := range replaced {
		p.lists.Close()
	}
}

func merge(a, b part) (part, error) {
	lists, err := a.lists.Empty()
	if err != nil {
		return part{}, err
	}
	if err := errors.Join(lists.Merge(a.lists), lists.Merge(b.lists)); err != nil {
		lists.Close()
		return part{}, err
	}
	return part{lists, a.rows + b.rows}, nil
}

// assign makes lists of the rows [from, to).
func (l *Live) assign(ctx context.Context, g *liveGroup, modality string, q *quantizer, from, to int) (part, error) {
	values := g.rows(modality).Values(to)[from*g.dim:]
	clusters, err := l.engine.Assign(ctx, knn.HalfMatrix(values, g.dim), q.centroids, 1)
	if err != nil {
		return part{}, err
	}
	if q.probes == 0 {
		if q.probes, err = l.calibrate(g, modality, q, clusters); err != nil {
			return part{}, fmt.Errorf("measuring how many lists to visit: %w", err)
		}
	}
	rows, lists := make([]int64, len(clusters)), make([]int64, len(clusters))
	for i, c := range clusters {
		rows[i], lists[i] = int64(from+i), int64(c)
	}
	entries, err := q.base.Empty()
	if err != nil {
		return part{}, err
	}
	if err := entries.Add(rows, lists); err != nil {
		entries.Close()
		return part{}, err
	}
	return part{entries, to - from}, nil
}

// listsFor returns about 4 sqrt(n), a power of two, and leaves some rows for each list.
func listsFor(n int) int {
	wanted := 4 * int(math.Sqrt(float64(n)))
	return max(1, min(1<<bits.Len(uint(wanted-1)), n/trainPerList))
}

// train makes centroids from a sample of the rows [0, n), by k-means of one thread.
func (l *Live) train(ctx context.Context, g *liveGroup, modality string, n int) (*quantizer, error) {
	lists := listsFor(n)
	size := min(n, trainPerList*lists)
	all := g.rows(modality).Values(n)
	values := make([]uint16, 0, size*g.dim)
	for i := range size {
		row := i * n / size
		values = append(values, all[row*g.dim:(row+1)*g.dim]...)
	}
	start := make([]int32, lists)
	for i, row := range rng.New(l.o.Seed, "indexer.live", int64(n)).Perm(size)[:lists] {
		start[i] = int32(row)
	}
	clusters, err := l.engine.KMeans(ctx, knn.HalfMatrix(values, g.dim), knn.KMeansParams{Init: start, Iterations: trainIterations, Threads: 1})
	if err != nil {
		return nil, err
	}
	q := &quantizer{centroids: make([]float32, 0, lists*g.dim), trainedOn: n}
	for i := range lists {
		q.centroids = appendUnit(q.centroids, clusters.Centroids[i*g.dim:(i+1)*g.dim])
	}
	q.base, err = l.engine.NewLists(q.centroids, g.dim)
	return q, err
}

// appendUnit appends a centroid scaled to norm 1, for which the nearest is also the one with the largest inner product.
func appendUnit(dst []float32, centroid []float64) []float32 {
	sum := 0.0
	for _, x := range centroid {
		sum += x * x
	}
	for _, x := range centroid {
		if sum > 0 {
			x /= math.Sqrt(sum)
		}
		dst = append(dst, float32(x))
	}
	return dst
}

// calibrate measures how many lists must be visited to find the wanted share of the exact neighbours of the group's
// images and texts; clusters are the lists of the rows [0, len(clusters)).
func (l *Live) calibrate(g *liveGroup, modality string, q *quantizer, clusters []int32) (int, error) {
	n := min(len(clusters), g.v.Len(), g.t.Len())
	m := g.matrix(modality, n)
	lists := len(q.centroids) / g.dim
	rank := make([]int, lists)
	var ranks []int
	draws := rng.New(l.o.Seed, "indexer.calibration", int64(n))
	for _, from := range []string{Image, Text} {
		for range calibrations {
			row := draws.IntN(n)
			query := g.matrix(from, n).Row(row, nil)
			order, err := q.base.Probe(query, lists)
			if err != nil {
				return 0, err
			}
			for at, list := range order {
				rank[list] = at
			}
			hits, err := l.engine.Scan(m, 0, query, calibratedK)
			if err != nil {
				return 0, err
			}
			for _, h := range hits {
				if int(h.Row) != row || from != modality { // an image finds itself in any case
					ranks = append(ranks, rank[clusters[h.Row]])
				}
			}
		}
	}
	if len(ranks) == 0 {
		return lists, nil
	}
	slices.Sort(ranks)
	at := int(math.Ceil(l.o.Recall*float64(len(ranks)))) - 1
	return ranks[at] + 1, nil
}
