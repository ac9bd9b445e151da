package trainer

import (
	"errors"
	"fmt"
)

// ITCTargets names what softens the row targets of the contrastive loss.
type ITCTargets string

const (
	// OneHot: nothing does (GRIT-VLP eq. 2, MAFA eq. 1).
	OneHot ITCTargets = "onehot"
	// Consistency: the softmax of the other direction's row (GRIT-VLP section 4.2, eq. 6), see [ConsistencyForm].
	Consistency ITCTargets = "consistency"
	// Smoothed: a uniform share (S-ITC, MAFA section 4.2, eq. 5).
	Smoothed ITCTargets = "smoothed"
	// Distilled: the momentum model's softmax (ALBEF; MAFA section 4.2; without a queue MDNQ, supplement G.6).
	Distilled ITCTargets = "distilled"
)

// ConsistencyForm names the reading of the consistency term.
type ConsistencyForm string

const (
	// Additive adds Lambda times the pseudo-target to the full hard target; rows sum to 1+Lambda (GRIT-VLP eq. 6 and code).
	Additive ConsistencyForm = "additive"
	// Mix is the convex mix (1-Lambda) y + Lambda p that MAFA section 4.2 describes.
	Mix ConsistencyForm = "mix"
	// Literal is Mix with MAFA's index notation taken at its word: the column of the other direction's softmax, not its
	// row. Rows do not sum to 1.
	Literal ConsistencyForm = "literal"
)

// ITCOptions sets the contrastive loss.
type ITCOptions struct {
	Targets ITCTargets
	// Lambda weighs the consistency term; 0.2 in GRIT-VLP section 4.2.
	Lambda float64
	// Form is the reading of the consistency term; [Additive] in GRIT-VLP.
	Form ConsistencyForm
	// ReportKL reports the consistency term as the divergence that GRIT-VLP eq. 6 prints, not as the cross-entropy of the
	// code. The gradient is the same; the value is lower by the pseudo-targets' entropy. Additive only.
	ReportKL bool
	// Alpha is the share of the soft part in [Smoothed] (MAFA section 4.2: 0.5; 0.1 to 0.7 do, Table 18) and in
	// [Distilled] (ALBEF: 0.4).
	Alpha float64
	// SoftFromEpoch is the first epoch of a group whose targets [Smoothed] softens. 1 in MAFA's code, whose first epoch
	// has random batches; 0 in MAFA eq. 5, and where the encoder's features group the first epoch too.
	SoftFromEpoch int32
	// AlphaRampSteps raises Alpha of [Distilled] linearly from 0 over that many steps; ALBEF takes its first epoch.
	AlphaRampSteps int64
}

// ECMOptions sets what Con-D's probabilities do (efficient connection mining, MAFA section 4.1).
type ECMOptions struct {
	// ITC, ITM and MLM let connections into that loss (MAFA supplement G.5, Table 14). All on in MAFA.
	ITC, ITM, MLM bool
	// Eliminate removes false negatives instead of converting them (ECM-E, MAFA Table 5): a connection leaves the ITC row
	// of its anchor, gives no ITM pair and no MLM row.
	Eliminate bool
	// High is the probability above which a candidate is a connection; 0.8 in MAFA section 4.1.
	High float64
	// Low is the probability below which it is a negative; 0.5 in MAFA section 4.1. Low..High is ambiguous.
	Low float64
}

// UniReading names a reading of the uni-modal loss, GPN-S eq. 10: -log of exp(v.pos/tau) over a sum. The paper prints a sum
// over the images of the batch, anchor included and positive left out.
type UniReading string

const (
	// UniInfoNCE sums over the positive and the other images of the batch: what is usual, and the default.
	UniInfoNCE UniReading = "infonce"
	// UniPrinted sums over all images of the batch, as printed; the anchor's own exp(1/tau) dominates it.
	UniPrinted UniReading = "printed"
	// UniWithPositive adds the positive to the printed sum.
	UniWithPositive UniReading = "with_pos"
)

