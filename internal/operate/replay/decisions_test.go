package replay

import (
	"errors"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/neighbors/scope"
	"github.com/pairstream/pairstream/internal/neighbors/segment/store"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// A replay asks the groups that the original has asked. It goes on with what it has noted, and refuses a namespace in
// which groups ask others.
func TestReplayAsksTheSameGroups(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	m := &Manifest{Asked: []scope.Choice{
		{Place: scope.Place{Lane: 0, Group: 0}},
		{Place: scope.Place{Lane: 1, Group: 3}, Segments: []store.Name{{Lane: 0, Seq: 2, Digest: "ab"}}},
	}}
	for range 2 {
		must.Do(t, m.FollowAsked(t.Context(), log))
	}
	noted, err := scope.Notes.Read(t.Context(), log)
	if all := scope.Notes.List(noted); err != nil || len(all) != 2 || !all[1].Equal(m.Asked[1]) {
		t.Errorf("%+v, %v", all, err)
	}
	m.Asked[1].Segments[0].Digest = "cd"
	if err := m.FollowAsked(t.Context(), log); !errors.Is(err, ErrNamespace) || !strings.Contains(err.Error(), "group 1/3 searches the segments") {
		t.Errorf("%v, want an error about group 1/3", err)
	}
}
