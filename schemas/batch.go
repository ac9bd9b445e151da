package schemas

import (
	"fmt"
	"math"
)

// MaxBatch bounds the samples of a mini-batch.
const MaxBatch = 1 << 16

// Sample is one pair of a mini-batch.
type Sample struct {
	ID       PairID    `msgpack:"id"`
	ImageID  ImageID   `msgpack:"image_id"`
	Image    ImageRef  `msgpack:"image"`
	Text     string    `msgpack:"text"`               // the text to train on: the caption, or obj(v) when Replaced
	Replaced bool      `msgpack:"replaced"`           // GPN-S eq. 8: similarity <= alpha(e)
	Position int32     `msgpack:"position"`           // in the group
	Positive *Positive `msgpack:"positive,omitempty"` // one of SE; absent: use an augmentation of the image itself
	Partners Int32s    `msgpack:"partners,omitempty"` // samples of this batch that show the same image: known positives
}

// Positive is an image that shows the same as the anchor's (GPN-S eq. 9).
type Positive struct {
	ImageID ImageID  `msgpack:"image_id"`
	Image   ImageRef `msgpack:"image"`
}

// Batch is one mini-batch of one epoch of a group, in training order.
type Batch struct {
	Group    GroupID  `msgpack:"group"`
	Epoch    int32    `msgpack:"epoch"`
	Sequence int32    `msgpack:"sequence"` // in the epoch
	Batches  int32    `msgpack:"batches"`  // in the epoch
	Strategy string   `msgpack:"strategy"`
	Samples  []Sample `msgpack:"samples"`
	M        int32    `msgpack:"m"`   // candidates per anchor and direction
	I2T      Int32s   `msgpack:"i2t"` // samples x M: hardest texts of each image, hardest first; -1: no more candidates
	T2I      Int32s   `msgpack:"t2i"` // samples x M: hardest images of each text
}

// Schema implements [Record].
func (*Batch) Schema() string { return SchemaBatch }

// Validate implements [Record].
func (b *Batch) Validate() error {
	n := len(b.Samples)
	switch {
	case n == 0 || n > MaxBatch:
		return fmt.Errorf("%w: batch of %d samples, want 1..%d", ErrInvalid, n, MaxBatch)
	case b.Epoch < 0 || b.Sequence < 0 || b.Sequence >= b.Batches:
		return fmt.Errorf("%w: epoch %d, batch %d of %d", ErrInvalid, b.Epoch, b.Sequence, b.Batches)
	case b.M < 0 || int64(len(b.I2T)) != int64(n)*int64(b.M) || len(b.T2I) != len(b.I2T):
		return fmt.Errorf("%w: %d and %d candidates, want %d x %d", ErrInvalid, len(b.I2T), len(b.T2I), n, b.M)
	}
	for i := range b.Samples {
		s := &b.Samples[i]
		if err := validateCaption("text", s.Text); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
		if err := s.Image.validate(); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
		if s.Positive != nil {
			if err := s.Positive.Image.validate(); err != nil {
				return fmt.Errorf("positive of sample %d: %w", i, err)
			}
		}
		for _, p := range s.Partners {
			if p < 0 || int(p) >= n || int(p) == i {
				return fmt.Errorf("%w: sample %d has partner %d", ErrInvalid, i, p)
			}
		}
	}
	for i, c := range b.I2T {
		if anchor := int32(i / int(b.M)); !validCandidate(c, anchor, n) || !validCandidate(b.T2I[i], anchor, n) {
			return fmt.Errorf("%w: anchor %d has candidates %d and %d of %d samples", ErrInvalid, anchor, c, b.T2I[i], n)
		}
	}
	return nil
}

func validCandidate(c, anchor int32, n int) bool {
	return c == -1 || c >= 0 && int(c) < n && c != anchor
}

// ScoredBatch is a batch with Con-D's probability of a match for every candidate (MAFA section 4.1).
type ScoredBatch struct {
	Batch
	Model   string   `msgpack:"model"`    // fingerprint of Con-D's weights
	ProbI2T Floats32 `msgpack:"prob_i2t"` // samples x M, beside I2T; 0 where there is no candidate
	ProbT2I Floats32 `msgpack:"prob_t2i"` // samples x M, beside T2I
}

// Schema implements [Record].
func (*ScoredBatch) Schema() string { return SchemaScoredBatch }

// Validate implements [Record].
func (s *ScoredBatch) Validate() error {
	if err := s.Batch.Validate(); err != nil {
		return err
	}
	if len(s.ProbI2T) != len(s.I2T) || len(s.ProbT2I) != len(s.T2I) {
		return fmt.Errorf("%w: %d and %d probabilities for %d candidates", ErrInvalid, len(s.ProbI2T), len(s.ProbT2I), len(s.I2T))
	}
	for i := range s.ProbI2T {
		if !isProbability(s.ProbI2T[i]) || !isProbability(s.ProbT2I[i]) {
			return fmt.Errorf("%w: probabilities %g and %g", ErrInvalid, s.ProbI2T[i], s.ProbT2I[i])
		}
	}
	return nil
}

func isProbability(p float32) bool { return p >= 0 && p <= 1 }

// FeatureBlock is what the training model made of a mini-batch, in training order: the features by which the grouper
// groups the next epoch (GRIT-VLP section 3.2).
type FeatureBlock struct {
	Group     GroupID  `msgpack:"group"`
	Epoch     int32    `msgpack:"epoch"`
	Sequence  int32    `msgpack:"sequence"`  // the batch's
	Positions Int32s   `msgpack:"positions"` // in the group, one a row
	Dim       int32    `msgpack:"dim"`
	V         Float16s `msgpack:"v"` // rows x Dim, unit vectors
	T         Float16s `msgpack:"t"`
	Step      int64    `msgpack:"step"` // the training step that made them
}

// Schema implements [Record].
func (*FeatureBlock) Schema() string { return SchemaFeatureBlock }

// Validate implements [Record].
func (f *FeatureBlock) Validate() error {
	if f.Dim <= 0 || f.Dim > MaxDim || len(f.Positions) == 0 || len(f.Positions) > MaxBatch {
		return fmt.Errorf("%w: %d rows of %d values", ErrInvalid, len(f.Positions), f.Dim)
	}
	if err := f.V.checkUnitRows("v", len(f.Positions), int(f.Dim)); err != nil {
		return err
	}
	return f.T.checkUnitRows("t", len(f.Positions), int(f.Dim))
}

// Progress is a report of the trainer or of an evaluation. Time is informative; nothing is decided by it.
type Progress struct {
	Kind       string             `msgpack:"kind"` // "step", "eval" or "checkpoint"
	Step       int64              `msgpack:"step"`
	Values     map[string]float64 `msgpack:"values,omitempty"` // losses, learning rate, counts, recalls
	Checkpoint string             `msgpack:"checkpoint,omitempty"`
	Time       int64              `msgpack:"time,omitempty"` // Unix milliseconds
}

// Schema implements [Record].
func (*Progress) Schema() string { return SchemaProgress }

// Validate implements [Record].
func (p *Progress) Validate() error {
	for name, v := range p.Values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: %s is %g", ErrInvalid, name, v)
		}
	}
	return nil
}
