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
	Targets ITCTargets `env:"ITC_TARGETS" envDefault:"smoothed" desc:"what softens ITC's targets: onehot, consistency (GRIT-VLP eq. 6), smoothed (MAFA eq. 5) or distilled (ALBEF)"`
	// Lambda weighs the consistency term; 0.2 in GRIT-VLP section 4.2.
	Lambda float64 `env:"ITC_LAMBDA" envDefault:"0.2" desc:"weight of the consistency term"`
	// Form is the reading of the consistency term; [Additive] in GRIT-VLP.
	Form ConsistencyForm `env:"ITC_FORM" envDefault:"additive" desc:"reading of the consistency term: additive (code), mix or literal (MAFA's text)"`
	// ReportKL reports the consistency term as the divergence that GRIT-VLP eq. 6 prints, not as the cross-entropy of the
	// code. The gradient is the same; the value is lower by the pseudo-targets' entropy. Additive only.
	ReportKL bool `env:"ITC_REPORT_KL" envDefault:"false" desc:"report the consistency term as the divergence of GRIT-VLP eq. 6; the gradient is the same"`
	// Alpha is the share of the soft part in [Smoothed] (MAFA section 4.2: 0.5; 0.1 to 0.7 do, Table 18) and in
	// [Distilled] (ALBEF: 0.4).
	Alpha float64 `env:"ITC_ALPHA" envDefault:"0.5" desc:"share of the soft part of smoothed or distilled targets"`
	// SoftFromEpoch is the first epoch of a group whose targets [Smoothed] softens. 1 in MAFA's code, whose first epoch
	// has random batches; 0 in MAFA eq. 5, and where the encoder's features group the first epoch too.
	SoftFromEpoch int32 `env:"ITC_SOFT_FROM_EPOCH" envDefault:"1" desc:"first epoch of a group with smoothed targets: 1 as MAFA's code, 0 as its eq. 5"`
	// AlphaRampSteps raises Alpha of [Distilled] linearly from 0 over that many steps; ALBEF takes its first epoch.
	AlphaRampSteps int64 `env:"ITC_ALPHA_RAMP_STEPS" envDefault:"0" desc:"steps over which the share of distilled targets rises from 0"`
}

// ECMOptions sets what Con-D's probabilities do (efficient connection mining, MAFA section 4.1).
type ECMOptions struct {
	// ITC, ITM and MLM let connections into that loss (MAFA supplement G.5, Table 14). All on in MAFA.
	ITC bool `env:"ECM_ITC" envDefault:"true" desc:"ITC learns from connections (MAFA table 14)"`
	ITM bool `env:"ECM_ITM" envDefault:"true" desc:"ITM learns from connections"`
	MLM bool `env:"ECM_MLM" envDefault:"true" desc:"MLM learns from connections"`
	// Eliminate removes false negatives instead of converting them (ECM-E, MAFA Table 5): a connection leaves the ITC row
	// of its anchor, gives no ITM pair and no MLM row.
	Eliminate bool `env:"ECM_ELIMINATE" envDefault:"false" desc:"remove false negatives instead of converting them (ECM-E)"`
	// High is the probability above which a candidate is a connection; 0.8 in MAFA section 4.1.
	High float64 `env:"ECM_HIGH" envDefault:"0.8" desc:"probability above which a candidate is a connection"`
	// Low is the probability below which it is a negative; 0.5 in MAFA section 4.1. Low..High is ambiguous.
	Low float64 `env:"ECM_LOW" envDefault:"0.5" desc:"probability below which a candidate is a negative; from LOW to HIGH it is passed over"`
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
	Enabled bool `env:"MOMENTUM" envDefault:"false" desc:"keep a momentum encoder, whose features are ITC's keys"`
	// Decay is the share of the average that a step keeps; 0.995 in ALBEF.
	Decay float64 `env:"MOMENTUM_DECAY" envDefault:"0.995" desc:"share of the momentum weights that a step keeps"`
	// Queue is the number of earlier momentum features that serve as further negatives in ITC; ALBEF 65,536; 0 for MDNQ.
	// It starts empty and fills up.
	Queue int `env:"MOMENTUM_QUEUE" envDefault:"0" desc:"earlier momentum features that are further negatives; ALBEF 65536"`
}

// AdamWOptions sets the optimiser, as ALBEF does for all papers.
type AdamWOptions struct {
	Beta1 float64 `env:"ADAMW_BETA1" envDefault:"0.9" desc:"AdamW's decay of the first moment"`
	Beta2 float64 `env:"ADAMW_BETA2" envDefault:"0.999" desc:"AdamW's decay of the second moment"`
	Eps   float64 `env:"ADAMW_EPS" envDefault:"1e-8" desc:"AdamW's epsilon"`
	// WeightDecay is decoupled, and spares tensors of one dimension and names that end in "bias"; 0.02.
	WeightDecay float64 `env:"WEIGHT_DECAY" envDefault:"0.02" desc:"AdamW's decoupled weight decay"`
}

