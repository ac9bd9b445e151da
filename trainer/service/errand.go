package service

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

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

// note goes with a share, and with the sum.
type note struct {
	Step             int64
	Batches, Learned int
	Rate             float64                   // of the sum
	IDs              map[int][]schemas.ImageID // of the momentum keys of a batch, by its slot
}

// slots tells which batches of a step a rank has. The vectors of their momentum keys lie at their place.
type slots struct{ first, own, of int }

// partOf encodes a share of a step, but for its gradients.
func partOf(step int64, s trainer.Share, at slots) (ranks.Part, error) {
	if at.first+len(s.Keys) > at.of {
		return ranks.Part{}, fmt.Errorf("momentum keys of %d batches from batch %d on, in a step of %d", len(s.Keys), at.first, at.of)
	}
	own := make(map[int]trainer.Keys)
	for i, k := range s.Keys {
		own[at.first+i] = k
	}
	vectors, ids := vectorsOf(own, at.of)
	raw, err := json.Marshal(note{Step: step, Batches: s.Batches, Learned: s.Learned, IDs: ids})
	return ranks.Part{Note: raw, Vectors: vectors}, err
}

// joinNotes makes the note of the sum. batches is what all ranks have together.
func joinNotes(notes [][]byte, batches int, rate float64) ([]byte, error) {
	total := note{Rate: rate, IDs: make(map[int][]schemas.ImageID)}
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
		total.Batches, total.Learned = total.Batches+n.Batches, total.Learned+n.Learned
		for slot, ids := range n.IDs {
			if _, twice := total.IDs[slot]; twice {
				return nil, fmt.Errorf("rank %d has the momentum keys of batch %d of step %d, as a rank before", rank, slot, total.Step)
			}
			total.IDs[slot] = ids
		}
	}
	if total.Batches != batches {
		return nil, fmt.Errorf("the ranks have taken %d batches in step %d, want %d", total.Batches, total.Step, batches)
	}
	return json.Marshal(total)
}

// shareOf decodes the sum of a step, but for its gradients.
func shareOf(step int64, p ranks.Part, at slots) (trainer.Share, float64, error) {
	var n note
	if err := json.Unmarshal(p.Note, &n); err != nil {
		return trainer.Share{}, 0, fmt.Errorf("reading the sum of step %d: %w", step, err)
	}
	if n.Step != step {
		return trainer.Share{}, 0, fmt.Errorf("rank 0 is at step %d, this rank at step %d", n.Step, step)
	}
	if len(p.Vectors) != 2*at.of {
		return trainer.Share{}, 0, fmt.Errorf("reading the sum of step %d: it has %d vectors, want %d of keys", step, len(p.Vectors), 2*at.of)
	}
	all, err := keysIn(p.Vectors, n.IDs)
	if err != nil {
		return trainer.Share{}, 0, fmt.Errorf("reading the sum of step %d: %w", step, err)
	}
	share := trainer.Share{Batches: n.Batches, Learned: n.Learned}
	for _, slot := range slices.Sorted(maps.Keys(all)) {
		share.Keys = append(share.Keys, all[slot])
	}
	return share, n.Rate, nil
}
