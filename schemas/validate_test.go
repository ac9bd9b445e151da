package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// spoiled is one change of a valid record. want is a part of the error, "" if the record stays valid.
type spoiled[T any] struct {
	name string
	edit func(*T)
	want string
}

func checkSpoiled[T any, P interface {
	*T
	Record
}](t *testing.T, valid func() P, tests []spoiled[T]) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := valid()
			tt.edit(r)
			err := r.Validate()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error is %v, want ErrInvalid and %q", err, tt.want)
			}
			if again := r.Validate(); fmt.Sprint(again) != fmt.Sprint(err) {
				t.Errorf("a second look says %v, the first said %v", again, err)
			}
		})
	}
}

func recaption(p *Pair, caption string) {
	p.Caption = caption
	p.ID = NewPairID(p.ImageID, caption)
}

func reinline(p *Pair, inline []byte) {
	p.Inline, p.ImageID = inline, NewImageID(inline)
	recaption(p, p.Caption)
}

func TestPairValidate(t *testing.T) {
	key := strings.Repeat("k", MaxKeyBytes)
	checkSpoiled(t, pairByRef, []spoiled[Pair]{
		{"longest key", func(p *Pair) { p.Image.URI = "s3://bucket/" + key }, ""},
		{"key a byte too long", func(p *Pair) { p.Image.URI = "s3://bucket/k" + key }, "key in image uri has 1025 bytes"},
		{"longest key, escaped", func(p *Pair) { p.Image.URI = "s3://bucket/%6b" + key[1:] }, ""},
		{"path of a file as long", func(p *Pair) { p.Image.URI = "file:///k" + key }, ""},
		{"key that is no UTF-8", func(p *Pair) { p.Image.URI = "s3://bucket/a%ffb" }, "is not UTF-8"},
		{"key with an escaped letter", func(p *Pair) { p.Image.URI = "s3://bucket/a%C3%A4b" }, ""},
		{"empty caption", func(p *Pair) { recaption(p, "") }, "caption is empty"},
		{"blank caption", func(p *Pair) { recaption(p, " \t\n\u00a0") }, "caption is empty"},
		{"shortest caption", func(p *Pair) { recaption(p, "x") }, ""},
		{"longest caption", func(p *Pair) { recaption(p, strings.Repeat("x", MaxCaptionBytes)) }, ""},
		{"caption a byte too long", func(p *Pair) { recaption(p, strings.Repeat("x", MaxCaptionBytes+1)) }, "8193 bytes"},
		{"caption in Latin-1", func(p *Pair) { recaption(p, "caf\xe9") }, "not UTF-8"},
		{"caption with a surrogate", func(p *Pair) { recaption(p, "\xed\xa0\x80") }, "not UTF-8"},
		{"another caption's id", func(p *Pair) { p.Caption += "!" }, "does not match"},
		{"another image's id", func(p *Pair) { p.ImageID[15]++ }, "does not match"},
		{"no image id", func(p *Pair) { p.ImageID = ImageID{}; recaption(p, "x") }, "image id is missing"},
		{"no image", func(p *Pair) { p.Image = nil }, "either"},
		{"both images", func(p *Pair) { p.Inline = []byte{1} }, "either"},
		{"uri empty", func(p *Pair) { p.Image.URI = "" }, "uri is empty"},
		{"uri longest", func(p *Pair) { p.Image.URI = "file:///" + strings.Repeat("u", MaxURIBytes-8) }, ""},
		{"uri too long", func(p *Pair) { p.Image.URI = strings.Repeat("u", MaxURIBytes+1) }, "2049 bytes"},
		{"uri not UTF-8", func(p *Pair) { p.Image.URI = "\xff" }, "not UTF-8"},
		{"offset 0", func(p *Pair) { p.Image.Offset = 0 }, ""},
		{"offset -1", func(p *Pair) { p.Image.Offset = -1 }, "offset -1"},
		{"a copy", func(p *Pair) { p.Image.Copy = p.ImageID }, "want the image itself"},
		{"size 0", func(p *Pair) { p.Image.Size = 0 }, "size 0"},
		{"size 1", func(p *Pair) { p.Image.Size = 1 }, ""},
		{"size largest", func(p *Pair) { p.Image.Size = MaxImageBytes }, ""},
		{"size too large", func(p *Pair) { p.Image.Size = MaxImageBytes + 1 }, "size 20971521"},
		{"last byte at the end of numbers", func(p *Pair) { p.Image.Offset = math.MaxInt64 - p.Image.Size }, ""},
		{"last byte beyond it", func(p *Pair) { p.Image.Offset = math.MaxInt64 - p.Image.Size + 1 }, "offset"},
		{"source longest", func(p *Pair) { p.Source = strings.Repeat("s", MaxURIBytes) }, ""},
		{"source too long", func(p *Pair) { p.Source = strings.Repeat("s", MaxURIBytes+1) }, "source has 2049"},
		{"source not UTF-8", func(p *Pair) { p.Source = "\xff" }, "source is not"},
		{"time before 1970", func(p *Pair) { p.CrawlTime = -1 }, ""},
	})
	checkSpoiled(t, pairInline, []spoiled[Pair]{
		{"largest", func(p *Pair) { reinline(p, make([]byte, MaxImageBytes)) }, ""},
		{"too large", func(p *Pair) { reinline(p, make([]byte, MaxImageBytes+1)) }, "20971521 bytes"},
		{"one byte", func(p *Pair) { reinline(p, []byte{0}) }, ""},
		{"other bytes", func(p *Pair) { p.Inline[0]++ }, "does not match the inline image"},
	})
}

