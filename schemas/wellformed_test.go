package schemas

import (
	"runtime"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// large returns records of the sizes that a run has.
func large(t testing.TB) map[string]Record {
	const dim, samples = 256, 96
	e := embedding()
	e.V, e.T, e.Similarity = unit(1, dim, 0, 1), unit(1, dim, 0, 1), 1
	b := &Batch{Group: GroupID{Lane: 1, Seq: 2}, Batches: 1, Strategy: StrategyGRIT, M: 2}
	for i := range samples {
		image := NewImageID([]byte{byte(i)})
		ref := fixtureRef()
		b.Samples = append(b.Samples, Sample{
			ID: NewPairID(image, "a dog runs along the beach with a ball"), ImageID: image, Image: ref,
			Text: "a dog runs along the beach with a ball", Position: int32(i),
		})
		next, after := int32((i+1)%samples), int32((i+2)%samples)
		b.I2T, b.T2I = append(b.I2T, next, after), append(b.T2I, after, next)
	}
	c := &NeighborChunk{IDs: make([]byte, 16*ChunkMembers), K: 10, K1: 5}
	for i := range ChunkMembers {
		c.IDs[16*i] = 1
		c.Cluster, c.ObjEnd = append(c.Cluster, int32(i)), append(c.ObjEnd, int32(i+1))
		c.Obj = append(c.Obj, int32(i))
		c.V2T, c.SE = append(c.V2T, make(Int32s, 10)...), append(c.SE, make(Int32s, 5)...)
	}
	f := &FeatureBlock{Positions: make(Int32s, samples), Dim: dim, V: unit(samples, dim, 0, 1), T: unit(samples, dim, 3, 1)}
	return map[string]Record{"pair": pairByRef(), "embedding": e, "batch": b, "neighbor-chunk": c, "feature-block": f}
}

func TestWalkerAllocatesNothing(t *testing.T) {
	for name, r := range large(t) {
		value, s := mustMarshal(t, r), recordTypes[r.Schema()].shape
		allocations := testing.AllocsPerRun(100, func() {
			must.Do(t, checkWellFormed(value, s))
		})
		if allocations != 0 {
			t.Errorf("%s: %g allocations", name, allocations)
		}
	}
}

// TestRefusalAllocatesLittle checks that a refused value does not make the decoder allocate what the value asked for.
func TestRefusalAllocatesLittle(t *testing.T) {
	hostile := map[string]string{
		SchemaBatch:    "\x81\xa7samples\xdd\xff\xff\xff\xff",
		SchemaPair:     "\x81\xa6inline\xc6\xff\xff\xff\xff",
		SchemaGroup:    "\x81\xa5nouns\xdd\xff\xff\xff\xff",
		SchemaProgress: "\x81\xa6values\xdf\xff\xff\xff\xff",
		SchemaSeal:     "\x81\xa1x\xdf\xff\xff\xff\xff",
	}
	for schema, value := range hostile {
		if allocated := allocatedBy(func() { _, _ = Unmarshal(schema, []byte(value)) }); allocated > 1<<16 {
			t.Errorf("%s: %d bytes allocated for a value of %d", schema, allocated, len(value))
		}
	}
}

// allocatedBy returns the number of bytes that f allocates. Nothing else may run meanwhile.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func BenchmarkWalk(b *testing.B) {
	for name, r := range large(b) {
		value, s := mustMarshal(b, r), recordTypes[r.Schema()].shape
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			b.ReportAllocs()
			for b.Loop() {
				must.Do(b, checkWellFormed(value, s))
			}
		})
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	for name, r := range large(b) {
		value := mustMarshal(b, r)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			b.ReportAllocs()
			for b.Loop() {
				must.Get(Unmarshal(r.Schema(), value))(b)
			}
		})
	}
}

func BenchmarkMarshal(b *testing.B) {
	for name, r := range large(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mustMarshal(b, r)
			}
		})
	}
}

// TestPairIDOf reads the id wherever it stands, and of nothing that has none.
func TestPairIDOf(t *testing.T) {
	id := pairByRef().ID
	own := "\xa2id\xc4\x10" + string(id[:])
	for name, r := range fixtures() {
		if p, ok := r.(*Pair); ok {
			if got, ok := PairIDOf(mustMarshal(t, p)); !ok || got != p.ID {
				t.Errorf("%s: %s, %t, want %s", name, got, ok, p.ID)
			}
		}
	}
	for name, c := range map[string]struct {
		value string
		want  bool
	}{
		"behind unknown keys":   {"\x83\xa1x\x92\x01\xa1y\xa1y\xc0" + own, true},
		"before broken bytes":   {"\x82" + own + "\xa6inline\xc6\xff\xff\xff\xff", true},
		"behind broken bytes":   {"\x82\xa6inline\xc6\xff\xff\xff\xff" + own, false},
		"no id":                 {"\x81\xa1x\x01", false},
		"an id of 15 bytes":     {"\x81\xa2id\xc4\x0f" + string(id[:15]), false},
		"an id that is a str":   {"\x81\xa2id\xb0" + string(id[:]), false},
		"cut":                   {"\x81" + own[:12], false},
		"a list":                {"\x91\x01", false},
		"a key that is no text": {"\x81\x01\x01", false},
		"a huge map":            {"\xdf\xff\xff\xff\xff", false},
		"empty":                 {"", false},
	} {
		if got, ok := PairIDOf([]byte(c.value)); ok != c.want || ok && got != id {
			t.Errorf("%s: %s, %t", name, got, ok)
		}
	}
}
