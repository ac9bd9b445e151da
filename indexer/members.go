package indexer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/pairstream/pairstream/internal/neighbors/float16rows"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/schemas"
)

// idTable numbers distinct 128-bit ids in the order of their coming: 24 to 32 bytes each, where a Go map takes twice
// that. Keys are never copied when it grows.
type idTable[K ~[16]byte] struct {
	keys  [][]K // keyChunk of them each
	n     int
	slots []int32 // position+1 of a key, 0 for none; open addressing, at most half full
}

const keyChunk = 1 << 14

// at returns the key of a number.
func (t *idTable[K]) at(i int) K { return t.keys[i/keyChunk][i%keyChunk] }

func (t *idTable[K]) slot(key K) int {
	// Ids are hashes, but not all come from us: the multiplication spreads them whatever they are.
	hash := (binary.LittleEndian.Uint64(key[:8]) ^ binary.LittleEndian.Uint64(key[8:])) * 0x9e3779b97f4a7c15
	at := int(hash >> (64 - uint(bits.TrailingZeros(uint(len(t.slots))))))
	for t.slots[at] != 0 && t.at(int(t.slots[at])-1) != key {
		at = (at + 1) & (len(t.slots) - 1)
	}
	return at
}

// find returns the number of a key, or -1.
func (t *idTable[K]) find(key K) int {
	if len(t.slots) == 0 {
		return -1
	}
	return int(t.slots[t.slot(key)]) - 1
}

// add returns the number of a key, and whether it is new.
func (t *idTable[K]) add(key K) (int, bool) {
	if 2*(t.n+1) > len(t.slots) {
		t.slots = make([]int32, max(64, 2*len(t.slots)))
		for i := range t.n {
			t.slots[t.slot(t.at(i))] = int32(i) + 1
		}
	}
	at := t.slot(key)
	if t.slots[at] != 0 {
		return int(t.slots[at]) - 1, false
	}
	switch {
	case t.n == 0:
		t.keys = append(t.keys, nil) // the first one grows
	case t.n%keyChunk == 0:
		t.keys = append(t.keys, make([]K, 0, keyChunk))
	}
	last := &t.keys[len(t.keys)-1]
	*last = append(*last, key)
	t.n++
	t.slots[at] = int32(t.n)
	return t.n - 1, true
}

// members are the pairs of a group. The group's builder adds them, and live search reads them.
type members struct {
	group schemas.GroupID
	model string
	dim   int
	v, t  *float16rows.Rows

	mu    sync.RWMutex // of pairs; held for a lookup or one addition
	pairs idTable[schemas.PairID]
}

func newMembers(group schemas.GroupID, model string, capacity, dim int) (*members, error) {
	v, err := float16rows.New(capacity, dim)
	if err != nil {
		return nil, fmt.Errorf("opening group %s: %w", group, err)
	}
	t, err := float16rows.New(capacity, dim)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening group %s: %w", group, err), v.Release())
	}
	return &members{group: group, model: model, dim: dim, v: v, t: t}, nil
}

// position returns where a pair stands in the group, or -1.
func (m *members) position(pair schemas.PairID) int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.pairs.find(pair)
}

// pairsOf returns the ids of hits.
func (m *members) pairsOf(hits []knn.Hit) []schemas.PairID {
	ids := make([]schemas.PairID, len(hits))
	m.mu.RLock()
	defer m.mu.RUnlock()
	for i, h := range hits {
		ids[i] = m.pairs.at(int(h.Row))
	}
	return ids
}

// add takes a pair that the group does not hold yet. The id comes first: a reader that sees a row finds its id.
func (m *members) add(e *schemas.Embedding) error {
	m.mu.Lock()
	m.pairs.add(e.ID)
	m.mu.Unlock()
	if err := m.v.Append(e.V); err != nil {
		return fmt.Errorf("adding the image of pair %s: %w", e.ID, err)
	}
	if err := m.t.Append(e.T); err != nil {
		return fmt.Errorf("adding the text of pair %s: %w", e.ID, err)
	}
	return nil
}

// rows returns the vectors of a modality.
func (m *members) rows(modality string) *float16rows.Rows {
	if modality == Text {
		return m.t
	}
	return m.v
}

// matrix returns the first n rows of a modality.
func (m *members) matrix(modality string, n int) knn.Matrix {
	return knn.HalfMatrix(m.rows(modality).Values(n), m.dim)
}

// retain and release count the users of the vectors.
func (m *members) retain() {
	m.v.Retain()
	m.t.Retain()
}

func (m *members) release() error { return errors.Join(m.v.Release(), m.t.Release()) }
