package indexer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/schemas"
)

// Errors of a search that Live cannot answer.
var (
	ErrQuery   = errors.New("bad query")
	ErrNoPairs = errors.New("no such pairs")
)

// MaxNeighbors is the most that a search may ask for.
const MaxNeighbors = 1000

// LiveOptions set which groups stay searchable, and how precisely.
type LiveOptions struct {
	KeepGroups int     `envDefault:"1"`    // latest closed groups of each lane that stay searchable, besides the open one
	TailRows   int     `envDefault:"512"`  // pairs that searches compare one by one until they go into inverted lists together
	Recall     float64 `envDefault:"0.97"` // share of the exact ten nearest that a search in inverted lists should find
	Seed       uint64  `env:"-"`
}

// DefaultLiveOptions keep one closed group.
func DefaultLiveOptions() LiveOptions {
	return LiveOptions{KeepGroups: 1, TailRows: 512, Recall: 0.97}
}

// Validate returns every option that is out of range, joined.
func (o LiveOptions) Validate() error {
	var l invalid.List
	invalid.AtLeast(&l, "KeepGroups", o.KeepGroups, 0)
	invalid.AtLeast(&l, "TailRows", o.TailRows, 1)
	l.Want(o.Recall > 0 && o.Recall <= 1, "%s is %g, want more than 0 and at most 1", invalid.Field("Recall"), o.Recall)
	return l.Err()
}

// LiveEngine is the arithmetic that live search needs.
type LiveEngine interface {
	knn.Engine
	knn.Searcher
}

// Live searches the open group and the latest closed groups of every lane while they grow.
//
// Inverted lists hold 8-bit codes, and the vectors that the builders hold rank the hits. A pair takes dim + 8 bytes of
// each modality beside the 2 dim of its vector. A search compares the newest pairs of a group one by one. A background
// goroutine ([Live.Run]) puts them into inverted lists, some thousand at a time, and trains new lists when a group has
// outgrown the old ones. It then measures how many lists a search must visit to find the wanted share of the exact
// nearest. Without Run every search is exact, but slower.
//
// Adding a pair takes no lock that a search holds for longer than a look-up. Lists never change: new ones take their
// place. Vectors of different encoders cannot be compared, so a search looks only at groups of one model.
type Live struct {
	o      LiveOptions
	engine LiveEngine
	wake   chan struct{}
	gone   func(schemas.PairID) bool // pairs that no search finds

	mu         sync.RWMutex                // of groups
	groups     []*liveGroup                // oldest first
	quantizers map[quantizerKey]*quantizer // of the goroutine of Run
}

// NewLive makes an empty index.
func NewLive(o LiveOptions, engine LiveEngine) (*Live, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("checking the options of live search: %w", err)
	}
	return &Live{
		o: o, engine: engine, wake: make(chan struct{}, 1), quantizers: make(map[quantizerKey]*quantizer),
		gone: func(schemas.PairID) bool { return false },
	}, nil
}

// Hide makes searches pass over the pairs that gone names. It must be called before the first search.
func (l *Live) Hide(gone func(schemas.PairID) bool) { l.gone = gone }

// liveGroup is a group as live search sees it.
type liveGroup struct {
	*members
	closed bool // by its builder; under Live.mu

	mu    sync.RWMutex // held by searches for their duration, by others for a swap
	gone  bool         // the vectors may not be read any more
	sides map[string]*side
}

// Query is a search's parameters.
type Query struct {
	K        int    // pairs to find, 1 to MaxNeighbors
	Modality string // which vectors of the pairs to compare with: Image or Text
	Exact    bool   // compare with every pair, instead of those in the nearest inverted lists
}

func (q Query) check() error {
	switch {
	case q.K < 1 || q.K > MaxNeighbors:
		return fmt.Errorf("%w: %d neighbours, want 1..%d", ErrQuery, q.K, MaxNeighbors)
	case q.Modality != Image && q.Modality != Text:
		return fmt.Errorf("%w: modality %q, want %q or %q", ErrQuery, q.Modality, Image, Text)
	}
	return nil
}

// Neighbor is one found pair.
type Neighbor struct {
	Pair       schemas.PairID
	Group      schemas.GroupID
	Position   int
	Similarity float32
}

