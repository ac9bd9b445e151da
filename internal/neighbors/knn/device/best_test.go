package device

import (
	"context"
	"fmt"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/knntest"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestRaises(t *testing.T) {
	var got []int
	for i := range 76 {
		if raises(i) {
			got = append(got, i)
		}
	}
	if fmt.Sprint(got) != "[0 1 2 4 8 16 32 64]" {
		t.Errorf("tiles %v raise the floors", got)
	}
}

// Floors that rise in some tiles only lose no neighbour, whatever the number of tiles.
func TestNeighborsOverManyTiles(t *testing.T) {
	m := knntest.Halves(knntest.UnitRows(rng.New(12, "many tiles"), 700, 16, 3, 0.4), 16)
	p := knn.Params{K: 6, K1: 4, K2: 30}
	want := must.Get((reference.Engine{}).Neighbors(context.Background(), m, m, p))(t)
	w := newWorker(t, 1)
	for _, columns := range []int{8, 23, 64} {
		got, err := New(w, Options{Rows: 350, Columns: columns}).Neighbors(context.Background(), m, m, p)
		if err != nil {
			t.Fatalf("tiles of %d columns: %v", columns, err)
		}
		sameResult(t, got, want, p)
	}
	if n := torch.Live(); n != 0 {
		t.Errorf("%d tensors were not given back", n)
	}
}
