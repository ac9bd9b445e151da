package asked

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/segment/store"
	"github.com/pairstream/pairstream/internal/testing/logtest"
)

// TestTheFirstNoteCounts has owners that come to a place at once with segments of their own: all ask the same ones.
func TestTheFirstNoteCounts(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	p := Place{Lane: 1, Group: 4}
	var owners sync.WaitGroup
	took := make([][]store.Name, 4)
	for i := range took {
		owners.Go(func() {
			var err error
			took[i], err = Take(context.Background(), log, p, func(context.Context) ([]store.Name, error) {
				return []store.Name{{Lane: i, Seq: 3, Digest: fmt.Sprint(i)}}, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	owners.Wait()
	for _, names := range took {
		if len(names) != 1 || names[0] != took[0][0] {
			t.Errorf("owners ask %v", took)
		}
	}
	none, err := Take(t.Context(), log, Place{Group: 9}, func(context.Context) ([]store.Name, error) { return nil, nil })
	if err != nil || len(none) != 0 {
		t.Error(none, err)
	}
	n, err := Read(t.Context(), log)
	if err != nil || len(n.All()) != 2 || n.All()[0].Lane != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	if err := Note(t.Context(), log, Choice{Place: p}); err != nil {
		t.Fatal(err)
	}
	if n, err = Read(t.Context(), log); err != nil || !n.All()[1].Equal(Choice{p, took[0]}) {
		t.Errorf("a later note counts: %+v, %v", n.All(), err)
	}
}