func TestSealValidate(t *testing.T) {
	checkSpoiled(t, func() *Seal { return &Seal{} }, []spoiled[Seal]{
		{"longest note", func(s *Seal) { s.Note = strings.Repeat("n", MaxCaptionBytes) }, ""},
		{"note too long", func(s *Seal) { s.Note = strings.Repeat("n", MaxCaptionBytes+1) }, "8193 bytes"},
		{"repeats", func(s *Seal) { s.Repeats = math.MaxInt64 }, ""},
		{"repeats -1", func(s *Seal) { s.Repeats = -1 }, "-1 repeats"},
		{"note not UTF-8", func(s *Seal) { s.Note = "\xff" }, "not UTF-8"},
	})
}

// vectors sets unit vectors of dim values with the given dot product's sign.
func vectors(e *Embedding, dim int) {
	e.V, e.T, e.Similarity = unit(1, dim, 0, 1), unit(1, dim, 0, 1), 1
}

func TestEmbeddingValidate(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	checkSpoiled(t, embedding, []spoiled[Embedding]{
		{"empty caption", func(e *Embedding) { e.Caption = "" }, "caption is empty"},
		{"another caption's id", func(e *Embedding) { e.Caption += "!" }, "does not match"},
		{"a copy", func(e *Embedding) { e.Image = fixtureCopy(0) }, "want the image itself"},
		{"no image", func(e *Embedding) { e.Image = ImageRef{} }, "uri is empty"},
		{"narrowest", func(e *Embedding) { vectors(e, 1) }, ""},
		{"widest", func(e *Embedding) { vectors(e, MaxDim) }, ""},
		{"too wide", func(e *Embedding) { vectors(e, MaxDim+1) }, "4097 values"},
		{"no vectors", func(e *Embedding) { e.V, e.T = nil, nil }, "v has 0 bytes"},
		{"half a value", func(e *Embedding) { e.V = e.V[:7] }, "v has 7 bytes"},
		{"t shorter than v", func(e *Embedding) { e.T = unit(1, 3, 0, 1) }, "t has 6 bytes"},
		{"v not a unit vector", func(e *Embedding) { e.V = NewFloat16s([]float32{0.6, 0.6, 0, 0}) }, "row 0 of v has norm 0.84"},
		{"v zero", func(e *Embedding) { e.V = NewFloat16s(make([]float32, 4)) }, "norm 0"},
		{"v holds NaN", func(e *Embedding) { e.V = NewFloat16s([]float32{nan, 1, 0, 0}) }, "norm NaN"},
		{"t infinite", func(e *Embedding) { e.T = NewFloat16s([]float32{inf, 0, 0, 0}) }, "row 0 of t has norm +Inf"},
		{"norm just within the tolerance", func(e *Embedding) { vectors(e, 4); e.V = NewFloat16s([]float32{1, 0.0440, 0, 0}) }, ""},
		{"norm beyond it", func(e *Embedding) { vectors(e, 4); e.V = NewFloat16s([]float32{1, 0.0450, 0, 0}) }, "norm 1.00101"},
		{"similarity NaN", func(e *Embedding) { e.Similarity = nan }, "similarity is NaN"},
		{"similarity infinite", func(e *Embedding) { e.Similarity = inf }, "similarity is +Inf"},
		{"similarity of unrounded vectors", func(e *Embedding) { e.Similarity = 0.9609 }, ""},
		{"similarity of other vectors", func(e *Embedding) { e.Similarity = 0.9612 }, "but v . t is 0.9599"},
		{"similarity 1 exactly", func(e *Embedding) { e.T = slices.Clone(e.V); e.Similarity = 1 }, ""},
		{"no model", func(e *Embedding) { e.Model = "" }, "model is empty"},
		{"longest model", func(e *Embedding) { e.Model = strings.Repeat("m", MaxNameBytes) }, ""},
		{"model too long", func(e *Embedding) { e.Model = strings.Repeat("m", MaxNameBytes+1) }, "257 bytes"},
	})
}

