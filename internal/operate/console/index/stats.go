package index

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// simBins divide the similarities from -1 to 1.
const simBins = 80

// mostObjects is the last bin of objects per image. An image with more counts there.
const mostObjects = 20

// Stats are histograms over the members of a group.
type Stats struct {
	Sim     []int64         `json:"sim"`     // pairs by v . t, in bins of 1/40 from -1
	SE      []int64         `json:"se"`      // images by the size of their SE
	Objects []int64         `json:"objects"` // images by the number of their objects
	Nouns   map[int32]int64 `json:"nouns"`   // images by object, as an index into the manifest's nouns
}

func newStats() *Stats {
	return &Stats{Sim: make([]int64, simBins), Objects: make([]int64, mostObjects+1), Nouns: make(map[int32]int64)}
}

func (s *Stats) similarity(sim float64) {
	s.Sim[max(0, min(simBins-1, int((sim+1)/2*simBins)))]++
}

func (s *Stats) member(c *schemas.NeighborChunk, i int) {
	size := 0
	for _, p := range c.SE[i*int(c.K1) : (i+1)*int(c.K1)] {
		if p >= 0 {
			size++
		}
	}
	for len(s.SE) <= int(c.K1) {
		s.SE = append(s.SE, 0)
	}
	s.SE[size]++
	objects := c.Objects(i)
	s.Objects[min(len(objects), mostObjects)]++
	for _, noun := range objects {
		s.Nouns[noun]++
	}
}

const (
	sampled       = 20_000 // first members of a group, whose vectors make the sheets; a lane is in random order
	sheetClusters = 60     // the largest clusters have a sheet
	sheetSide     = 6      // pairs nearest to the centroid, and as many farthest from it
)

// cluster is one of the largest of a group.
type cluster struct {
	size    int64
	members []member
	sum     []float32
}

type member struct {
	pos    int32
	vector []float32
	dot    float32
}

// sheets finds the members of the largest clusters that are nearest to the centroid, and those farthest from it.
func (x *Index) sheets(ctx context.Context, g *schemas.Group) error {
	var group, at, seq int64
	found, err := one(ctx, x, []any{&group, &at, &seq}, `SELECT g.n, p.at, p.seq FROM grp g JOIN pair p ON p.grp = g.n AND p.pos = 0 WHERE g.lane = ? AND g.seq = ?`,
		g.Group.Lane, g.Group.Seq)
	if err != nil || !found {
		return err
	}
	clusters, members, err := x.largest(ctx, group)
	if err != nil {
		return err
	}
	left := len(members)
	for rec, err := range x.log.Records(ctx, schemas.Embeddings, int(g.Group.Lane), stream.Position{Offset: at, Seq: seq}, -1) {
		if err != nil {
			return err
		}
		e, ok := stream.As[*schemas.Embedding](rec)
		if !ok {
			continue
		}
		place, ok := members[e.ID]
		if !ok {
			continue
		}
		if c := clusters[place.cluster]; c != nil {
			v := e.V
			if g.Modality == schemas.ModalityText {
				v = e.T
			}
			c.add(place.pos, v.Floats())
		}
		delete(members, e.ID)
		if left--; left == 0 {
			break
		}
	}
	return x.update(ctx, func(w *writer) {
		for _, number := range slices.Sorted(maps.Keys(clusters)) {
			c := clusters[number]
			nearest, farthest := c.ends()
			w.exec("INSERT OR REPLACE INTO sheet (grp, cluster, size, nearest, farthest) VALUES (?,?,?,?,?)",
				group, number, c.size, nearest, farthest)
		}
	})
}

type inCluster struct {
	pos     int32
	cluster int64
}

func (x *Index) largest(ctx context.Context, group int64) (map[int64]*cluster, map[schemas.PairID]inCluster, error) {
	clusters := make(map[int64]*cluster)
	err := each(ctx, x.reads, func(rows *sql.Rows) error {
		var number, size int64
		err := rows.Scan(&number, &size)
		clusters[number] = &cluster{size: size}
		return err
	}, "SELECT cluster, count(*) AS size FROM pair WHERE grp = ? GROUP BY cluster ORDER BY size DESC, cluster LIMIT ?", group, sheetClusters)
	if err != nil {
		return nil, nil, fmt.Errorf("finding the largest clusters: %w", err)
	}
	members := make(map[schemas.PairID]inCluster)
	err = each(ctx, x.reads, func(rows *sql.Rows) error {
		var id []byte
		var p inCluster
		if err := rows.Scan(&id, &p.pos, &p.cluster); err != nil {
			return err
		}
		members[schemas.PairID(id)] = p
		return nil
	}, "SELECT id, pos, cluster FROM pair WHERE grp = ? AND pos < ?", group, sampled)
	return clusters, members, err
}

func (c *cluster) add(pos int32, v []float32) {
	if c.sum == nil {
		c.sum = make([]float32, len(v))
	}
	for i := range v {
		c.sum[i] += v[i]
	}
	c.members = append(c.members, member{pos: pos, vector: v})
}

// ends returns the positions of the members nearest to the centroid, and of those farthest from it.
func (c *cluster) ends() (nearest, farthest []byte) {
	for i := range c.members {
		for j, v := range c.members[i].vector {
			c.members[i].dot += v * c.sum[j]
		}
	}
	slices.SortFunc(c.members, func(a, b member) int { return cmp.Or(cmp.Compare(b.dot, a.dot), cmp.Compare(a.pos, b.pos)) })
	for i := range min(sheetSide, len(c.members)) {
		nearest = binary.LittleEndian.AppendUint32(nearest, uint32(c.members[i].pos))
		farthest = binary.LittleEndian.AppendUint32(farthest, uint32(c.members[len(c.members)-1-i].pos))
	}
	return nearest, farthest
}
