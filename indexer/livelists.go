package indexer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
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
	lists     knn.Lists // of the quantizer; nil: none yet
	covered   int
}

func (s *side) close() {
	if s.lists != nil {
		s.lists.Close()
	}
	s.lists = nil
}

type quantizerKey struct {
	model    string
	modality string
}

// quantizer is a set of centroids, and the number of lists to visit with them.
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
	if query.Exact || s.lists == nil {
		hits, err = engine.Scan(m, 0, vector, query.K)
	} else {
		hits, err = s.lists.Search(m, s.covered, vector, query.K, s.quantizer.probes)
	}
	return hits, n, err
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
	from, base := s.covered, s.lists
	if s.quantizer != q {
		from, base = 0, q.base
	}
	lists, err := l.assign(ctx, g, modality, q, base, from, n)
	if err != nil {
		return err
	}
	g.swap(s, q, lists, n)
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
		old.base.Close() // lists that were made from it live on
	}
	l.quantizers[key] = fresh
	return fresh, nil
}

// swap gives searches the new lists. Once it has had the lock, no search uses the old ones.
func (g *liveGroup) swap(s *side, q *quantizer, lists knn.Lists, covered int) {
	g.mu.Lock()
	old := s.lists
	if g.gone { // and its lists were closed
		old = lists
	} else {
		s.lists, s.quantizer, s.covered = lists, q, covered
	}
	g.mu.Unlock()
	if old != nil {
		old.Close() // beside searches, as it may take long
	}
}

// assign makes lists of what base holds and of the rows [from, to). It holds the group's lock as a search does, for
// base.
func (l *Live) assign(ctx context.Context, g *liveGroup, modality string, q *quantizer, base knn.Lists, from, to int) (knn.Lists, error) {
	clusters, err := l.engine.Assign(ctx, knn.HalfMatrix(g.rows(modality).Values(to)[from*g.dim:], g.dim), q.centroids, 1)
	if err != nil {
		return nil, err
	}
	if q.probes == 0 {
		if q.probes, err = l.calibrate(g, modality, q, clusters); err != nil {
			return nil, fmt.Errorf("measuring how many lists to visit: %w", err)
		}
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.gone {
		base = q.base
	}
	return base.Extended(g.matrix(modality, to), from, clusters)
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
		// Of centroids of norm 1 the nearest is also the one with the largest inner product.
		q.centroids = knn.AppendUnit(q.centroids, clusters.Centroids[i*g.dim:(i+1)*g.dim])
	}
	q.base, err = l.engine.NewLists(q.centroids, g.dim)
	return q, err
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
