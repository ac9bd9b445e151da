package service

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/stagetest"
	"github.com/pairstream/pairstream/schemas"
)

// Without candidates batches are handed on as they are. The lane keeps the state that a Con-D has left.
func TestWithoutCandidatesBatchesAreHandedOn(t *testing.T) {
	const state = `{"guard":1}`
	instruments, _ := stagetest.Instruments(t, Name)
	s := &without{[]byte(state), instruments}
	var out stagetest.Output
	for i, rec := range []schemas.Record{batch(3, 0), &schemas.Seal{Final: true}} {
		must.Do(t, s.Process(t.Context(), stagetest.Record(t, schemas.Batches, int64(i), rec), &out))
		if len(out.Events) != i+1 || out.Events[i].Topic != schemas.Scored || string(out.Events[i].Resume.State) != state {
			t.Fatalf("record %d gives %+v, want one record with the state %s", i, out.Events, state)
		}
	}
	scored, ok := out.Events[0].Record.(*schemas.ScoredBatch)
	if !ok || scored.Sequence != 3 || scored.Model != noModel || len(scored.Samples) != 3 {
		t.Errorf("a batch becomes %+v", out.Events[0].Record)
	}
	if seal, ok := out.Events[1].Record.(*schemas.Seal); !ok || !seal.Final {
		t.Errorf("a seal becomes %+v", out.Events[1].Record)
	}
}

// A batch with candidates is not handed on without their scores.
func TestCandidatesWithoutConDAreRefused(t *testing.T) {
	instruments, _ := stagetest.Instruments(t, Name)
	s, out := &without{nil, instruments}, stagetest.Output{}
	err := s.Process(t.Context(), stagetest.Record(t, schemas.Batches, 0, batch(0, 2)), &out)
	want := "has 2 candidates for each pair and no Con-D is loaded, as CANDIDATES is 0: give the discriminator the grouper's CANDIDATES, and COND_CHECKPOINT"
	if err == nil || !strings.HasSuffix(err.Error(), want) || len(out.Events) > 0 {
		t.Errorf("got %v and %+v, want %s", err, out.Events, want)
	}
}

// A recipe without Con-D wants no file of one.
func TestConDIsWantedWhereItIsAsked(t *testing.T) {
	for name, wanted := range map[string]bool{"mafa": true, "grit-vlp": false, "albef": false, "tcl": false, "gpn-s": false, "gpn-s-tcl": false} {
		_, err := config.Parse[Settings](map[string]string{"RECIPE": name, "BUCKET_ROOTS": "file:///data"})
		if got := err != nil && strings.Contains(err.Error(), "COND_CHECKPOINT is empty"); got != wanted || !wanted && err != nil {
			t.Errorf("RECIPE=%s: %v; a Con-D is wanted: %t", name, err, wanted)
		}
	}
}
