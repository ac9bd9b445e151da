package schemas

import "fmt"

// The strategies of a batch.
const (
	StrategyRandom = "random" // uniformly random
	StrategyGRIT   = "grit"   // GRIT-VLP: a walk by similarity
	StrategyGNS    = "gns"    // GPN-S: clusters, filled up at random
	StrategyJEST   = "jest"   // JEST: the most learnable pairs of a super-batch
	StrategyB3     = "b3"     // B3: communities of a graph of ranks
	StrategyOwn    = "own"    // a function of the user's
)

// Sample is one pair of a mini-batch.
type Sample struct {
	ID       PairID    `msgpack:"id"`                 // the pair's
	ImageID  ImageID   `msgpack:"image_id"`           // the pair's
	Image    ImageRef  `msgpack:"image"`              // where the image is
	Text     string    `msgpack:"text"`               // the text to train on: the caption, or obj(v) when Replaced
	Replaced bool      `msgpack:"replaced"`           // GPN-S eq. 8: similarity <= alpha(e)
	Position int32     `msgpack:"position"`           // of the pair in the group
	Positive *Positive `msgpack:"positive,omitempty"` // one of the anchor's SE; absent: use an augmentation of the image itself
	Partners Int32s    `msgpack:"partners,omitempty"` // samples of this batch that show the same image: known positives
}

// Positive is an image that shows the same as the anchor's (GPN-S eq. 9).
type Positive struct {
	ImageID ImageID  `msgpack:"image_id"` // of the other image
	Image   ImageRef `msgpack:"image"`    // where it is
}

func (p *Positive) validate() error {
	if err := p.ImageID.validate(); err != nil {
		return err
	}
	return p.Image.validate()
}

// Batch is one mini-batch of one epoch of a group, in training order.
type Batch struct {
	Group    GroupID  `msgpack:"group"`           // whose pairs these are
	Epoch    int32    `msgpack:"epoch"`           // of the group: 0, 1, 2, ...
	Sequence int32    `msgpack:"sequence"`        // number of the batch in the epoch: 0..Batches-1
	Batches  int32    `msgpack:"batches"`         // batches in the epoch
	Strategy string   `msgpack:"strategy"`        // how its samples were chosen
	Samples  []Sample `msgpack:"samples"`         // in training order
	M        int32    `msgpack:"m"`               // candidates per anchor and direction
	I2T      Int32s   `msgpack:"i2t,omitempty"`   // samples x M: samples with the hardest texts for each image, hardest first; -1: no more candidates
	T2I      Int32s   `msgpack:"t2i,omitempty"`   // samples x M: samples with the hardest images for each text
	Again    bool     `msgpack:"again,omitempty"` // the trainer makes its features after the epoch, with the weights current at that time
	Left     int64    `msgpack:"left,omitempty"`  // batches of the lane from this one to its end, known when its last group is; absent: unknown
}

// Schema implements [Record].
func (*Batch) Schema() string { return SchemaBatch }

// Validate implements [Record].
func (b *Batch) Validate() error {
	if err := b.Group.validate(); err != nil {
		return err
	}
	n := len(b.Samples)
	switch {
	case n == 0 || n > MaxBatch:
		return invalid("batch of %d samples, want 1..%d", n, MaxBatch)
	case b.Epoch < 0 || b.Sequence < 0 || b.Sequence >= b.Batches:
		return invalid("epoch %d, batch %d of %d", b.Epoch, b.Sequence, b.Batches)
	case b.Left < 0:
		return invalid("%d batches are left", b.Left)
	case b.M < 0 || int64(len(b.I2T)) != int64(n)*int64(b.M) || len(b.T2I) != len(b.I2T):
		return invalid("%d and %d candidates, want %d x %d", len(b.I2T), len(b.T2I), n, b.M)
	}
	if err := validateOneOf("strategy", b.Strategy, StrategyRandom, StrategyGRIT, StrategyGNS, StrategyJEST, StrategyB3, StrategyOwn); err != nil {
		return err
	}
	for i := range b.Samples {
		if err := b.Samples[i].validate(); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
	}
	return b.validateLinks()
}

