package service

import (
	"encoding/json"
	"fmt"

	"github.com/pairstream/pairstream/internal/ranks"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// errand is what rank 0 asks another rank to do.
type errand struct {
	Kind   errandKind
	Number int `json:",omitempty"` // of the batch in its step; of batches that the step has, for errandEncode
	Schema string
	Record []byte         `json:",omitempty"` // the batch, as it is in the log
	Masked []schemas.Mask `json:",omitempty"` // of the step when it was made before
	Decay  trainer.Decay  `json:",omitzero"`
}

type errandKind string

const (
	errandLearn    errandKind = "learn"    // from a batch
	errandEncode   errandKind = "encode"   // a batch
	errandComplete errandKind = "complete" // the step: its share is due
)

// outcome is what a rank has made of a batch.
type outcome struct {
	Result   trainer.Result // without features; of errandLearn
	Features []byte
}

// outcomeOf encodes the outcome of an errand.
func outcomeOf(r trainer.Result, f *schemas.FeatureBlock) ([]byte, error) {
	features, err := schemas.Marshal(f)
	if err != nil {
		return nil, err
	}
	r.Features = schemas.FeatureBlock{}
	return json.Marshal(outcome{r, features})
}

// readOutcome decodes the outcome for a batch.
func readOutcome(raw []byte, b *schemas.ScoredBatch) (*trainer.Result, error) {
	var o outcome
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	value, err := schemas.Unmarshal(schemas.SchemaFeatureBlock, o.Features)
	if err != nil {
		return nil, err
	}
	f, ok := value.(*schemas.FeatureBlock)
	if !ok || f.Group != b.Group || f.Epoch != b.Epoch || f.Sequence != b.Sequence {
		return nil, fmt.Errorf("it answers for another batch than batch %d of group %s, epoch %d", b.Sequence, b.Group, b.Epoch)
	}
	o.Result.Features = *f
	return &o.Result, nil
}

// note goes with the gradients of a share, and with their sum.
type note struct {
	Step             int64
	Batches, Learned int
	Rate             float64 // of the sum
	Keys             []trainer.Keys
}

// partOf encodes a share of a step.
func partOf(step int64, s trainer.Share) (ranks.Part, error) {
	raw, err := json.Marshal(note{Step: step, Batches: s.Batches, Learned: s.Learned, Keys: s.Keys})
	return ranks.Part{Note: raw, Vectors: s.Grads}, err
}

// joinNotes makes the note of the sum. batches is what all ranks have together.
func joinNotes(notes [][]byte, batches int, rate float64) ([]byte, error) {
	total := note{Rate: rate}
	for rank, raw := range notes {
		var n note
		if err := json.Unmarshal(raw, &n); err != nil {
			return nil, fmt.Errorf("reading the share of rank %d: %w", rank, err)
		}
		if rank == 0 {
			total.Step = n.Step
		}
		if n.Step != total.Step {
			return nil, fmt.Errorf("rank %d is at step %d, rank 0 at step %d", rank, n.Step, total.Step)
		}
		total.Batches, total.Learned, total.Keys = total.Batches+n.Batches, total.Learned+n.Learned, append(total.Keys, n.Keys...)
	}
	if total.Batches != batches {
		return nil, fmt.Errorf("the ranks have taken %d batches in step %d, want %d", total.Batches, total.Step, batches)
	}
	return json.Marshal(total)
}

// shareOf decodes the sum of a step.
func shareOf(step int64, p ranks.Part) (trainer.Share, float64, error) {
	var n note
	if err := json.Unmarshal(p.Note, &n); err != nil {
		return trainer.Share{}, 0, fmt.Errorf("reading the sum of step %d: %w", step, err)
	}
	if n.Step != step {
		return trainer.Share{}, 0, fmt.Errorf("rank 0 is at step %d, this rank at step %d", n.Step, step)
	}
	return trainer.Share{Batches: n.Batches, Learned: n.Learned, Grads: p.Vectors, Keys: n.Keys}, n.Rate, nil
}
