package scope

import (
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/neighbors/segment/store"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestAPlaceIsAGroupWithItsNumber notes choices of the same group with other numbers of groups that it may ask.
func TestAPlaceIsAGroupWithItsNumber(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	names := []store.Name{{Lane: 0, Seq: 2, Digest: "ab"}, {Lane: 1, Seq: 2, Digest: "cd"}}
	want := []Choice{{Place{0, 5, 2}, names}, {Place{1, 4, 1}, names[1:]}, {Place{1, 4, 2}, names}}
	for _, c := range []Choice{want[2], {want[2].Place, nil}, want[0], want[1]} { // the first of a place counts
		must.Do(t, Notes.Note(t.Context(), log, c))
	}
	noted, err := Notes.Read(t.Context(), log)
	if got := Notes.List(noted); err != nil || !slices.EqualFunc(got, want, Choice.Equal) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}
