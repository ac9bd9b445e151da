package stream

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/pairstream/pairstream/schemas"
)

// TestSlabUsesAcknowledgedMemoryAgain gives messages memory, and acknowledges them in their order. A message keeps its
// bytes until then, and few pieces serve all.
func TestSlabUsesAcknowledgedMemoryAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := &Publisher{}
	s := slab{pub: p}
	pieces := map[*byte]bool{}
	fill := func(number int64, n int) []byte { return bytes.Repeat([]byte{byte(number), byte(number >> 8)}, n/2) }
	for range 20_000 {
		n := r.IntN(3000)
		if r.IntN(1000) == 0 {
			n = slabBytes
		}
		value := s.keep(append(s.bytes, fill(p.put, n)...))
		m := s.sequenced(schemas.Embeddings, 0, p.put, Mark{State: fill(p.put, n/10)}, schemas.SchemaEmbedding, value)
		m.number = p.put
		p.records.add(m)
		p.put++
		if s.piece != nil {
			pieces[&s.piece[:1][0]] = true
		}
		if len(p.records.waiting) > 100+r.IntN(200) {
			for _, m := range p.records.send(r.IntN(100)) {
				mark, err := parseMark(m.Headers[2].Value)
				seq, err2 := parseSeq(&Record{Headers: m.Headers})
				if err != nil || err2 != nil || seq != m.number || !bytes.Equal(m.Value, fill(seq, len(m.Value))) || !bytes.Equal(mark.State, fill(seq, len(mark.State))) {
					t.Fatalf("message %d has other bytes than it was given: seq %d, errors %v, %v", m.number, seq, err, err2)
				}
			}
			p.records.forget()
		}
	}
	if len(pieces) < 2 || len(pieces) > slabSpares {
		t.Errorf("%d pieces of memory served all", len(pieces))
	}
}
