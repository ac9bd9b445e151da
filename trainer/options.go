package trainer

import (
	"github.com/pairstream/pairstream/internal/base/invalid"
)

// ITCLoss names the contrastive loss.
type ITCLoss string

const (
	// Softmax is the cross-entropy of every row (GRIT-VLP eq. 1 and 2, MAFA eq. 1).
	Softmax ITCLoss = "softmax"
	// Triple is the mean of TCL's six terms: across and within modalities, and with local features (TCL 3.2 to 3.4). It
	// needs a momentum encoder, which sees a second view of every image.
	Triple ITCLoss = "triple"
	// Sigmoid decides every pair of an image and a text by itself (SigLIP, Zhai et al. 2023, eq. 1).
	Sigmoid ITCLoss = "sigmoid"
)

// ITCTargets names what softens the row targets of the contrastive loss.
type ITCTargets string

const (
	// OneHot softens nothing (GRIT-VLP eq. 2, MAFA eq. 1).
	OneHot ITCTargets = "onehot"
	// Consistency takes the softmax of the other direction's row (GRIT-VLP section 4.2, eq. 6), see [ConsistencyForm].
	Consistency ITCTargets = "consistency"
	// Smoothed takes a uniform share (S-ITC, MAFA section 4.2, eq. 5).
	Smoothed ITCTargets = "smoothed"
	// Distilled takes the momentum model's softmax (ALBEF; MAFA section 4.2; without a queue MDNQ, supplement G.6).
	Distilled ITCTargets = "distilled"
)

// ConsistencyForm names the reading of the consistency term.
type ConsistencyForm string

const (
	// Additive adds Lambda times the pseudo-target to the full hard target; rows sum to 1+Lambda (GRIT-VLP eq. 6 and
	// code).
	Additive ConsistencyForm = "additive"
	// Mix is the convex mix (1-Lambda) y + Lambda p that MAFA section 4.2 describes.
	Mix ConsistencyForm = "mix"
	// Literal is Mix with MAFA's index notation taken literally. It takes the column of the other direction's softmax, not
	// its row. Rows do not sum to 1.
	Literal ConsistencyForm = "literal"
)

// ITCOptions sets the contrastive loss.
type ITCOptions struct {
	Loss    ITCLoss    `env:"ITC_LOSS" envDefault:"softmax" desc:"the contrastive loss: softmax of every row; triple, TCL's six terms across and within modalities and with local features, which needs MOMENTUM_DECAY; or sigmoid, SigLIP's decision about every image and text, which needs ITC_TARGETS=onehot"`
	Targets ITCTargets `env:"ITC_TARGETS" envDefault:"smoothed" desc:"what softens ITC's targets: onehot, consistency (GRIT-VLP eq. 6), smoothed (MAFA eq. 5) or distilled (ALBEF)"`
	// Lambda weighs the consistency term; 0.2 in GRIT-VLP section 4.2.
	Lambda float64 `env:"ITC_LAMBDA" envDefault:"0.2" desc:"weight of the consistency term"`
	// Form is the reading of the consistency term; [Additive] in GRIT-VLP.
	Form ConsistencyForm `env:"ITC_FORM" envDefault:"additive" desc:"reading of the consistency term: additive (code), mix or literal (MAFA's text)"`
	// ReportKL reports the consistency term as the divergence that GRIT-VLP eq. 6 prints, not as the cross-entropy of the
	// code. The gradient is the same. The value is lower by the pseudo-targets' entropy. Additive only.
	ReportKL bool `envDefault:"false"`
	// Alpha is the share of the soft part in [Smoothed] (MAFA section 4.2: 0.5; 0.1 to 0.7 do, Table 18) and in
	// [Distilled] (ALBEF: 0.4).
	Alpha float64 `env:"ITC_ALPHA" envDefault:"0.5" desc:"share of the soft part of smoothed or distilled targets"`
	// SoftFromEpoch is the first epoch of a group whose targets [Smoothed] softens. It is 0 in MAFA eq. 5, and
	// where the encoder's features group the first epoch. It is 1 in MAFA's code, whose first epoch has random batches.
	SoftFromEpoch int32 `env:"ITC_SOFT_FROM_EPOCH" envDefault:"0" desc:"first epoch of a group with smoothed targets: 0 as MAFA's eq. 5, 1 as its code, whose first epoch has random mini-batches"`
	// AlphaRampSteps raises Alpha of [Distilled], and MLMDistill, linearly from 0 over that many steps; ALBEF takes its
	// first epoch.
	AlphaRampSteps int64 `env:"ITC_ALPHA_RAMP_STEPS" envDefault:"0" desc:"steps over which the shares of distilled targets, in ITC and MLM, rise from 0"`
	// Gather compares every anchor with the keys of all batches of the step, as CLIP does with those of all GPUs. It costs
	// one more pass of the image and text encoders, see [Trainer.Prepare]. Off in the papers here.
	Gather bool `env:"ITC_GATHER" envDefault:"false" desc:"ITC compares every anchor with the texts or images of all STEP_BATCHES mini-batches of a step, not of its own alone, as CLIP does across GPUs; costs one more forward pass of the image and text encoders, and holds the images of all of them. Not with ITC_FORM=literal; STEP_BATCHES=1 has nothing to gather"`
}