func TestNeighborChunkValidate(t *testing.T) {
	checkSpoiled(t, neighborChunk, []spoiled[NeighborChunk]{
		{"lane -1", func(c *NeighborChunk) { c.Group.Lane = -1 }, "group -1/70000"},
		{"group -1", func(c *NeighborChunk) { c.Group.Seq = -1 }, "group 3/-1"},
		{"no members", func(c *NeighborChunk) { c.IDs = nil }, "0 bytes of ids"},
		{"part of an id", func(c *NeighborChunk) { c.IDs = c.IDs[:47] }, "47 bytes of ids"},
		{"an id of zeros", func(c *NeighborChunk) { clear(c.IDs[16:32]) }, "member 1 is missing"},
		{"start 0", func(c *NeighborChunk) { c.Start = 0 }, ""},
		{"start inside a chunk", func(c *NeighborChunk) { c.Start = 1 }, "multiple of 1024"},
		{"start negative", func(c *NeighborChunk) { c.Start = -ChunkMembers }, "multiple of 1024"},
		{"positions beyond int32", func(c *NeighborChunk) { c.Start = math.MaxInt32 - 1023; *c = *full(c) }, "start at position"},
		{"v2t short", func(c *NeighborChunk) { c.V2T = c.V2T[:5] }, "v2t has 5 values, want 3 x 2"},
		{"k negative", func(c *NeighborChunk) { c.K = -2 }, "want 3 x -2"},
		{"k larger than the column", func(c *NeighborChunk) { c.K = math.MaxInt32 }, "v2t has 6"},
		{"v2t -1 at the end", func(c *NeighborChunk) { c.V2T[5] = -1 }, ""},
		{"v2t -2", func(c *NeighborChunk) { c.V2T[5] = -2 }, "v2t of member 2 holds position -2"},
		{"v2t after -1", func(c *NeighborChunk) { c.V2T[4] = -1 }, "v2t of member 2 holds position 1025 after -1"},
		{"se -2", func(c *NeighborChunk) { c.SE[0] = -2 }, "se of member 0"},
		{"se after -1", func(c *NeighborChunk) { c.SE[2], c.SE[3] = -1, 0 }, "se of member 1"},
		{"se starts a row after -1", func(c *NeighborChunk) { c.SE[0], c.SE[1], c.SE[2] = -1, -1, 7 }, ""},
		{"no se", func(c *NeighborChunk) { c.K1, c.SE = 0, nil }, ""},
		{"k1 negative", func(c *NeighborChunk) { c.K1, c.SE = -1, nil }, "want 3 x -1"},
		{"cluster short", func(c *NeighborChunk) { c.Cluster = c.Cluster[:2] }, "cluster has 2"},
		{"cluster -1", func(c *NeighborChunk) { c.Cluster[2] = -1 }, "cluster of member 2 is -1"},
		{"obj_end short", func(c *NeighborChunk) { c.ObjEnd = c.ObjEnd[:2] }, "obj_end has 2"},
		{"obj_end falls", func(c *NeighborChunk) { c.ObjEnd[1] = 1 }, "obj_end goes from 2 to 1"},
		{"obj_end negative", func(c *NeighborChunk) { c.ObjEnd[0] = -1 }, "obj_end goes from 0 to -1"},
		{"obj_end beyond obj", func(c *NeighborChunk) { c.ObjEnd[2] = 4 }, "obj_end goes from 2 to 4 of 3"},
		{"obj left over", func(c *NeighborChunk) { c.ObjEnd[2] = 2 }, "obj has 3 values, obj_end says 2"},
		{"noun -1", func(c *NeighborChunk) { c.Obj[0] = -1 }, "holds noun -1"},
		{"noun twice", func(c *NeighborChunk) { c.Obj[1] = 0 }, "noun 0 after 0"},
		{"nouns descend", func(c *NeighborChunk) { c.Obj[0] = 5 }, "noun 4 after 5"},
		{"most members", func(c *NeighborChunk) { *c = *full(c) }, ""},
		{"near-duplicates", func(c *NeighborChunk) { *c = *neighborChunkNear() }, ""},
		{"part of a near-duplicate", func(c *NeighborChunk) { *c = *neighborChunkNear(); c.Near = c.Near[:31] }, "31 bytes of near-duplicates"},
		{"a near-duplicate of zeros", func(c *NeighborChunk) { *c = *neighborChunkNear(); clear(c.Near[16:]) }, "near-duplicate 1 of 2"},
		{"a near-duplicate of no member", func(c *NeighborChunk) { *c = *neighborChunkNear(); c.NearTo[0] = -1 }, "member -1"},
		{"positions short", func(c *NeighborChunk) { *c = *neighborChunkNear(); c.NearTo = c.NearTo[:1] }, "with 1 positions"},
		{"cosines short", func(c *NeighborChunk) { *c = *neighborChunkNear(); c.NearCosine = nil }, "and 0 cosines"},
		{"a cosine above 1", func(c *NeighborChunk) { *c = *neighborChunkNear(); c.NearCosine[1] = 1.5 }, "by 1.5"},
		{"a cosine NaN", func(c *NeighborChunk) { *c = *neighborChunkNear(); c.NearCosine[1] = float32(math.NaN()) }, "by NaN"},
		{"images of other groups", func(c *NeighborChunk) { *c = *neighborChunkOutside() }, ""},
		{"images of no member", func(c *NeighborChunk) { *c = *neighborChunkOutside(); c.OutEnd = nil }, "out_end has 0 values"},
		{"images of some members", func(c *NeighborChunk) { *c = *neighborChunkOutside(); c.OutEnd = c.OutEnd[:2] }, "out_end has 2 values"},
		{"images that end before they begin", func(c *NeighborChunk) { *c = *neighborChunkOutside(); c.OutEnd[1] = 0 }, "member 1 has images 1 to 0"},
		{"more images than k1", func(c *NeighborChunk) { *c = *neighborChunkOutside(); c.K1, c.SE = 1, c.SE[:3] }, "k1 is 1"},
		{"images that are not there", func(c *NeighborChunk) { *c = *neighborChunkOutside(); c.OutEnd[2] = 2 }, "3 images of other groups, out_end says 2"},
		{"images without places", func(c *NeighborChunk) { *c = *neighborChunkOutside(); c.OutPlace = c.OutPlace[:8] }, "8 values of places"},
		{"an image in no object", func(c *NeighborChunk) { *c = *neighborChunkOutside(); c.OutPlace[4] = 2 }, "in object 2 of 2"},
		{"half an address", func(c *NeighborChunk) { *c = *neighborChunkOutside(); c.OutURIs = c.OutURIs[:len(c.OutURIs)-1] }, "line feed"},
		{"an image before its object", func(c *NeighborChunk) { *c = *neighborChunkOutside(); c.OutPlace[2] = -1 }, "an image of other groups"},
		{"an image of no size", func(c *NeighborChunk) { *c = *neighborChunkOutside(); c.OutPlace[3] = 0 }, "an image of other groups"},
		{"images of other groups that come back", func(c *NeighborChunk) {
			*c = *neighborChunkOutside()
			c.SetOutside(c.Outside())
			if !reflect.DeepEqual(c, neighborChunkOutside()) {
				t.Errorf("%+v", c)
			}
		}, ""},
		{"near-duplicates of nothing", func(c *NeighborChunk) { *c = *neighborChunkOutside(); c.OutNearTo = nil }, "with 0 bytes of images"},
		{"a near-duplicate of an image without id", func(c *NeighborChunk) { *c = *neighborChunkOutside(); clear(c.OutNearTo) }, "near-duplicate 0 of 1 of other groups"},
		{"copies", func(c *NeighborChunk) { *c = *neighborChunkCopies() }, ""},
		{"copies of some members", func(c *NeighborChunk) { *c = *neighborChunkCopies(); c.CopySize = c.CopySize[:2] }, "2 sizes"},
		{"copies in no tar", func(c *NeighborChunk) { *c = *neighborChunkCopies(); c.CopyURI = "" }, "want those of 0 members"},
		{"a copy without bytes", func(c *NeighborChunk) { *c = *neighborChunkCopies(); c.CopySize[2] = 0 }, "copy of member 2 has no bytes"},
		{"a copy without id", func(c *NeighborChunk) { *c = *neighborChunkCopies(); clear(c.CopyIDs[32:]) }, "id of the copy of member 2"},
		{"a copy before its tar", func(c *NeighborChunk) { *c = *neighborChunkCopies(); c.CopyBlock[0] = -1 }, "copy of member 0"},
		{"most near-duplicates", func(c *NeighborChunk) { *c = *crowded(c, MaxNear*ChunkMembers) }, ""},
		{"too many near-duplicates", func(c *NeighborChunk) { *c = *crowded(c, MaxNear*ChunkMembers+1) }, "bytes of near-duplicates"},
		{"too many members", func(c *NeighborChunk) { c.IDs = append(full(c).IDs, c.IDs[:16]...) }, "want 16 for each"},
	})
}