func (u UniReading) valid() bool {
	return u == UniInfoNCE || u == UniPrinted || u == UniWithPositive
}

// MomentumOptions sets the momentum encoder, which GRIT-VLP and MAFA pre-training do without.
type MomentumOptions struct {
	// Enabled keeps an exponential average of the image and text encoders; the contrastive loss takes its keys from it.
	Enabled bool
	// Decay is the share of the average that a step keeps; 0.995 in ALBEF.
	Decay float64
	// Queue is the number of earlier momentum features that serve as further negatives in ITC; ALBEF 65,536; 0 for MDNQ.
	// It starts empty and fills up.
	Queue int
}

// AdamWOptions sets the optimiser, as ALBEF does for all papers.
type AdamWOptions struct {
	Beta1, Beta2 float64 // 0.9, 0.999
	Eps          float64 // 1e-8
	// WeightDecay is decoupled, and spares tensors of one dimension and names that end in "bias"; 0.02.
	WeightDecay float64
}

// Options are all settings of the trainer's core.
type Options struct {
	// Seed keys the masks, together with lane, group, epoch and sequence of the batch.
	Seed uint64
	// ITCWeight, ITMWeight, MLMWeight and UniWeight multiply the losses in the sum; 1 in the papers (GRIT-VLP eq. 7, MAFA
	// eq. 6, GPN-S eq. 11). A loss of weight 0 is not computed. UniWeight is 0 unless GPN-S positives are trained on.
	ITCWeight, ITMWeight, MLMWeight, UniWeight float64
	ITC                                        ITCOptions
	ECM                                        ECMOptions
	// MaskProbability of masked language modelling: 0.5 in GRIT-VLP section 4.2 and MAFA, 0.15 in ALBEF.
	MaskProbability float64
	// Uni is the reading of GPN-S eq. 10. Its vectors are the unit features of ITC and its temperature is theirs; the paper
	// leaves both open.
	Uni      UniReading
	Momentum MomentumOptions
	AdamW    AdamWOptions
	Schedule Schedule
}

// GRITVLP are the settings of GRIT-VLP's pre-training: consistency loss, no connections, no momentum encoder.
func GRITVLP() Options {
	return Options{
		ITCWeight: 1, ITMWeight: 1, MLMWeight: 1,
		ITC:             ITCOptions{Targets: Consistency, Lambda: 0.2, Form: Additive, Alpha: 0.5, SoftFromEpoch: 1},
		ECM:             ECMOptions{High: 0.8, Low: 0.5},
		MaskProbability: 0.5,
		Uni:             UniInfoNCE,
		Momentum:        MomentumOptions{Decay: 0.995},
		AdamW:           AdamWOptions{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.02},
		Schedule: Schedule{
			Kind: CosineSteps, Rate: 1e-4, Min: 1e-5, WarmupRate: 1e-5, WarmupSteps: 2000, TotalSteps: 100_000,
			Epochs: 30, EpochSteps: 10_000, WarmupStride: 100,
		},
	}
}

// MAFA are the settings of MAFA's pre-training: smoothed targets and connections in all three losses.
func MAFA() Options {
	o := GRITVLP()
	o.ITC.Targets = Smoothed
	o.ECM.ITC, o.ECM.ITM, o.ECM.MLM = true, true, true
	return o
}

// RetrievalFineTuning are the settings by which the papers fine-tune for retrieval, and with it Con-D (GRIT-VLP
// supplement 3, MAFA appendix F): one-hot ITC over a queue of momentum features, ITM with the hardest negatives, nothing
// else.
func RetrievalFineTuning() Options {
	o := GRITVLP()
	o.MLMWeight = 0
	o.ITC.Targets = OneHot
	o.Momentum = MomentumOptions{Enabled: true, Decay: 0.995, Queue: 65_536}
	o.Schedule.Rate, o.Schedule.Min, o.Schedule.WarmupRate, o.Schedule.WarmupSteps = 1e-5, 1e-6, 1e-5, 0
	return o
}