func (s *Sample) validate() error {
	if err := validateCaption("text", s.Text); err != nil {
		return err
	}
	if err := s.Image.validate(); err != nil {
		return err
	}
	switch {
	case s.Position < 0:
		return invalid("position %d is negative", s.Position)
	case s.Replaced && s.ID == PairID{}:
		return invalid("pair id is missing")
	case !s.Replaced: // the text is the caption
		if err := s.ID.validatePair(s.ImageID, s.Text); err != nil {
			return err
		}
	}
	if err := s.ImageID.validate(); err != nil {
		return err
	}
	if s.Positive == nil {
		return nil
	}
	if err := s.Positive.validate(); err != nil {
		return fmt.Errorf("positive: %w", err)
	}
	return nil
}

// validateLinks checks the references from sample to sample: partners and candidates.
func (b *Batch) validateLinks() error {
	n, m := len(b.Samples), int(b.M)
	taken := make([]int32, n) // anchor+1 when a sample is the anchor's partner or candidate; negative for T2I
	for i := range b.Samples {
		anchor := int32(i) + 1
		for _, p := range b.Samples[i].Partners {
			switch {
			case p < 0 || int(p) >= n || int(p) == i || taken[p] == anchor:
				return invalid("sample %d of %d has partner %d, or twice", i, n, p)
			case b.Samples[p].ImageID != b.Samples[i].ImageID:
				return invalid("sample %d has partner %d, which shows another image", i, p)
			}
			taken[p] = anchor
		}
		if err := validateCandidates(b.I2T[i*m:(i+1)*m], i, taken, anchor); err != nil {
			return fmt.Errorf("i2t: %w", err)
		}
		for _, p := range b.Samples[i].Partners {
			taken[p] = -anchor
		}
		if err := validateCandidates(b.T2I[i*m:(i+1)*m], i, taken, -anchor); err != nil {
			return fmt.Errorf("t2i: %w", err)
		}
	}
	return nil
}

// validateCandidates checks the candidates of one anchor: other samples, each once, none of them a partner. After the
// last candidate there may be only -1. It marks the candidates in taken.
func validateCandidates(row Int32s, anchor int, taken []int32, mark int32) error {
	ended := false
	for _, c := range row {
		switch {
		case c == -1:
			ended = true
			continue
		case c < 0 || int(c) >= len(taken) || int(c) == anchor:
			return invalid("anchor %d of %d has candidate %d", anchor, len(taken), c)
		case ended:
			return invalid("anchor %d has candidate %d after -1", anchor, c)
		case taken[c] == mark:
			return invalid("anchor %d has candidate %d twice, or as a partner too", anchor, c)
		}
		taken[c] = mark
	}
	return nil
}

// ScoredBatch is a batch with Con-D's probability of a match for every candidate (MAFA section 4.1).
type ScoredBatch struct {
	Batch
	Model    string   `msgpack:"model"`               // fingerprint of Con-D's weights
	ProbI2T  Floats32 `msgpack:"prob_i2t,omitempty"`  // samples x M, beside I2T; 0 where there is no candidate
	ProbT2I  Floats32 `msgpack:"prob_t2i,omitempty"`  // samples x M, beside T2I
	Masked   []Mask   `msgpack:"masked,omitempty"`    // samples that no step may learn from, in their order; their probabilities are 0
	RuledOut int32    `msgpack:"ruled_out,omitempty"` // candidates whose probability is 0 because Con-D's own vectors were too far apart, so that its matching head was not asked
	Drawn    string   `msgpack:"drawn,omitempty"`     // seed and augmentation by which Con-D's images were drawn; absent: it saw none or plain ones, or they were not recorded
	Check    *Check   `msgpack:"check,omitempty"`     // measurement of the guard of connections; absent: the guard is off, or an earlier batch found that Con-D can be trusted
	High     float64  `msgpack:"high,omitempty"`      // probability above which a candidate is a connection, by ECM_HIGH or the guard; absent: ECM_HIGH of the reader
}

// Schema implements [Record].
func (*ScoredBatch) Schema() string { return SchemaScoredBatch }

// Validate implements [Record].
func (s *ScoredBatch) Validate() error {
	if err := s.Batch.Validate(); err != nil {
		return err
	}
	if err := validateProbabilities("prob_i2t", s.ProbI2T, s.I2T); err != nil {
		return err
	}
	if err := validateProbabilities("prob_t2i", s.ProbT2I, s.T2I); err != nil {
		return err
	}
	if err := validateName("model", s.Model, MaxNameBytes); err != nil {
		return err
	}
	if err := validateMasks(s.Masked, len(s.Samples)); err != nil {
		return err
	}
	if s.Drawn != "" {
		if err := validateName("drawn", s.Drawn, MaxNameBytes); err != nil {
			return err
		}
	}
	if !(s.High >= 0 && s.High <= 1) {
		return invalid("high is %g, want 0..1", s.High)
	}
	if s.Check != nil {
		if err := s.Check.validate(s.M, len(s.Samples), s.High); err != nil {
			return err
		}
	}
	if err := s.validateRuledOut(); err != nil {
		return err
	}
	return s.validateMasked()
}

