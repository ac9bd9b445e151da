package indexer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/schemas"
)

// With Options.Scope a group also asks other groups. These are segments of 8-bit codes, so their scores are those of
// the codes, and a search visits a part of their lists (package segment). Members are still compared exactly.
//
//   - V2T_k is over all texts, of the group and of the groups asked. The chunks still list the k nearest members;
//     obj(v) counts the nouns of the k nearest of all.
//   - V2V_k1 is over all images, without those that show the image itself, as within the group.
//   - T2V_k2 is over all images: as many images of any group must score lower. Members also have to pass among
//     members.
//   - An image that resembles one of another group is a near-duplicate of the nearest such image. This comparison
//     comes before that of members with one another, and takes the image out of the latter.

// outsideRows is the number of members that are searched for at once.
const outsideRows = 1 << 16

// outside holds a group's search results in other groups.
type outside struct {
	b      *Builder
	others *segment.Index
	asked  []*segment.Segment

	// By position in the group.
	images         [][]segment.Hit // V2V_k1, best first, by number in asked
	nearDuplicates []segment.Hit   // nearest image above the threshold, with the image itself; Score 0: none
}

// look finds the images of other groups near to those of a group. Without other groups it returns nil.
func (b *Builder) look(ctx context.Context, g *openGroup, asked []*segment.Segment) (*outside, error) {
	if b.o.Scope == "" || len(asked) == 0 {
		return nil, nil
	}
	for _, s := range asked {
		if s.Model != g.model || s.Dim != g.dim {
			return nil, fmt.Errorf("asking group %s: it has vectors of %d values by model %s, want %d by %s", s.Group, s.Dim, s.Model, g.dim, g.model)
		}
	}
	scanner, ok := b.codes()
	if !ok {
		return nil, errors.New("asking other groups: the engine does not compare codes")
	}
	n := g.v.Len()
	o := &outside{b: b, others: segment.NewIndex(scanner, asked...), asked: asked, nearDuplicates: make([]segment.Hit, n)}
	v := g.matrix(Image, n)
	for from := 0; from < n; from += outsideRows {
		q := queriesOf(v, from, min(from+outsideRows, n))
		found, err := o.others.Search(ctx, segment.Image, q, b.o.K1, b.workers(), func(i int, h segment.Hit) bool {
			return o.isOther(g, from+i, h)
		})
		if err != nil {
			return nil, fmt.Errorf("searching other groups for images: %w", err)
		}
		o.images = append(o.images, found...)
		for i, hits := range found {
			if len(hits) > 0 && hits[0].Score > max(o.nearDuplicates[from+i].Score, o.above()) {
				o.nearDuplicates[from+i] = hits[0]
			}
		}
	}
	return o, nil
}

// codes returns the engine's scanner of 8-bit rows.
func (b *Builder) codes() (knn.CodeScanner, bool) {
	s, ok := b.engine.(knn.CodeScanner)
	return s, ok
}

func (b *Builder) workers() int {
	if b.o.Threads == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return b.o.Threads
}

// above returns the score above which an image is a near-duplicate.
func (o *outside) above() float32 {
	if o.b.o.NearImage == KeepImages {
		return 2
	}
	return float32(o.b.o.NearCosine)
}

// isOther reports whether a hit counts among V2V. A hit that shows the image itself does not, but the image may be its
// near-duplicate.
func (o *outside) isOther(g *openGroup, at int, h segment.Hit) bool {
	if o.b.o.KeepSameImage || o.asked[h.Segment].ImageID(int(h.Row)) != g.images.at(int(g.owner[at])) {
		return true
	}
	if h.Score > max(o.nearDuplicates[at].Score, o.above()) {
		o.nearDuplicates[at] = h
	}
	return false
}

// nearDuplicate returns the image that the image at a position is a near-duplicate of.
func (o *outside) nearDuplicate(at int32) (schemas.ImageID, float32) {
	h := o.nearDuplicates[at]
	return o.asked[h.Segment].ImageID(int(h.Row)), min(h.Score, 1)
}

func queriesOf(x knn.Matrix, from, to int) segment.Queries {
	return segment.NewQueries(to-from, x.Dim, func(i int, dst []float32) []float32 { return x.Row(from+i, dst) })
}

// leave removes the members that were left out.
func (o *outside) leave(found *near) {
	if o == nil || found.left == 0 {
		return
	}
	kept := o.images[:0]
	nearDuplicates := found.nearDuplicates
	for at, hits := range o.images {
		if len(nearDuplicates) > 0 && int(nearDuplicates[0].at) == at {
			nearDuplicates = nearDuplicates[1:]
			continue
		}
		kept = append(kept, hits)
	}
	o.images = kept
}

