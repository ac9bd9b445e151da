package forget_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func pairOf(image, caption, source string) *schemas.Pair {
	id := schemas.NewImageID([]byte(image))
	return &schemas.Pair{
		ID: schemas.NewPairID(id, caption), ImageID: id, Image: &schemas.ImageRef{URI: "file:///a.tar", Size: 1}, Caption: caption, Source: source,
	}
}

func publish(t *testing.T, log *stream.Log, pairs ...*schemas.Pair) {
	t.Helper()
	p := log.NewPublisher(stream.PublisherOptions{})
	for _, pair := range pairs {
		must.Do(t, p.Publish(t.Context(), schemas.Pairs, pair.ImageID.Lane(log.Config().Lanes), pair))
	}
	must.Do(t, p.Close(t.Context()))
}

func TestTombstonesReachAllPairsOfAnImage(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "test", 3)
	before := must.Get(forget.Open(t.Context(), log))(t)
	dog, dogToo := pairOf("dog", "a dog", "http://x/dog.jpg"), pairOf("dog", "the same dog", "http://y/copy.jpg")
	cat, catToo := pairOf("cat", "a cat", "http://x/cat.jpg"), pairOf("cat", "my cat", "http://x/cat.jpg")
	cup, tree := pairOf("cup", "a cup", ""), pairOf("tree", "a tree", "")
	publish(t, log, dog, dogToo, cat, catToo, cup, tree)
	never := schemas.NewImageID([]byte("never crawled"))
	found, err := forget.Publish(t.Context(), log, []forget.Key{
		forget.SourceKey("http://x/dog.jpg"), {Kind: forget.Pair, ID: cat.ID}, {Kind: forget.Image, ID: cup.ImageID}, {Kind: forget.Image, ID: never},
	}, time.Unix(1, 0))
	if want := (forget.Found{Asked: 4, Images: 2, Pairs: 4}); err != nil || found != want {
		t.Fatalf("found %+v, %v, want %+v", found, err, want)
	}
	after := must.Get(forget.Open(t.Context(), log))(t)
	if before.Image(dog.ImageID) {
		t.Error("a set that has not looked knows of tombstones")
	}
	must.Do(t, before.Refresh(t.Context()))
	for name, s := range map[string]*forget.Set{"opened later": after, "refreshed": before} {
		for _, p := range []*schemas.Pair{dog, dogToo, cat, catToo, cup} {
			if !s.Image(p.ImageID) || !s.Pair(p.ID) || !s.Crawled(p) {
				t.Errorf("%s: %q is not forgotten", name, p.Caption)
			}
		}
		if s.Crawled(tree) || !s.Image(never) || s.Source("") || s.Source("http://x/cat.jpg") {
			t.Errorf("%s: what was not asked for is forgotten, or the image that was never crawled is not", name)
		}
		if again := pairOf("another picture", "of a dog", "http://x/dog.jpg"); !s.Crawled(again) {
			t.Errorf("%s: what is found at an address that was forgotten is not", name)
		}
	}
}

// TestTakeOverReachesWhatIsHere takes over the tombstones of a namespace: the address has another picture here.
func TestTakeOverReachesWhatIsHere(t *testing.T) {
	broker := logtest.Broker(t)
	there, here := logtest.Open(t, broker, "there", 2), logtest.Open(t, broker, "here", 3)
	dog, other, tree := pairOf("dog", "a dog", "http://x/dog.jpg"), pairOf("another dog", "a dog", "http://x/dog.jpg"), pairOf("tree", "a tree", "")
	publish(t, there, dog, tree)
	publish(t, here, other, tree)
	must.Get(forget.Publish(t.Context(), there, []forget.Key{forget.SourceKey("http://x/dog.jpg")}, time.Unix(1, 0)))(t)
	for _, want := range []int{5, 0} { // the address, two images and two pairs; and nothing new
		if n, err := forget.TakeOver(t.Context(), here, []string{"there"}, time.Unix(2, 0)); err != nil || n != want {
			t.Errorf("took over %d tombstones, %v, want %d", n, err, want)
		}
	}
	if s := must.Get(forget.Open(t.Context(), here))(t); !s.Image(dog.ImageID) || !s.Image(other.ImageID) || !s.Pair(other.ID) || s.Crawled(tree) {
		t.Errorf("tombstones %v", s.Keys())
	}
}