// Answer holds the neighbours that a search found, best first.
type Answer struct {
	Model     string // fingerprint of the encoder whose vectors were compared
	Searched  int    // pairs that were searched
	Neighbors []Neighbor
}

// open takes a group that begins.
func (l *Live) open(m *members) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(m)
}

// add is open for a caller that holds mu.
func (l *Live) add(m *members) {
	m.retain()
	l.groups = append(l.groups, &liveGroup{members: m, sides: map[string]*side{Image: {}, Text: {}}})
}

// grew wakes the background, soon after a tail is complete.
func (l *Live) grew(m *members) {
	if m.v.Len()%max(1, l.o.TailRows/4) == 0 {
		l.rouse()
	}
}

// rouse wakes the background.
func (l *Live) rouse() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
}

// seal marks a group as closed, and lets the lane's oldest closed groups go. The group goes on with the members that
// are left, which may be all.
func (l *Live) seal(all, m *members) error {
	l.mu.Lock()
	if all != m {
		l.add(m)
		l.rouse()
	}
	closed := 0
	for _, g := range l.groups {
		g.closed = g.closed || g.members == m
		if g.closed && g.group.Lane == m.group.Lane {
			closed++
		}
	}
	excess := closed - l.o.KeepGroups
	gone := l.remove(func(g *liveGroup) bool {
		if g.members == all && all != m {
			return true
		}
		if !g.closed || g.group.Lane != m.group.Lane || excess <= 0 {
			return false
		}
		excess--
		return true
	})
	l.mu.Unlock()
	return free(gone)
}

// drop lets all groups of a lane go.
func (l *Live) drop(lane int32) error {
	l.mu.Lock()
	gone := l.remove(func(g *liveGroup) bool { return g.group.Lane == lane })
	l.mu.Unlock()
	return free(gone)
}

// Close lets everything go. Run must have returned.
func (l *Live) Close() error {
	l.mu.Lock()
	gone := l.remove(func(*liveGroup) bool { return true })
	l.mu.Unlock()
	for _, q := range l.quantizers {
		q.base.Close()
	}
	clear(l.quantizers)
	return free(gone)
}

// remove takes groups out of the list, the oldest first. The caller holds mu.
func (l *Live) remove(leaves func(*liveGroup) bool) []*liveGroup {
	var gone []*liveGroup
	stay := make([]*liveGroup, 0, len(l.groups))
	for _, g := range l.groups {
		if leaves(g) {
			gone = append(gone, g)
		} else {
			stay = append(stay, g)
		}
	}
	l.groups = stay
	return gone
}

// free waits for running searches of the groups, then releases their memory.
func free(groups []*liveGroup) error {
	var problems []error
	for _, g := range groups {
		g.mu.Lock()
		g.gone = true
		for _, s := range g.sides {
			s.close()
		}
		g.mu.Unlock()
		problems = append(problems, g.release())
	}
	return errors.Join(problems...)
}

func (l *Live) snapshot() []*liveGroup {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.groups // remove makes a new list, and open appends beyond its end
}

// Search finds the pairs whose vectors have the largest inner products with the vector, which is normalised first,
// among the groups of the newest group's model.
func (l *Live) Search(vector []float32, query Query) (Answer, error) {
	groups := l.snapshot()
	if len(groups) == 0 {
		return Answer{}, fmt.Errorf("%w: nothing was indexed yet", ErrNoPairs)
	}
	newest := groups[len(groups)-1]
	if len(vector) != newest.dim {
		return Answer{}, fmt.Errorf("%w: vector of %d values, want %d", ErrQuery, len(vector), newest.dim)
	}
	unit, err := normalised(vector)
	if err != nil {
		return Answer{}, err
	}
	return l.search(groups, newest.model, unit, query, nil)
}

