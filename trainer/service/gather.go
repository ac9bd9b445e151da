package service

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pairstream/pairstream/internal/model/ranks"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// With ITC_GATHER a step has two passes ([trainer.Trainer.Prepare]). A batch has its first pass when it comes, and its
// features are published then: the grouper may need them before it can make the step's last batch. The second pass
// comes when all batches of the step have had the first, or no more come. Before it the ranks exchange their keys.

// prepare makes the first pass over a batch, and learns from all when it is the last of its step.
func (l *loop) prepare(ctx context.Context, w work) error {
	started := time.Now()
	l.gathered = append(l.gathered, w) // which owns the input from here on
	end := l.metrics.Batch()
	features, err := l.core.Prepare(ctx, w.batch, w.input)
	end()
	if err != nil {
		return err
	}
	l.open, l.within = w.after, true
	l.reached(w.after)
	if err := l.publish(ctx, w, features); err != nil {
		return fmt.Errorf("publishing features of lane %d: %w", w.lane, err)
	}
	l.gathered[len(l.gathered)-1].took = time.Since(started)
	if len(l.gathered) < l.gather {
		return nil
	}
	return l.learnGathered(ctx)
}

// learnGathered makes the second pass over the batches that had the first.
func (l *loop) learnGathered(ctx context.Context) error {
	for len(l.gathered) > 0 {
		w := l.gathered[0]
		l.gathered = l.gathered[1:]
		if err := l.learn(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// freeGathered frees the inputs of batches that had no second pass.
func (l *loop) freeGathered() {
	for _, w := range l.gathered {
		w.input.Free()
	}
	l.gathered = nil
}

// Prepare implements core.
func (l *leader) Prepare(ctx context.Context, b *schemas.ScoredBatch, in trainer.Input) (*schemas.FeatureBlock, error) {
	number := l.prepared
	l.prepared++
	rank := l.places.rank(number)
	if rank == 0 {
		return l.PrepareAt(ctx, b, in, number)
	}
	r, err := l.hear(ctx, rank, b)
	if err != nil {
		return nil, err
	}
	return &r.Features, nil
}

// exchangeKeys gives all ranks the keys of the batches that were prepared, before the first of them is learned from.
func (l *leader) exchangeKeys(ctx context.Context) error {
	if l.prepared == 0 {
		return nil
	}
	batches := l.prepared
	l.prepared = 0
	return exchangeKeys(ctx, l, l.places.batches, func(own ranks.Part) (ranks.Part, error) {
		return l.group.Sum(ctx, own, func(notes [][]byte) ([]byte, error) { return joinKeyNotes(notes, batches) })
	})
}

// prepareKeys makes the first pass over a batch and keeps its input.
func (m *member) prepareKeys(ctx context.Context, t task) error {
	m.gathered = append(m.gathered, t)
	end := m.metrics()
	features, err := m.core.PrepareAt(ctx, t.batch, t.input, t.Number)
	end()
	if err != nil {
		return err
	}
	return m.tell(trainer.Result{}, features)
}

// learnGathered exchanges keys with the other ranks and makes the second pass over this rank's batches.
func (m *member) learnGathered(ctx context.Context) error {
	if m.gather == 0 {
		return nil
	}
	err := exchangeKeys(ctx, m.core, m.gather, func(own ranks.Part) (ranks.Part, error) { return m.link.Sum(ctx, own) })
	for err == nil && len(m.gathered) > 0 {
		t := m.gathered[0]
		m.gathered = m.gathered[1:]
		err = m.learn(ctx, t)
	}
	return err
}

// exchangeKeys gives this rank's keys to all others, and takes theirs. It sums the vectors, and each comes from one
// rank alone.
func exchangeKeys(ctx context.Context, core sharedCore, batches int, sum func(ranks.Part) (ranks.Part, error)) error {
	own, err := core.Prepared(ctx)
	if err != nil {
		return err
	}
	part, err := keysPart(core.Steps(), batches, own)
	if err != nil {
		return err
	}
	if part, err = sum(part); err != nil {
		return err
	}
	all, err := keysOf(core.Steps(), part)
	if err != nil {
		return err
	}
	return core.Gather(ctx, all)
}

// keysPart encodes the keys that a rank has prepared.
func keysPart(step int64, batches int, own map[int]trainer.Keys) (ranks.Part, error) {
	vectors, ids := vectorsOf(own, batches)
	raw, err := json.Marshal(note{Step: step, IDs: ids})
	return ranks.Part{Note: raw, Vectors: vectors}, err
}

// vectorsOf lays out a rank's keys of a step's batches: batch i has the vectors 2i, of images, and 2i+1, of texts.
func vectorsOf(own map[int]trainer.Keys, batches int) (vectors [][]float32, ids map[int][]schemas.ImageID) {
	vectors, ids = make([][]float32, 2*batches), make(map[int][]schemas.ImageID)
	for number, k := range own {
		ids[number], vectors[2*number], vectors[2*number+1] = k.IDs, k.Image, k.Text
	}
	return vectors, ids
}

// keysIn reverses vectorsOf, for the keys of all batches.
func keysIn(vectors [][]float32, ids map[int][]schemas.ImageID) (map[int]trainer.Keys, error) {
	all := make(map[int]trainer.Keys)
	for number := range ids {
		if number < 0 || 2*number+1 >= len(vectors) {
			return nil, fmt.Errorf("it has no batch %d", number)
		}
		all[number] = trainer.Keys{Image: vectors[2*number], Text: vectors[2*number+1], IDs: ids[number]}
	}
	return all, nil
}

// joinKeyNotes makes the note of all keys. batches is the number of batches that all ranks together must have prepared.
func joinKeyNotes(notes [][]byte, batches int) ([]byte, error) {
	total, err := addUp(notes, "keys", "prepared")
	if err == nil && len(total.IDs) != batches {
		err = fmt.Errorf("the ranks have prepared %d batches of step %d, want %d", len(total.IDs), total.Step, batches)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(total)
}

// keysOf decodes the keys of all ranks.
func keysOf(step int64, p ranks.Part) (map[int]trainer.Keys, error) {
	n, err := readNote(step, p.Note, "keys")
	if err != nil {
		return nil, err
	}
	all, err := keysIn(p.Vectors, n.IDs)
	if err != nil {
		return nil, fmt.Errorf("reading the keys of step %d: %w", step, err)
	}
	return all, nil
}

// errand is a request of rank 0 to another rank.
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

// outcome is a rank's result for a batch.
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

// note goes with the keys of a step, with a share, and with the sum.
type note struct {
	Step             int64
	Batches, Learned int                       // of a share and the sum
	Rate             float64                   // of the sum
	IDs              map[int][]schemas.ImageID // of the rows of a batch's keys, by its number or slot in the step
}

// addUp joins the notes of ranks about their keys, or about their shares. of and has name these in errors.
func addUp(notes [][]byte, of, has string) (note, error) {
	total := note{IDs: make(map[int][]schemas.ImageID)}
	for rank, raw := range notes {
		var n note
		if err := json.Unmarshal(raw, &n); err != nil {
			return total, fmt.Errorf("reading the %s of rank %d: %w", of, rank, err)
		}
		if rank == 0 {
			total.Step = n.Step
		}
		if n.Step != total.Step {
			return total, fmt.Errorf("rank %d is at step %d, rank 0 at step %d", rank, n.Step, total.Step)
		}
		total.Batches, total.Learned = total.Batches+n.Batches, total.Learned+n.Learned
		for slot, ids := range n.IDs {
			if _, twice := total.IDs[slot]; twice {
				return total, fmt.Errorf("rank %d has %s batch %d of step %d, as a rank before", rank, has, slot, total.Step)
			}
			total.IDs[slot] = ids
		}
	}
	return total, nil
}

// readNote decodes rank 0's joined note of a step.
func readNote(step int64, raw []byte, of string) (n note, err error) {
	if err := json.Unmarshal(raw, &n); err != nil {
		return n, fmt.Errorf("reading the %s of step %d: %w", of, step, err)
	}
	if n.Step != step {
		return n, fmt.Errorf("rank 0 is at step %d, this rank at step %d", n.Step, step)
	}
	return n, nil
}

// slots is a rank's run of the batches of a step: its first batch, its length, and the number of batches in the step.
// Momentum keys are stored by the batch's number.
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

// joinNotes makes the note of the sum. batches is the number of batches that all ranks together must have.
func joinNotes(notes [][]byte, batches int, rate float64) ([]byte, error) {
	total, err := addUp(notes, "share", "the momentum keys of")
	if err == nil && total.Batches != batches {
		err = fmt.Errorf("the ranks have taken %d batches in step %d, want %d", total.Batches, total.Step, batches)
	}
	if err != nil {
		return nil, err
	}
	total.Rate = rate
	return json.Marshal(total)
}

// shareOf decodes the sum of a step, but for its gradients.
func shareOf(step int64, p ranks.Part, at slots) (trainer.Share, float64, error) {
	n, err := readNote(step, p.Note, "sum")
	if err != nil {
		return trainer.Share{}, 0, err
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