// Options are all settings of the trainer's core.
type Options struct {
	// Seed keys the masks and dropout, together with lane, group, epoch and sequence of the batch.
	Seed uint64 `env:"SEED" envDefault:"0" desc:"seed of the run: keys every shuffle, mask, augmentation and initial weight"`
	// ITCWeight, ITMWeight, MLMWeight and UniWeight multiply the losses in the sum; 1 in the papers (GRIT-VLP eq. 7, MAFA
	// eq. 6, GPN-S eq. 11). A loss of weight 0 is not computed. UniWeight is 0 unless GPN-S positives are trained on.
	ITCWeight float64 `env:"ITC_WEIGHT" envDefault:"1" desc:"weight of ITC in the loss"`
	ITMWeight float64 `env:"ITM_WEIGHT" envDefault:"1" desc:"weight of ITM in the loss"`
	MLMWeight float64 `env:"MLM_WEIGHT" envDefault:"1" desc:"weight of MLM in the loss"`
	UniWeight float64 `env:"UNI_WEIGHT" envDefault:"0" desc:"weight of GPN-S's uni-modal loss, eq. 10 (eq. 11: 1); 0: its positives are not even loaded"`
	ITC       ITCOptions
	ECM       ECMOptions
	// Dropout is the share of the text encoder's activations and attention that a step drops: 0.1 in the papers'
	// configuration of BERT, in both of its halves; their vision transformer drops nothing. Keyed as the masks are.
	Dropout float64 `env:"DROPOUT" envDefault:"0.1" desc:"share of the text encoder's activations that training drops"`
	// MaskProbability of masked language modelling: 0.5 in GRIT-VLP section 4.2 and MAFA, 0.15 in ALBEF.
	MaskProbability float64 `env:"MLM_PROBABILITY" envDefault:"0.5" desc:"probability that a token is masked: 0.5 in GRIT-VLP and MAFA, 0.15 in ALBEF"`
	// Uni is the reading of GPN-S eq. 10. Its vectors are the unit features of ITC and its temperature is theirs; the paper
	// leaves both open.
	Uni      UniReading `env:"UNI_READING" envDefault:"infonce" desc:"reading of GPN-S eq. 10: infonce, printed or with_pos"`
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
		Dropout:         0.1,
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
		bad(v >= low && v <= high, "%s is %g, want %g..%g", name, v, low, high)
	}
	within("ITC_WEIGHT", o.ITCWeight, 0, 1e6)
	within("ITM_WEIGHT", o.ITMWeight, 0, 1e6)
	within("MLM_WEIGHT", o.MLMWeight, 0, 1e6)
	within("UNI_WEIGHT", o.UniWeight, 0, 1e6)
	bad(o.ITCWeight+o.ITMWeight+o.MLMWeight+o.UniWeight > 0, "ITC_WEIGHT, ITM_WEIGHT, MLM_WEIGHT and UNI_WEIGHT are all 0, want one above")
	bad(o.Dropout >= 0 && o.Dropout < 1, "DROPOUT is %g, want 0..1, 1 excluded", o.Dropout)
	within("MLM_PROBABILITY", o.MaskProbability, 0, 1)
	within("ECM_HIGH", o.ECM.High, 0, 1)
	within("ECM_LOW", o.ECM.Low, 0, o.ECM.High)
	bad(o.Uni.valid(), "UNI_READING is %q, want %q, %q or %q", o.Uni, UniInfoNCE, UniPrinted, UniWithPositive)
	errs = append(errs, o.ITC.validate(o.Momentum)...)
	within("MOMENTUM_DECAY", o.Momentum.Decay, 0, 1)
	bad(o.Momentum.Queue >= 0, "MOMENTUM_QUEUE is %d, want 0 or more", o.Momentum.Queue)
	bad(o.Momentum.Enabled || o.Momentum.Queue == 0, "MOMENTUM_QUEUE is %d, want 0 without MOMENTUM=true", o.Momentum.Queue)
	bad(o.AdamW.Beta1 >= 0 && o.AdamW.Beta1 < 1, "ADAMW_BETA1 is %g, want 0..1, 1 excluded", o.AdamW.Beta1)
	bad(o.AdamW.Beta2 >= 0 && o.AdamW.Beta2 < 1, "ADAMW_BETA2 is %g, want 0..1, 1 excluded", o.AdamW.Beta2)
	bad(o.AdamW.Eps > 0, "ADAMW_EPS is %g, want more than 0", o.AdamW.Eps)
	within("WEIGHT_DECAY", o.AdamW.WeightDecay, 0, 1)
	errs = append(errs, o.Schedule.Validate()...)
	return errors.Join(errs...)
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
		bad(o.Form == Additive || o.Form == Mix || o.Form == Literal, "ITC_FORM is %q, want %q, %q or %q", o.Form, Additive, Mix, Literal)
		bad(o.Form != Mix && o.Form != Literal || o.Lambda <= 1, "ITC_LAMBDA is %g, want 0..1 for the convex mix", o.Lambda)
		bad(!o.ReportKL || o.Form == Additive, "ITC_REPORT_KL with ITC_FORM=%s, want %q", o.Form, Additive)
		bad(m.Queue == 0, "ITC_TARGETS is %q with MOMENTUM_QUEUE=%d, want none: a row has no counterpart there", o.Targets, m.Queue)
	case Distilled:
		bad(m.Enabled, "ITC_TARGETS is %q, which needs MOMENTUM=true", o.Targets)
	default:
		bad(false, "ITC_TARGETS is %q, want %q, %q, %q or %q", o.Targets, OneHot, Consistency, Smoothed, Distilled)
	}
	bad(o.Lambda >= 0, "ITC_LAMBDA is %g, want 0 or more", o.Lambda)
	bad(o.Alpha >= 0 && o.Alpha <= 1, "ITC_ALPHA is %g, want 0..1", o.Alpha)
	bad(o.SoftFromEpoch >= 0, "ITC_SOFT_FROM_EPOCH is %d, want 0 or more", o.SoftFromEpoch)
	bad(o.AlphaRampSteps >= 0, "ITC_ALPHA_RAMP_STEPS is %d, want 0 or more", o.AlphaRampSteps)
	return errs
}
