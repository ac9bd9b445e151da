package trainer

import "github.com/pairstream/pairstream/schemas"

// Losses are a step's losses before weighting, and their weighted sum. A loss of weight 0 is 0.
type Losses struct {
	ITC, ITM, MLM, Uni, Total float64
}

// add adds a share of other losses.
func (l *Losses) add(o Losses, share float64) {
	l.ITC += share * o.ITC
	l.ITM += share * o.ITM
	l.MLM += share * o.MLM
	l.Uni += share * o.Uni
	l.Total += share * o.Total
}

// Counts describe the batch of a step.
type Counts struct {
	// Samples had a part in the losses; Masked had none.
	Samples, Masked int
	// Candidates were scored by Con-D; Confirmed counts those of them above High.
	Candidates, Confirmed int
	// Anchors counts the anchors of a scored batch that have a hardest sample. HardestScored counts those of them that
	// have it among their candidates.
	Anchors, HardestScored int
	// Negatives, Ambiguous and Connections count anchors of both directions by the class of their hardest candidate. Alone
	// counts the anchors that had none.
	Negatives, Ambiguous, Connections, Alone int
	// MatchPairs went into ITM; Dropped counts the anchors that gave none.
	MatchPairs, Dropped int
	// MaskedRows and MaskedTokens went into MLM.
	MaskedRows, MaskedTokens int
}

// add adds the counts of another batch.
func (c *Counts) add(o Counts) {
	c.Samples += o.Samples
	c.Masked += o.Masked
	c.Candidates += o.Candidates
	c.Confirmed += o.Confirmed
	c.Anchors += o.Anchors
	c.HardestScored += o.HardestScored
	c.Negatives += o.Negatives
	c.Ambiguous += o.Ambiguous
	c.Connections += o.Connections
	c.Alone += o.Alone
	c.MatchPairs += o.MatchPairs
	c.Dropped += o.Dropped
	c.MaskedRows += o.MaskedRows
	c.MaskedTokens += o.MaskedTokens
}

// Whole adds up the batches of a step. The zero value is ready to use.
type Whole struct {
	losses Losses
	counts Counts
	taught int // batches that were not set aside
}

// Add takes the result of one batch.
func (w *Whole) Add(r *Result) {
	w.counts.add(r.Counts)
	if r.SetAside == "" {
		w.losses.add(r.Losses, 1)
		w.taught++
	}
}

// Take returns the mean losses of the batches that were not set aside, and the sums of all counts. It begins a new
// step.
func (w *Whole) Take() (Losses, Counts) {
	var mean Losses
	mean.add(w.losses, 1/float64(max(1, w.taught)))
	counts := w.counts
	*w = Whole{}
	return mean, counts
}

// Result is the outcome of a step.
type Result struct {
	Step     int64   // number of the optimiser's step, from 0
	Updated  bool    // the batch completed the step
	Rate     float64 // learning rate
	Losses   Losses
	Counts   Counts
	Features schemas.FeatureBlock // of the weights before the step's update
	// SetAside says why the step learned nothing from the batch; empty: it did. Its features then mask every sample.
	SetAside string
}