// Options are all settings of the trainer's core.
type Options struct {
	// Seed keys the masks and dropout, together with lane, group, epoch and sequence of the batch.
	Seed uint64 `env:"-"`
	// ITCWeight, ITMWeight, MLMWeight and UniWeight multiply the losses in the sum; 1 in the papers (GRIT-VLP eq. 7, MAFA
	// eq. 6, GPN-S eq. 11). A loss of weight 0 is not computed. UniWeight is 0 unless the run trains on GPN-S positives.
	ITCWeight float64 `env:"ITC_WEIGHT" envDefault:"1" desc:"weight of ITC in the loss"`
	ITMWeight float64 `env:"ITM_WEIGHT" envDefault:"1" desc:"weight of ITM in the loss"`
	MLMWeight float64 `env:"MLM_WEIGHT" envDefault:"1" desc:"weight of MLM in the loss"`
	UniWeight float64 `env:"UNI_WEIGHT" envDefault:"0" desc:"weight of GPN-S's uni-modal loss, eq. 10 (eq. 11: 1); 0: its positives are not even loaded"`
	ITC       ITCOptions
	ECM       ECMOptions
	// Dropout is the share that a step drops of the activations and attention of text encoder and fusion encoder. The
	// papers' configuration of BERT has 0.1; their vision transformer drops nothing. Dropout is keyed as the masks are.
	Dropout float64 `env:"DROPOUT" envDefault:"0.1" desc:"share of the text encoder's activations that training drops"`
	// MaskProbability is that of masked language modelling: 0.5 in GRIT-VLP section 4.2 and MAFA, 0.15 in ALBEF.
	MaskProbability float64 `env:"MLM_PROBABILITY" envDefault:"0.5" desc:"probability that a token is masked: 0.5 in GRIT-VLP and MAFA, 0.15 in ALBEF"`
	// MLMDistill is the share of MLM's loss that follows the momentum model's distribution; 0.4 in ALBEF and TCL.
	MLMDistill float64 `env:"MLM_DISTILL" envDefault:"0" desc:"share of MLM's loss that follows the momentum model's distribution: 0.4 in ALBEF and TCL; needs MOMENTUM_DECAY"`
	// ITMNegatives says how ITM finds a negative: hardest in GRIT-VLP and MAFA, multinomial in ALBEF and TCL.
	ITMNegatives Negatives `env:"ITM_NEGATIVES" envDefault:"hardest" desc:"how ITM finds a negative among the candidates: hardest (GRIT-VLP, MAFA), multinomial (ALBEF, TCL) or random"`
	// StepBatches is the number of batches whose mean gradient makes a step of the optimiser, a power of two: 4 of 96
	// in GRIT-VLP and MAFA, 8 of 64 in ALBEF, one for each GPU. Mining stays within a batch, and so does contrast
	// without ITC.Gather.
	StepBatches int `env:"STEP_BATCHES" envDefault:"4" desc:"mini-batches whose mean gradient makes a step of the optimiser, a power of two: 4 of 96 as on the GPUs of GRIT-VLP and MAFA, 8 of 64 in ALBEF; LR_*, ITC_ALPHA_RAMP_STEPS and CHECKPOINT_EVERY count such steps"`
	// ClipNorm is the largest length of a step's gradient, over all parameters. A longer one is scaled to it. 0: no limit,
	// as in the papers.
	ClipNorm float64 `env:"CLIP_NORM" envDefault:"0" desc:"largest length of a step's gradient, over all parameters; a longer one is scaled to it; 0: no limit, as in the papers"`
	// Tries is how often a step computes the losses of a batch while they are not finite, before it sets the batch aside.
	Tries int `envDefault:"3"`
	// Uni is the reading of GPN-S eq. 10. It uses the unit features and the temperature of ITC, because the paper
	// specifies neither.
	Uni      UniReading `env:"UNI_READING" envDefault:"infonce" desc:"reading of GPN-S eq. 10: infonce, printed or with_pos"`
	Momentum MomentumOptions
	AdamW    AdamWOptions
	Schedule Schedule
}

