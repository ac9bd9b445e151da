package decision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

type drawn struct {
	Place int `json:"place"`
	By    int `json:"by"`
}

var draws = Kind[int, drawn]{Prefix: "draws/", About: "notes about draws", Place: func(d drawn) int { return d.Place }, Compare: cmp.Compare[int]}

// TestTheFirstNoteCounts has owners that come to a place at once with notes of their own: all take the same one. Later
// notes and those of other kinds change nothing.
func TestTheFirstNoteCounts(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	other := draws
	other.Prefix = "others/"
	must.Do(t, other.Note(t.Context(), log, drawn{7, 99}))
	var owners sync.WaitGroup
	took := make([]drawn, 4)
	for i := range took {
		owners.Go(func() {
			var err error
			took[i], err = draws.Take(context.Background(), log, 7, func(context.Context) (drawn, error) { return drawn{7, i}, nil })
			must.Check(t, err)
		})
	}
	owners.Wait()
	for _, d := range took {
		if d != took[0] || d.By == 99 {
			t.Errorf("owners take %v", took)
		}
	}
	must.Do(t, draws.Note(t.Context(), log, drawn{7, 50}, drawn{3, 1}))
	counts, err := draws.Read(t.Context(), log)
	if all := draws.List(counts); err != nil || len(all) != 2 || all[0] != (drawn{3, 1}) || all[1] != took[0] {
		t.Errorf("%v count, %v", all, err)
	}
}

// TestWhatCannotBeTaken fails to propose, and meets a note that is damaged.
func TestWhatCannotBeTaken(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 1)
	wrong := errors.New("nothing to draw from")
	if _, err := draws.Take(t.Context(), log, 1, func(context.Context) (drawn, error) { return drawn{}, wrong }); !errors.Is(err, wrong) {
		t.Errorf("error %v, want %v", err, wrong)
	}
	p := log.NewPublisher(stream.PublisherOptions{Name: "control"})
	must.Do(t, p.Note(t.Context(), schemas.Control, "draws/a", "no draw"))
	must.Do(t, p.Close(t.Context()))
	var syntax *json.UnmarshalTypeError
	if _, err := draws.Read(t.Context(), log); !errors.As(err, &syntax) || !strings.Contains(err.Error(), "reading the notes about draws: ") {
		t.Errorf("error %v", err)
	}
}