// Validate joins everything that is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	within := func(name string, v, low, high float64) {
		bad(v >= low && v <= high, "%s %g, want %g..%g", name, v, low, high)
	}
	within("ITCWeight", o.ITCWeight, 0, 1e6)
	within("ITMWeight", o.ITMWeight, 0, 1e6)
	within("MLMWeight", o.MLMWeight, 0, 1e6)
	within("UniWeight", o.UniWeight, 0, 1e6)
	bad(o.ITCWeight+o.ITMWeight+o.MLMWeight+o.UniWeight > 0, "all loss weights are 0, want one above")
	within("MaskProbability", o.MaskProbability, 0, 1)
	within("ECM.High", o.ECM.High, 0, 1)
	within("ECM.Low", o.ECM.Low, 0, o.ECM.High)
	bad(o.Uni.valid(), "Uni %q, want %q, %q or %q", o.Uni, UniInfoNCE, UniPrinted, UniWithPositive)
	errs = append(errs, o.ITC.validate(o.Momentum)...)
	within("Momentum.Decay", o.Momentum.Decay, 0, 1)
	bad(o.Momentum.Queue >= 0, "Momentum.Queue %d is negative", o.Momentum.Queue)
	bad(o.Momentum.Enabled || o.Momentum.Queue == 0, "Momentum.Queue %d without Momentum.Enabled", o.Momentum.Queue)
	bad(o.AdamW.Beta1 >= 0 && o.AdamW.Beta1 < 1, "AdamW.Beta1 %g, want 0..1, 1 excluded", o.AdamW.Beta1)
	bad(o.AdamW.Beta2 >= 0 && o.AdamW.Beta2 < 1, "AdamW.Beta2 %g, want 0..1, 1 excluded", o.AdamW.Beta2)
	bad(o.AdamW.Eps > 0, "AdamW.Eps %g, want more than 0", o.AdamW.Eps)
	within("AdamW.WeightDecay", o.AdamW.WeightDecay, 0, 1)
	errs = append(errs, o.Schedule.Validate()...)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("checking trainer options: %w", err)
	}
	return nil
}

func (o ITCOptions) validate(m MomentumOptions) []error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	switch o.Targets {
	case OneHot, Smoothed:
	case Consistency:
		bad(o.Form == Additive || o.Form == Mix || o.Form == Literal, "ITC.Form %q, want %q, %q or %q", o.Form, Additive, Mix, Literal)
		bad(o.Form != Mix && o.Form != Literal || o.Lambda <= 1, "ITC.Lambda %g, want 0..1 for the convex mix", o.Lambda)
		bad(!o.ReportKL || o.Form == Additive, "ITC.ReportKL with form %q, want %q", o.Form, Additive)
		bad(m.Queue == 0, "ITC.Targets %q with a queue of %d, want none: a row has no counterpart there", o.Targets, m.Queue)
	case Distilled:
		bad(m.Enabled, "ITC.Targets %q without Momentum.Enabled", o.Targets)
	default:
		bad(false, "ITC.Targets %q, want %q, %q, %q or %q", o.Targets, OneHot, Consistency, Smoothed, Distilled)
	}
	bad(o.Lambda >= 0, "ITC.Lambda %g is negative", o.Lambda)
	bad(o.Alpha >= 0 && o.Alpha <= 1, "ITC.Alpha %g, want 0..1", o.Alpha)
	bad(o.SoftFromEpoch >= 0, "ITC.SoftFromEpoch %d is negative", o.SoftFromEpoch)
	bad(o.AlphaRampSteps >= 0, "ITC.AlphaRampSteps %d is negative", o.AlphaRampSteps)
	return errs
}