// GRITVLP returns the settings of GRIT-VLP's pre-training: consistency loss, no connections, no momentum encoder.
func GRITVLP() Options {
	return Options{
		ITCWeight: 1, ITMWeight: 1, MLMWeight: 1,
		ITC:             ITCOptions{Loss: Softmax, Targets: Consistency, Lambda: 0.2, Form: Additive, Alpha: 0.5, SoftFromEpoch: 1},
		ECM:             ECMOptions{High: 0.8, Low: 0.5},
		Dropout:         0.1,
		MaskProbability: 0.5,
		ITMNegatives:    HardestNegatives,
		StepBatches:     1,
		Tries:           3,
		Uni:             UniInfoNCE,
		AdamW:           AdamWOptions{Moments{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}, 0.02},
		Schedule: Schedule{
			Kind: CosineSteps, Rate: 1e-4, Min: 1e-5, WarmupRate: 1e-5, WarmupSteps: 2000, TotalSteps: 100_000,
			Epochs: 30, WarmupStride: 100,
		},
	}
}

// MAFA returns the settings of MAFA's pre-training: smoothed targets, and connections in all three losses.
func MAFA() Options {
	o := GRITVLP()
	o.ITC.Targets = Smoothed
	o.ECM.ITC, o.ECM.ITM, o.ECM.MLM = true, true, true
	return o
}

// RetrievalFineTuning returns the papers' settings for fine-tuning for retrieval, and so for Con-D (GRIT-VLP supplement
// 3, MAFA appendix F). They are one-hot ITC over a queue of momentum features, and ITM with negatives drawn by the
// softmax of the similarities, as in the authors' retrieval code.
func RetrievalFineTuning() Options {
	o := GRITVLP()
	o.MLMWeight = 0
	o.ITC.Targets, o.ITMNegatives = OneHot, MultinomialNegatives
	o.Momentum = MomentumOptions{Decay: 0.995, Queue: 65_536}
	o.Schedule.Rate, o.Schedule.Min, o.Schedule.WarmupRate, o.Schedule.WarmupSteps = 1e-5, 1e-6, 1e-5, 0
	return o
}

// Validate returns every invalid option, joined.
func (o Options) Validate() error {
	const queue, momentum = invalid.Field("Momentum.Queue"), invalid.Field("Momentum.Decay")
	var l invalid.List
	invalid.Within(&l, "ITCWeight", o.ITCWeight, 0, 1e6)
	invalid.Within(&l, "ITMWeight", o.ITMWeight, 0, 1e6)
	invalid.Within(&l, "MLMWeight", o.MLMWeight, 0, 1e6)
	invalid.Within(&l, "UniWeight", o.UniWeight, 0, 1e6)
	l.Want(o.ITCWeight+o.ITMWeight+o.MLMWeight+o.UniWeight > 0, "%s, %s, %s and %s are all 0, want one above",
		invalid.Field("ITCWeight"), invalid.Field("ITMWeight"), invalid.Field("MLMWeight"), invalid.Field("UniWeight"))
	belowOne(&l, "Dropout", o.Dropout)
	invalid.Within(&l, "MaskProbability", o.MaskProbability, 0, 1)
	invalid.Within(&l, "ECM.High", o.ECM.High, 0, 1)
	invalid.Within(&l, "ECM.Low", o.ECM.Low, 0, o.ECM.High)
	l.Want(o.Uni.valid(), "%s is %q, want %q, %q or %q", invalid.Field("Uni"), o.Uni, UniInfoNCE, UniPrinted, UniWithPositive)
	invalid.Within(&l, "MLMDistill", o.MLMDistill, 0, 1)
	l.Want(o.MLMDistill == 0 || o.Momentum.Enabled(), "%s is %g, which needs %s above 0", invalid.Field("MLMDistill"), o.MLMDistill, momentum)
	l.Want(o.ITMNegatives.valid(), "%s is %q, want %q, %q or %q", invalid.Field("ITMNegatives"), o.ITMNegatives,
		HardestNegatives, MultinomialNegatives, RandomNegatives)
	invalid.AtLeast(&l, "Tries", o.Tries, 1)
	invalid.Within(&l, "ClipNorm", o.ClipNorm, 0, 1e6)
	l.Want(o.StepBatches > 0 && o.StepBatches&(o.StepBatches-1) == 0, "%s is %d, want 1, 2, 4, 8 or another power of two", invalid.Field("StepBatches"), o.StepBatches)
	o.ITC.validate(&l, o.Momentum)
	invalid.Within(&l, momentum, o.Momentum.Decay, 0, 1)
	l.Want(o.Momentum.Queue >= 0, "%s is %d, want 0 or more", queue, o.Momentum.Queue)
	l.Want(o.Momentum.Enabled() || o.Momentum.Queue == 0, "%s is %d, want 0 with %s=0", queue, o.Momentum.Queue, momentum)
	l.Want(o.AdamW.valid(), "%s is %s, want two decays of 0..1, 1 excluded, and an epsilon above 0", invalid.Field("AdamW.Moments"), o.AdamW.Moments)
	invalid.Within(&l, "AdamW.WeightDecay", o.AdamW.WeightDecay, 0, 1)
	o.Schedule.validate(&l)
	return l.Err()
}