// validateRuledOut checks that there are enough candidates with probability 0 for those ruled out.
func (s *ScoredBatch) validateRuledOut() error {
	var zeros int32
	for k := range s.I2T {
		if s.I2T[k] >= 0 && s.ProbI2T[k] == 0 {
			zeros++
		}
		if s.T2I[k] >= 0 && s.ProbT2I[k] == 0 {
			zeros++
		}
	}
	if s.RuledOut < 0 || s.RuledOut > zeros {
		return invalid("%d candidates are ruled out, and %d have probability 0", s.RuledOut, zeros)
	}
	return nil
}

// validateMasked checks that Con-D was asked nothing about a masked sample.
func (s *ScoredBatch) validateMasked() error {
	masked := make([]bool, len(s.Samples))
	for _, m := range s.Masked {
		masked[m.Sample] = masked[m.Sample] || !m.Positive
	}
	for k := range s.I2T {
		anchor := k / int(s.M)
		for _, way := range []struct {
			candidate int32
			prob      float32
		}{{s.I2T[k], s.ProbI2T[k]}, {s.T2I[k], s.ProbT2I[k]}} {
			if way.prob != 0 && (masked[anchor] || masked[way.candidate]) {
				return invalid("sample %d or %d is masked, but their probability is %g", anchor, way.candidate, way.prob)
			}
		}
	}
	return nil
}

func validateProbabilities(field string, probs Floats32, candidates Int32s) error {
	if len(probs) != len(candidates) {
		return invalid("%s has %d values for %d candidates", field, len(probs), len(candidates))
	}
	for i, p := range probs {
		switch {
		case !(p >= 0 && p <= 1): // the negation also refuses NaN
			return invalid("%s holds %g, want 0..1", field, p)
		case candidates[i] == -1 && p != 0:
			return invalid("%s holds %g where there is no candidate", field, p)
		}
	}
	return nil
}

// The reasons of a [Mask] and of a [Refusal].
const (
	MaskMissing   = "missing"   // the object is gone, or ends before the image
	MaskChanged   = "changed"   // the bytes are another image's
	MaskForbidden = "forbidden" // the bucket does not hand the object out, or its roots do not cover it
	MaskUnusable  = "unusable"  // the bytes are there, but are no image that may be decoded
	MaskFiltered  = "filtered"  // the pair does not meet a rule of the crawl; of a refusal alone
	MaskForgotten = "forgotten" // the pair is forgotten
	MaskInline    = "inline"    // the image came inline, and there is no folder to put it in; of a refusal alone
)

// Mask takes one image of a batch out of training: it could be read when the pair was embedded, and cannot be now. The
// sample keeps its row everywhere, so no other row moves. Its pixels are 0, it has no part in any loss, neither as an
// anchor nor as a candidate, and its row of features still travels.
type Mask struct {
	Sample   int32  `msgpack:"sample"`             // its place in the batch
	Positive bool   `msgpack:"positive,omitempty"` // only the image of its positive: the sample's own image stands in for that
	Reason   string `msgpack:"reason"`             // why, in a word; readers take any
}

// validateMasks checks that masks name samples of a batch of n, each image once, in order.
func validateMasks(masks []Mask, n int) error {
	for i, m := range masks {
		if m.Sample < 0 || int(m.Sample) >= n {
			return invalid("sample %d of %d is masked", m.Sample, n)
		}
		if i > 0 && !masks[i-1].before(m) {
			return invalid("mask %d is of sample %d, after sample %d: want each once, in order", i, m.Sample, masks[i-1].Sample)
		}
		if err := validateName("reason of a mask", m.Reason, MaxNameBytes); err != nil {
			return err
		}
	}
	return nil
}

func (m Mask) before(o Mask) bool {
	return m.Sample < o.Sample || m.Sample == o.Sample && !m.Positive && o.Positive
}