// Neighbors finds the pairs nearest to the image of a pair. By text, as in V2T, the pair itself is among them; by
// image, as in V2V, it is not.
func (l *Live) Neighbors(pair schemas.PairID, query Query) (Neighbor, Answer, error) {
	groups := l.snapshot()
	if l.gone(pair) {
		groups = nil
	}
	for _, g := range slices.Backward(groups) {
		position := g.position(pair)
		if position < 0 {
			continue
		}
		vector, ok := g.image(position)
		if !ok {
			continue
		}
		var leaveOut *schemas.PairID
		if query.Modality == Image {
			leaveOut = &pair
		}
		answer, err := l.search(groups, g.model, vector, query, leaveOut)
		return Neighbor{Pair: pair, Group: g.group, Position: position, Similarity: 1}, answer, err
	}
	return Neighbor{}, Answer{}, fmt.Errorf("%w: pair %s is in no group that is open or was closed lately", ErrNoPairs, pair)
}

// GroupStatus tells how far a group is indexed.
type GroupStatus struct {
	Group   schemas.GroupID
	Closed  bool
	Pairs   int
	InLists int // pairs in inverted lists of both modalities; the others are compared one by one
	Probes  int // lists that a search for images visits; 0: none yet
	Lists   int // of images; 0: none yet
}

// Status lists the groups that can be searched, oldest first.
func (l *Live) Status() []GroupStatus {
	var out []GroupStatus
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, g := range l.groups {
		g.mu.RLock()
		status := GroupStatus{Group: g.group, Closed: g.closed, Pairs: g.t.Len(), InLists: g.sides[Image].covered}
		status.InLists = min(status.InLists, g.sides[Text].covered)
		if q := g.sides[Image].quantizer; q != nil {
			status.Probes, status.Lists = q.probes, len(q.centroids)/g.dim
		}
		g.mu.RUnlock()
		out = append(out, status)
	}
	return out
}

// image returns the image vector at a position; false when the group is gone or the vector is still being written.
func (g *liveGroup) image(position int) ([]float32, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.gone || position >= g.v.Len() {
		return nil, false
	}
	return g.matrix(Image, position+1).Row(position, nil), true
}

// search asks every group of a model for its best pairs, and keeps the best of them all. It asks for more where hidden
// pairs were among them.
func (l *Live) search(groups []*liveGroup, model string, vector []float32, query Query, leaveOut *schemas.PairID) (Answer, error) {
	if err := query.check(); err != nil {
		return Answer{}, err
	}
	k := query.K
	query.K++ // as one may be left out
	for {
		answer, hidden, err := l.searchOnce(groups, model, vector, query, leaveOut)
		if err != nil {
			return Answer{}, err
		}
		if hidden == 0 || len(answer.Neighbors) >= k || query.K > answer.Searched {
			answer.Neighbors = answer.Neighbors[:min(k, len(answer.Neighbors))]
			return answer, nil
		}
		query.K *= 2
	}
}

// searchOnce is one search; hidden counts the pairs that it found and left out.
func (l *Live) searchOnce(groups []*liveGroup, model string, vector []float32, query Query, leaveOut *schemas.PairID) (_ Answer, hidden int, _ error) {
	answer := Answer{Model: model}
	for _, g := range groups {
		if g.model != model || g.dim != len(vector) {
			continue
		}
		hits, searched, err := g.search(l.engine, vector, query)
		if err != nil {
			return Answer{}, 0, fmt.Errorf("searching group %s: %w", g.group, err)
		}
		answer.Searched += searched
		pairs := g.pairsOf(hits)
		for i, h := range hits {
			switch pair := pairs[i]; {
			case l.gone(pair):
				hidden++
			case leaveOut == nil || pair != *leaveOut:
				answer.Neighbors = append(answer.Neighbors, Neighbor{pair, g.group, int(h.Row), h.Similarity})
			}
		}
	}
	slices.SortStableFunc(answer.Neighbors, func(a, b Neighbor) int {
		return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(b.Group.Seq, a.Group.Seq), cmp.Compare(a.Position, b.Position))
	})
	return answer, hidden, nil
}

func normalised(vector []float32) ([]float32, error) {
	norm := math.Sqrt(knn.Score(vector, vector))
	if !(norm > 0) || math.IsInf(norm, 0) {
		return nil, fmt.Errorf("%w: the vector's norm is %g", ErrQuery, norm)
	}
	unit := make([]float32, len(vector))
	for i, x := range vector {
		unit[i] = float32(float64(x) / norm)
	}
	return unit, nil
}