func belowOne(l *invalid.List, f invalid.Field, v float64) {
	l.Want(v >= 0 && v < 1, "%s is %g, want 0..1, 1 excluded", f, v)
}

func (o ITCOptions) validate(l *invalid.List, m MomentumOptions) {
	const targets, form, lambda = invalid.Field("ITC.Targets"), invalid.Field("ITC.Form"), invalid.Field("ITC.Lambda")
	switch o.Targets {
	case OneHot, Smoothed:
	case Consistency:
		l.Want(o.Form == Additive || o.Form == Mix || o.Form == Literal, "%s is %q, want %q, %q or %q", form, o.Form, Additive, Mix, Literal)
		l.Want(o.Form != Mix && o.Form != Literal || o.Lambda <= 1, "%s is %g, want 0..1 for the convex mix", lambda, o.Lambda)
		l.Want(!o.ReportKL || o.Form == Additive, "%s with %s=%s, want %q", invalid.Field("ITC.ReportKL"), form, o.Form, Additive)
		l.Want(o.Form != Literal || !o.Gather, "%s is %q with %s=true, want %q or %q: a row takes the column of a square matrix there, and gathered rows are no anchors",
			form, o.Form, invalid.Field("ITC.Gather"), Additive, Mix)
		l.Want(m.Queue == 0, "%s is %q with %s=%d, want none: a row has no counterpart there", targets, o.Targets, invalid.Field("Momentum.Queue"), m.Queue)
	case Distilled:
		l.Want(m.Enabled(), "%s is %q, which needs %s above 0", targets, o.Targets, invalid.Field("Momentum.Decay"))
	default:
		l.Want(false, "%s is %q, want %q, %q, %q or %q", targets, o.Targets, OneHot, Consistency, Smoothed, Distilled)
	}
	const loss = invalid.Field("ITC.Loss")
	switch o.Loss {
	case Softmax:
	case Triple:
		l.Want(m.Enabled(), "%s is %q, which needs %s above 0", loss, o.Loss, invalid.Field("Momentum.Decay"))
		l.Want(o.Targets != Consistency, "%s is %q with %s=%s, want other targets", loss, o.Loss, targets, o.Targets)
	case Sigmoid:
		l.Want(o.Targets == OneHot, "%s is %q with %s=%s, want %q: the sigmoid of a pair has no row to soften", loss, o.Loss, targets, o.Targets, OneHot)
	default:
		l.Want(false, "%s is %q, want %q, %q or %q", loss, o.Loss, Softmax, Triple, Sigmoid)
	}
	l.Want(o.Lambda >= 0, "%s is %g, want 0 or more", lambda, o.Lambda)
	invalid.Within(l, "ITC.Alpha", o.Alpha, 0, 1)
	l.Want(o.SoftFromEpoch >= 0, "%s is %d, want 0 or more", invalid.Field("ITC.SoftFromEpoch"), o.SoftFromEpoch)
	l.Want(o.AlphaRampSteps >= 0, "%s is %d, want 0 or more", invalid.Field("ITC.AlphaRampSteps"), o.AlphaRampSteps)
}