// resolve decides SE and obj(v) of a group's members among all groups. It changes lists and returns, for each member,
// the equivalent images and the texts of other groups.
func (o *outside) resolve(ctx context.Context, g *openGroup, own *segment.Segment, lists *knn.Result) (images, texts [][]segment.Hit, err error) {
	n := g.v.Len()
	v, t := g.matrix(Image, n), g.matrix(Text, n)
	rows := make([]int32, n) // of the own segment, by position
	for row := range n {
		rows[own.Position(row)] = int32(row)
	}
	scanner, _ := o.b.codes()
	all := segment.NewIndex(scanner, append([]*segment.Segment{own}, o.asked...)...)
	for from := 0; from < n; from += outsideRows {
		to := min(from+outsideRows, n)
		near, err := o.others.Search(ctx, segment.Text, queriesOf(v, from, to), o.b.o.K, o.b.workers(), nil)
		if err != nil {
			return nil, nil, fmt.Errorf("searching other groups for texts: %w", err)
		}
		for i, hits := range near {
			texts = append(texts, o.merge(v, t, from+i, lists.V2T[(from+i)*o.b.o.K:][:o.b.o.K], hits))
		}
		r := &ranker{o: o, q: queriesOf(t, from, to), below: o.b.o.K2, images: make([][]candidate, to-from), own: own}
		for i := range to - from {
			r.add(v, lists, from+i, i, rows)
		}
		if err := all.Scan(ctx, segment.Image, r.q, o.b.workers(), r); err != nil {
			return nil, nil, fmt.Errorf("ranking images of all groups: %w", err)
		}
		for i := range to - from {
			images = append(images, r.equivalents(i, lists.SE[(from+i)*o.b.o.K1:][:o.b.o.K1]))
		}
	}
	return images, texts, nil
}

// merge returns the hits that are among the k nearest, of k members (best first, padded with -1) and of hits.
func (o *outside) merge(query, rows knn.Matrix, at int, members []int32, hits []segment.Hit) []segment.Hit {
	own := make([]float32, 0, len(members))
	if len(hits) > 0 {
		x := query.Row(at, nil)
		for _, j := range members {
			if j >= 0 {
				own = append(own, float32(knn.Score(x, rows.Row(int(j), nil))))
			}
		}
	}
	taken := 0
	for room := len(members); taken < len(hits) && taken < room; {
		if len(own) > 0 && own[0] >= hits[taken].Score {
			own, room = own[1:], room-1
			continue
		}
		taken++
	}
	return hits[:taken]
}

// candidate is an image that may be equivalent to a pair's.
type candidate struct {
	position int32 // of a member; -1: of another group
	hit      segment.Hit
	score    float32 // with the pair's text, by codes
	above    int     // images that score higher
}

// ranker counts, for each text, the images that score higher than the candidates of its pair. It implements
// [segment.Visitor].
type ranker struct {
	o      *outside
	q      segment.Queries // texts
	below  int             // fewer images than this may score higher
	images [][]candidate
	own    *segment.Segment
}

// add finds the candidates of a pair: V2V_k1 of all groups, without members that are not equivalent among members.
func (r *ranker) add(v knn.Matrix, lists *knn.Result, at, i int, rows []int32) {
	k1 := r.o.b.o.K1
	v2v, se := lists.V2V[at*k1:(at+1)*k1], lists.SE[at*k1:(at+1)*k1]
	hits := r.o.merge(v, v, at, v2v, r.o.images[at])
	for _, j := range v2v[:k1-len(hits)] {
		if j >= 0 && slices.Contains(se, j) {
			r.images[i] = append(r.images[i], candidate{position: j, score: r.q.Score(i, r.own.Codes(segment.Image), int(rows[j]))})
		}
	}
	for _, h := range hits {
		r.images[i] = append(r.images[i], candidate{position: -1, hit: h, score: r.q.Score(i, r.o.others.Segment(h).Codes(segment.Image), int(h.Row))})
	}
}

// Least implements [segment.Visitor].
func (r *ranker) Least(query int) float32 {
	least := float32(math.Inf(1))
	for _, c := range r.images[query] {
		if c.above < r.below {
			least = min(least, c.score)
		}
	}
	return least
}

// Take implements [segment.Visitor].
func (r *ranker) Take(query int, h segment.Hit) {
	for i := range r.images[query] {
		if c := &r.images[query][i]; h.Score > c.score {
			c.above++
		}
	}
}

// equivalents writes the members that are equivalent to a pair into se, and returns the hits that are.
func (r *ranker) equivalents(i int, se []int32) []segment.Hit {
	var hits []segment.Hit
	at := 0
	for _, c := range r.images[i] {
		switch {
		case c.above >= r.below:
		case c.position < 0:
			hits = append(hits, c.hit)
		default:
			se[at] = c.position
			at++
		}
	}
	for ; at < len(se); at++ {
		se[at] = -1
	}
	return hits
}

// maxOutsideBytes bounds what addresses of other groups' images take in a chunk.
const maxOutsideBytes = 448 << 10

// note writes the equivalent images of other groups into a chunk. Where addresses would take too much room, the last
// members go without.
func (o *outside) note(c *schemas.NeighborChunk, images [][]segment.Hit) {
	out, used := make([][]schemas.Positive, len(images)), 0
	for i, hits := range images {
		for _, h := range hits {
			s := o.others.Segment(h)
			ref, ok := s.Ref(int(h.Row))
			if used += len(ref.URI) + 1; !ok || used > maxOutsideBytes {
				continue
			}
			out[i] = append(out[i], schemas.Positive{ImageID: s.ImageID(int(h.Row)), Image: ref})
		}
	}
	c.SetOutside(out)
}

// places maps the nouns of every group that was asked to the vocabulary of a group; -1: it lacks them.
func (o *outside) places(words []string) [][]int32 {
	all := make([][]int32, len(o.asked))
	for i, s := range o.asked {
		all[i] = make([]int32, len(s.Words))
		for j, word := range s.Words {
			at, found := slices.BinarySearch(words, word)
			if all[i][j] = int32(at); !found {
				all[i][j] = -1
			}
		}
	}
	return all
}

// ids names the groups that were asked.
func (o *outside) ids() []schemas.GroupID {
	if o == nil {
		return nil
	}
	var ids []schemas.GroupID
	for _, s := range o.asked {
		ids = append(ids, s.Group)
	}
	return ids
}