func TestReportSaysWhereItIs(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "test", 1)
	w := log.NewPublisher(stream.PublisherOptions{})
	t.Cleanup(func() { _ = w.Close(t.Context()) })
	dog, tree := pairOf("dog", "a dog", ""), pairOf("tree", "a tree", "")
	publish(t, log, dog, tree, dog)
	write := func(topic schemas.Topic, seq int64, r schemas.Record) {
		t.Helper()
		must.Do(t, w.PublishSeq(t.Context(), topic, 0, seq, stream.Mark{}, r))
	}
	unit := schemas.NewFloat16s([]float32{1, 0})
	write(schemas.Embeddings, 0, &schemas.Embedding{ID: dog.ID, ImageID: dog.ImageID, Image: *dog.Image, Caption: dog.Caption, V: unit, T: unit, Similarity: 1, Model: "m"})
	write(schemas.Embeddings, 1, &schemas.Refusal{ID: tree.ID, ImageID: tree.ImageID, Reason: schemas.MaskFiltered})
	sample := func(p *schemas.Pair, position int32) schemas.Sample {
		return schemas.Sample{ID: p.ID, ImageID: p.ImageID, Image: *p.Image, Text: p.Caption, Position: position}
	}
	chunk := &schemas.NeighborChunk{IDs: append(tree.ID[:], dog.ID[:]...), Cluster: schemas.Int32s{0, 0}, ObjEnd: schemas.Int32s{0, 0}}
	for i := range chunk.Members() {
		chunk.SetCopy(i, schemas.ImageRef{URI: "file:///copies/0.tar", Offset: int64(512 + 1024*i), Size: 7, Copy: tree.ImageID})
	}
	write(schemas.Neighbors, 0, chunk)
	far := &schemas.NeighborChunk{IDs: tree.ID[:], K1: 1, SE: schemas.Int32s{-1}, Cluster: schemas.Int32s{0}, ObjEnd: schemas.Int32s{0}}
	far.SetOutside([][]schemas.Positive{{{ImageID: dog.ImageID, Image: *dog.Image}}})
	write(schemas.Neighbors, 1, far)
	for n, masks := range [][]schemas.Mask{nil, {{Sample: 0, Reason: schemas.MaskForgotten}}} {
		b := schemas.Batch{Sequence: int32(n), Batches: 2, Strategy: schemas.StrategyRandom, Samples: []schemas.Sample{sample(dog, 0), sample(tree, 1)}}
		write(schemas.Scored, int64(n), &schemas.ScoredBatch{Batch: b, Model: "c", Masked: masks})
		write(schemas.Features, int64(n), &schemas.FeatureBlock{
			Sequence: int32(n), Positions: schemas.Int32s{0, 1}, Dim: 1, V: schemas.NewFloat16s([]float32{1, 1}), T: schemas.NewFloat16s([]float32{1, 1}), Step: int64(10 + n),
		})
	}
	for _, c := range []struct {
		step int64
		path string
	}{{9, "before"}, {10, "with"}, {20, "after"}} {
		must.Do(t, w.Publish(t.Context(), schemas.ProgressLog, 0, &schemas.Progress{Kind: schemas.ProgressCheckpoint, Step: c.step, Checkpoint: c.path}))
	}
	must.Do(t, w.Flush(t.Context()))
	must.Get(forget.Publish(t.Context(), log, []forget.Key{{Kind: forget.Image, ID: dog.ImageID}}, time.Unix(1, 0)))(t)
	set := must.Get(forget.Open(t.Context(), log))(t)
	got := must.Get(set.Report(t.Context()))(t)
	counts := map[schemas.Topic]int{}
	for _, r := range got.Records {
		counts[r.Topic] = r.Count
	}
	for topic, want := range map[schemas.Topic]int{schemas.Pairs: 2, schemas.Embeddings: 1, schemas.Neighbors: 2, schemas.Scored: 2, schemas.Features: 1, schemas.Batches: 0} {
		if counts[topic] != want {
			t.Errorf("%d records of %s hold it, want %d", counts[topic], topic, want)
		}
	}
	if dogs, _ := chunk.Copy(1); !slices.Equal(got.Copies, []schemas.ImageRef{dogs}) {
		t.Errorf("copies %+v, want that of the dog alone", got.Copies)
	}
	if got.Tombstones != 2 || got.FirstStep != 10 || !slices.Equal(got.Checkpoints, []string{"with", "after"}) {
		t.Errorf("report %+v, want step 10 and the checkpoints from then on", got)
	}
}