// full returns c with as many members as a chunk may have.
func full(c *NeighborChunk) *NeighborChunk {
	f := &NeighborChunk{Group: c.Group, Start: c.Start, Cluster: make(Int32s, ChunkMembers), ObjEnd: make(Int32s, ChunkMembers)}
	for range ChunkMembers {
		f.IDs = append(f.IDs, c.IDs[:16]...)
	}
	return f
}

// crowded returns c with n near-duplicates.
func crowded(c *NeighborChunk, n int) *NeighborChunk {
	c.Near, c.NearTo, c.NearCosine = bytes.Repeat([]byte{7}, 16*n), make(Int32s, n), make(Floats32, n)
	return c
}

func TestGroupValidate(t *testing.T) {
	nan := math.NaN()
	checkSpoiled(t, group, []spoiled[Group]{
		{"lane -1", func(g *Group) { g.Group.Lane = -1 }, "group -1/70000"},
		{"empty", func(g *Group) { g.Count, g.Chunks = 0, 0 }, "group of 0 pairs"},
		{"a chunk missing", func(g *Group) { g.Chunks = 1 }, "1027 pairs in 1 chunks"},
		{"a chunk exactly full", func(g *Group) { g.Count, g.Chunks = 1024, 1 }, ""},
		{"count at the end of int32", func(g *Group) {
			g.Count, g.Chunks, g.EndSeq = math.MaxInt32, 1<<21, g.FirstSeq+math.MaxInt32+3
		}, ""},
		{"chunks that wrapped", func(g *Group) { g.Count, g.Chunks = math.MaxInt32, -1<<21+1 }, "chunks"},
		{"offset -1", func(g *Group) { g.FirstSeq = -1 }, "places from -1"},
		{"end before start", func(g *Group) { g.EndSeq = g.FirstSeq - 1 }, "places from"},
		{"end before start by more than int64", func(g *Group) { g.EndSeq = math.MinInt64 }, "places from"},
		{"fewer offsets than pairs", func(g *Group) { g.EndSeq-- }, ""},
		{"no room for the duplicates", func(g *Group) { g.EndSeq -= 2 }, "1027 pairs, 3 duplicates, 0 repeats"},
		{"duplicates -1", func(g *Group) { g.Duplicates = -1 }, "-1 duplicates"},
		{"room for a repeat", func(g *Group) { g.Repeats = 1 }, ""},
		{"no room for the repeats", func(g *Group) { g.Repeats = 2 }, "3 duplicates, 2 repeats"},
		{"repeats -1", func(g *Group) { g.Repeats = -1 }, "-1 repeats"},
		{"repeats beyond int64", func(g *Group) { g.Repeats = math.MaxInt64 }, "repeats"},
		{"room for one that is left out", func(g *Group) { g.Near, g.LeftOut = 1, 1 }, ""},
		{"no room for those left out", func(g *Group) { g.Near, g.LeftOut = 2, 2 }, "2 left out"},
		{"near-duplicates that stay", func(g *Group) { g.Near = 1027 }, ""},
		{"more near-duplicates than pairs", func(g *Group) { g.Near = 1028 }, "1028 near-duplicates"},
		{"more left out than near", func(g *Group) { g.LeftOut = 1 }, "0 near-duplicates, 1 of them"},
		{"left out -1", func(g *Group) { g.LeftOut = -1 }, "-1 of them left out"},
		{"dim 0", func(g *Group) { g.Dim = 0 }, "dim 0"},
		{"dim largest", func(g *Group) { g.Dim = MaxDim }, ""},
		{"dim too large", func(g *Group) { g.Dim = MaxDim + 1 }, "dim 4097"},
		{"clusters 0", func(g *Group) { g.Clusters = 0 }, "0 clusters"},
		{"a cluster for each pair", func(g *Group) { g.Clusters = g.Count }, ""},
		{"more clusters than pairs", func(g *Group) { g.Clusters = g.Count + 1 }, "1028 clusters"},
		{"similarity NaN", func(g *Group) { g.MinSimilarity = float32(nan) }, "min_similarity is NaN"},
		{"similarity infinite", func(g *Group) { g.MaxSimilarity = float32(math.Inf(1)) }, "max_similarity is +Inf"},
		{"similarities equal", func(g *Group) { g.MaxSimilarity = g.MinSimilarity }, ""},
		{"similarities exchanged", func(g *Group) { g.MaxSimilarity = -0.5 }, "from -0.25 to -0.5"},
		{"similarity just within", func(g *Group) { g.MinSimilarity, g.MaxSimilarity = -1.0029, 1.0029 }, ""},
		{"similarity beyond", func(g *Group) { g.MaxSimilarity = 1.0031 }, "max_similarity is 1.0031"},
		{"no nouns", func(g *Group) { g.Nouns = nil }, ""},
		{"nouns not in order", func(g *Group) { slices.Reverse(g.Nouns) }, `noun "dog" after "strand"`},
		{"noun twice", func(g *Group) { g.Nouns[1] = "ball" }, `noun "ball" after "ball"`},
		{"noun empty", func(g *Group) { g.Nouns[0] = "" }, "noun is empty"},
		{"noun longest", func(g *Group) { g.Nouns[2] = "s" + strings.Repeat("z", MaxNameBytes-1) }, ""},
		{"noun too long", func(g *Group) { g.Nouns[2] = "s" + strings.Repeat("z", MaxNameBytes) }, "257 bytes"},
		{"noun not UTF-8", func(g *Group) { g.Nouns[2] = "\xff" }, "noun is not UTF-8"},
		{"too many nouns", func(g *Group) { g.Nouns = make([]string, MaxNouns+1) }, "1048577 nouns"},
		{"closed by the clock", func(g *Group) { g.Closed = "timeout" }, `closed is "timeout", want one of count, seal, model`},
		{"closed by its model", func(g *Group) { g.Closed = ClosedByModel }, ""},
		{"modality unknown", func(g *Group) { g.Modality = "audio" }, `modality is "audio"`},
		{"no model", func(g *Group) { g.Model = "" }, "model is empty"},
		{"parameters 0", func(g *Group) { g.K, g.K1, g.K2, g.P, g.MinCount = 0, 0, 0, 0, 0 }, ""},
		{"k -1", func(g *Group) { g.K = -1 }, "k -1"},
		{"k1 -1", func(g *Group) { g.K1 = -1 }, "k1 -1"},
		{"k2 -1", func(g *Group) { g.K2 = -1 }, "k2 -1"},
		{"min_count -1", func(g *Group) { g.MinCount = -1 }, "min_count -1"},
		{"p 1", func(g *Group) { g.P = 1 }, ""},
		{"p above 1", func(g *Group) { g.P = math.Nextafter(1, 2) }, "p is 1"},
		{"p negative", func(g *Group) { g.P = -0.1 }, "p is -0.1"},
		{"p NaN", func(g *Group) { g.P = nan }, "p is NaN"},
		{"digest short", func(g *Group) { g.Digest = g.Digest[:31] }, "31 bytes"},
		{"digest missing", func(g *Group) { g.Digest = nil }, "0 bytes"},
	})
}

func TestRefusalValidate(t *testing.T) {
	checkSpoiled(t, refusal, []spoiled[Refusal]{
		{"no id", func(r *Refusal) { r.ID = PairID{} }, "pair id is missing"},
		{"no image id", func(r *Refusal) { r.ImageID = ImageID{} }, "image id is missing"},
		{"no reason", func(r *Refusal) { r.Reason = "" }, "reason is empty"},
		{"longest reason", func(r *Refusal) { r.Reason = strings.Repeat("r", MaxNameBytes) }, ""},
		{"reason too long", func(r *Refusal) { r.Reason = strings.Repeat("r", MaxNameBytes+1) }, "reason has 257 bytes"},
	})
}
