package index

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/pairstream/pairstream/schemas"
)

// ErrNotFound marks a query for something that the index does not hold, or no longer.
var ErrNotFound = errors.New("the console does not know it: it has not been read yet, or newer pairs took its place")

// scanned scans a row. It returns false when there is none.
func scanned(row *sql.Row, into []any) (bool, error) {
	err := row.Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// one scans the first row of a query. It returns false when there is none.
func one(ctx context.Context, x *Index, into []any, query string, args ...any) (bool, error) {
	return scanned(x.reads.QueryRowContext(ctx, query, args...), into)
}

// need scans the first row of a query. It returns [ErrNotFound] when there is none.
func need(ctx context.Context, x *Index, into []any, query string, args ...any) error {
	found, err := one(ctx, x, into, query, args...)
	if err == nil && !found {
		err = ErrNotFound
	}
	return err
}

// first returns the first of a query's results, or [ErrNotFound].
func first[T any](list []T, err error) (found T, _ error) {
	switch {
	case err != nil:
		return found, err
	case len(list) == 0:
		return found, ErrNotFound
	}
	return list[0], nil
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each calls scan for every row.
func each(ctx context.Context, db querier, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// list returns what scan makes of every row.
func list[T any](ctx context.Context, x *Index, scan func(*sql.Rows, *T) error, query string, args ...any) (all []T, err error) {
	err = each(ctx, x.reads, func(rows *sql.Rows) error {
		var one T
		err := scan(rows, &one)
		all = append(all, one)
		return err
	}, query, args...)
	return all, err
}

// Pair is a pair of the log.
type Pair struct {
	ID         schemas.PairID
	ImageID    schemas.ImageID
	Image      schemas.ImageRef
	Caption    string // only its beginning if Cut is set
	Cut        bool
	Similarity float64
	Lane       int
	Offset     int64 // of its embedding
	Group      int64 // number in the index; 0: its group has not closed
	Position   int32
	Cluster    int32
}

const pairColumns = `p.id, p.image, u.uri, p.off, p.size, p.caption, p.cut, p.sim, p.lane, p.at, coalesce(p.grp, 0), coalesce(p.pos, -1), coalesce(p.cluster, -1)`

const pairTables = " FROM pair p JOIN uri u ON u.n = p.uri "

func (p *Pair) scan(rows *sql.Rows) error {
	var id, image []byte
	var sim int64
	if err := rows.Scan(&id, &image, &p.Image.URI, &p.Image.Offset, &p.Image.Size, &p.Caption, &p.Cut, &sim, &p.Lane, &p.Offset, &p.Group, &p.Position, &p.Cluster); err != nil {
		return err
	}
	if len(id) != 16 || len(image) != 16 {
		return fmt.Errorf("an id of %d bytes in the index", len(id))
	}
	p.ID, p.ImageID, p.Similarity = schemas.PairID(id), schemas.ImageID(image), float64(sim)/simScale
	return nil
}

// Forgotten reports whether an image is forgotten: no page may show it.
func (x *Index) Forgotten(id schemas.ImageID) bool { return x.gone.Image(id) }

// Pair finds a pair by its id.
func (x *Index) Pair(ctx context.Context, id schemas.PairID) (*Pair, error) {
	return x.onePair(ctx, "WHERE p.id = ?", id[:])
}

// Member finds a pair by its place in a group.
func (x *Index) Member(ctx context.Context, group int64, pos int32) (*Pair, error) {
	return x.onePair(ctx, "WHERE p.grp = ? AND p.pos = ?", group, pos)
}

func (x *Index) onePair(ctx context.Context, where string, args ...any) (*Pair, error) {
	return first(x.pairs(ctx, where+" LIMIT 1", args...))
}

func (x *Index) pairs(ctx context.Context, where string, args ...any) ([]*Pair, error) {
	all, err := list(ctx, x, func(rows *sql.Rows, p **Pair) error {
		*p = new(Pair)
		return (*p).scan(rows)
	}, "SELECT "+pairColumns+pairTables+where, args...)
	return slices.DeleteFunc(all, func(p *Pair) bool { return x.gone.Image(p.ImageID) }), err
}

// Members returns the pairs at positions of a group, in the order of the positions. It skips pairs that are not in the
// index.
func (x *Index) Members(ctx context.Context, group int64, places []int32) ([]*Pair, error) {
	var list []*Pair
	for _, pos := range places {
		p, err := x.Member(ctx, group, pos)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// Latest returns the latest pairs.
func (x *Index) Latest(ctx context.Context, count int) ([]*Pair, error) {
	return x.pairs(ctx, "ORDER BY p.n DESC LIMIT ?", count)
}

// ClusterMates returns members of a cluster: those from a place on, and then those before it.
func (x *Index) ClusterMates(ctx context.Context, group int64, cluster int32, from int32, count int) ([]*Pair, error) {
	const members = "WHERE p.grp = ? AND p.cluster = ? AND p.pos "
	list, err := x.pairs(ctx, members+">= ? ORDER BY p.pos LIMIT ?", group, cluster, from, count)
	if err == nil && len(list) < count && from > 0 {
		var before []*Pair
		before, err = x.pairs(ctx, members+"< ? ORDER BY p.pos LIMIT ?", group, cluster, from, count-len(list))
		list = append(list, before...)
	}
	return list, err
}

// WithWords returns pairs whose captions have all words of a text, the latest first.
func (x *Index) WithWords(ctx context.Context, text string, count int) ([]*Pair, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	if len(words) == 0 {
		return nil, nil
	}
	words = words[:min(len(words), 12)]
	for i, word := range words {
		words[i] = `"` + word + `"`
	}
	return x.pairs(ctx, "WHERE p.n IN (SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?) ORDER BY p.n DESC", strings.Join(words, " "), count)
}

// Group is a group, of which at least a part was read.
type Group struct {
	N      int64
	ID     schemas.GroupID
	Offset int64 // of its manifest; -1: it has not closed
	Count  int64
	Stats  *Stats
}

// Groups lists groups, the latest first.
func (x *Index) Groups(ctx context.Context, count int) ([]Group, error) {
	return list(ctx, x, func(rows *sql.Rows, g *Group) error {
		return rows.Scan(&g.N, &g.ID.Lane, &g.ID.Seq, &g.Offset, &g.Count)
	}, "SELECT n, lane, seq, at, count FROM grp ORDER BY seq DESC, lane LIMIT ?", count)
}

// Group finds a group by its id.
func (x *Index) Group(ctx context.Context, id schemas.GroupID) (*Group, error) {
	return x.group(ctx, "lane = ? AND seq = ?", id.Lane, id.Seq)
}

// GroupN finds a group by its number in the index.
func (x *Index) GroupN(ctx context.Context, n int64) (*Group, error) {
	return x.group(ctx, "n = ?", n)
}

func (x *Index) group(ctx context.Context, where string, args ...any) (*Group, error) {
	g := &Group{Stats: newStats()}
	var raw []byte
	err := need(ctx, x, []any{&g.N, &g.ID.Lane, &g.ID.Seq, &g.Offset, &g.Count, &raw}, "SELECT n, lane, seq, at, count, stats FROM grp WHERE "+where, args...)
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, g.Stats)
	}
	return g, err
}

// Chunk returns the offset of the neighbour chunk that has a member.
func (x *Index) Chunk(ctx context.Context, group int64, pos int32) (int64, error) {
	var at int64
	err := need(ctx, x, []any{&at}, "SELECT at FROM chunk WHERE grp = ? AND start = ?", group, pos-pos%schemas.ChunkMembers)
	return at, err
}

// Sheet shows a cluster by some of its members.
type Sheet struct {
	Cluster           int32
	Size              int64
	Nearest, Farthest []int32 // positions
}

// Sheets lists the largest clusters of a group, the largest first.
func (x *Index) Sheets(ctx context.Context, group int64, from, count int) ([]Sheet, error) {
	return list(ctx, x, func(rows *sql.Rows, s *Sheet) error {
		var nearest, farthest []byte
		err := rows.Scan(&s.Cluster, &s.Size, &nearest, &farthest)
		s.Nearest, s.Farthest = positions(nearest), positions(farthest)
		return err
	}, "SELECT cluster, size, nearest, farthest FROM sheet WHERE grp = ? ORDER BY size DESC, cluster LIMIT ? OFFSET ?", group, count, from)
}

func positions(raw []byte) []int32 {
	list := make([]int32, len(raw)/4)
	for i := range list {
		list[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return list
}
