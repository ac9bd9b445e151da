package replay

import (
	"errors"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/feedback"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// A replay counts what the original has counted, also where people have said nothing then. It goes on with what it has
// noted, and refuses a namespace in which something else counts.
func TestReplayFollowsJudgements(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	place := func(epoch int32) feedback.Place {
		return feedback.Place{Lane: 1, Group: 3, Epoch: epoch, Model: "con-d", Above: 0.8}
	}
	m := &Manifest{Judged: []feedback.Count{{Place: place(0)}, {Place: place(1), Judged: 40, Right: 30}}}
	for range 2 {
		must.Do(t, m.FollowJudgements(t.Context(), log))
	}
	for i, want := range m.Judged {
		if got, err := feedback.Take(t.Context(), log, place(int32(i))); err != nil || got != want {
			t.Errorf("epoch %d: %+v, %v, want %+v", i, got, err, want)
		}
	}
	noted, err := feedback.Notes.Read(t.Context(), log)
	if err != nil || len(noted) != 2 {
		t.Errorf("%+v, %v", noted, err)
	}
	m.Judged[1].Right = 31
	if err := m.FollowJudgements(t.Context(), log); !errors.Is(err, ErrNamespace) || !strings.Contains(err.Error(), "30 of 40 connections a match, and 31 of 40 in the original") {
		t.Errorf("another count: %v", err)
	}
}
