package dataset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// idsOf returns the image ids of a corpus, sorted.
func idsOf(c *dataset.Corpus) []schemas.ImageID {
	var ids []schemas.ImageID
	for i := range c.Images() {
		_, id := c.Image(i)
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b schemas.ImageID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

func TestReadPassesOverWhatCannotBeDecoded(t *testing.T) {
	dir := crawl(t)
	rest, held, err := dataset.Read(t.Context(), []string{dir}, 0)
	if err != nil || held.Images() != 0 {
		t.Fatalf("%d held out, %v", held.Images(), err)
	}
	// There are 30 pictures with three captions each. Three files of text and two of noise are not images, though their
	// names say so.
	if rest.Images() != 30 || rest.Pairs() != 90 {
		t.Errorf("%d images with %d captions, want 30 with 90", rest.Images(), rest.Pairs())
	}
	want := map[shard.Reason]int{shard.ReasonImage: 5, shard.ReasonNoImage: 3, shard.ReasonNoText: 1, shard.ReasonCut: 1}
	if got := rest.Totals().Problems; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("problems %v, want %v", got, want)
	}
}

// TestReadHoldsOutWhatProduceKeepsBack compares the choice from one scan with that of the producer, image by image.
func TestReadHoldsOutWhatProduceKeepsBack(t *testing.T) {
	dir := crawl(t)
	for _, n := range []int{1, 7, 29} {
		rest, held := must.Get2(dataset.Read(t.Context(), []string{dir}, n))(t)
		_, kept, published := run(t, dir, dataset.ProduceOptions{Lanes: 1, HeldOut: n})
		var want []schemas.ImageID
		for _, ex := range kept {
			want = append(want, ex.ImageID)
		}
		slices.SortFunc(want, func(a, b schemas.ImageID) int { return slices.Compare(a[:], b[:]) })
		if !slices.Equal(idsOf(held), want) || rest.Images() != 30-n || rest.Pairs() != 90-3*n || held.Pairs() != 3*n {
			t.Errorf("%d held out: %v and %d others, produce keeps %v", n, idsOf(held), rest.Images(), want)
		}
		_, _, again := run(t, dir, dataset.ProduceOptions{Lanes: 1, HeldOut: n, Held: held})
		if fmt.Sprint(again) != fmt.Sprint(published) {
			t.Errorf("%d held out: told which images, produce publishes others", n)
		}
	}
	if _, _, err := dataset.Read(t.Context(), []string{dir}, 30); err == nil || !strings.Contains(err.Error(), "30 are wanted") {
		t.Errorf("holding out every image: %v", err)
	}
}