func TestKeys(t *testing.T) {
	for _, k := range []forget.Key{forget.SourceKey("http://x/"), {Kind: forget.Image, ID: [16]byte{1}}, {Kind: forget.Pair, ID: [16]byte{15: 9}}} {
		if got, err := forget.ParseKey(k.String()); err != nil || got != k {
			t.Errorf("%s is read as %v, %v", k, got, err)
		}
	}
	for _, bad := range []string{"", "image/", "image/00", "video/000102030405060708090a0b0c0d0e0f", "pair/zz0102030405060708090a0b0c0d0e0f"} {
		if k, err := forget.ParseKey(bad); err == nil {
			t.Errorf("%q is read as %v", bad, k)
		}
	}
}

// newer is a record of a version that does not exist yet.
type newer struct{ Seal schemas.Seal }

func (newer) Schema() string  { return "pairstream.scored-batch/99" }
func (newer) Validate() error { return nil }

// TestForeignRecordsHideNothing takes back what lies behind a foreign record, in a record that was skipped and in one
// that came again. Nobody has skipped the foreign ones.
func TestForeignRecordsHideNothing(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "test", 1)
	w := log.NewPublisher(stream.PublisherOptions{})
	t.Cleanup(func() { _ = w.Close(t.Context()) })
	dog := pairOf("dog", "a dog", "")
	unit := schemas.NewFloat16s([]float32{1, 0})
	embedding := &schemas.Embedding{ID: dog.ID, ImageID: dog.ImageID, Image: *dog.Image, Caption: dog.Caption, V: unit, T: unit, Similarity: 1, Model: "m"}
	copyAt := func(offset int64) schemas.ImageRef {
		return schemas.ImageRef{URI: "file:///copies/0.tar", Offset: offset, Size: 7, Copy: dog.ImageID}
	}
	for n, seq := range []int64{0, 7, 1, 0, 2} { // as it begins, foreign, as it goes on, again, skipped
		chunk := &schemas.NeighborChunk{IDs: dog.ID[:], Cluster: schemas.Int32s{0}, ObjEnd: schemas.Int32s{0}}
		chunk.SetCopy(0, copyAt(int64(512*(n+1))))
		for topic, record := range map[schemas.Topic]schemas.Record{schemas.Neighbors: chunk, schemas.Embeddings: embedding} {
			must.Do(t, w.PublishSeq(t.Context(), topic, 0, seq, stream.Mark{}, record))
		}
	}
	must.Do(t, w.PublishSeq(t.Context(), schemas.Scored, 0, 0, stream.Mark{}, newer{}))
	must.Do(t, w.Flush(t.Context()))
	must.Do(t, log.Skip(t.Context(), stream.Skip{
		Topic: schemas.Neighbors, From: stream.Position{Offset: 4, Seq: 2}, To: stream.Position{Offset: 5, Seq: 3}, Reason: "at fault",
	}))
	found, err := forget.Publish(t.Context(), log, []forget.Key{{Kind: forget.Pair, ID: dog.ID}}, time.Unix(1, 0))
	if want := (forget.Found{Asked: 1, Images: 1}); err != nil || found != want {
		t.Fatalf("found %+v, %v, want %+v", found, err, want)
	}
	set := must.Get(forget.Open(t.Context(), log))(t)
	got := must.Get(set.Report(t.Context()))(t)
	if want := []schemas.ImageRef{copyAt(512), copyAt(1024), copyAt(1536), copyAt(2048), copyAt(2560)}; !slices.Equal(got.Copies, want) {
		t.Errorf("copies %+v, want %+v", got.Copies, want)
	}
	for _, r := range got.Records {
		if r.Count != 5 || r.Last != 4 {
			t.Errorf("%s: %d records, the last at %d, want all five", r.Topic, r.Count, r.Last)
		}
	}
	if len(got.Records) != 2 {
		t.Errorf("records %+v, want those of embeddings and neighbors", got.Records)
	}
	if len(got.Newer) != 1 || got.Newer[0].Topic != schemas.Scored || got.Newer[0].Count != 1 || got.Newer[0].Last != 0 {
		t.Errorf("of a newer version are %+v, want the record in scored", got.Newer)
	}
}
