package service

import (
	"log/slog"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/trainer"
)

// Settings are the settings of the trainer.
type Settings struct {
	Bucket    device.Bucket
	Dir       string    `env:"CHECKPOINT_DIR" envDefault:"data/checkpoints" desc:"folder of checkpoints; training goes on from the newest one in it"`
	Init      string    `env:"TRAIN_INIT" desc:"weights to start from when CHECKPOINT_DIR has no checkpoint, with their vocabulary inside"`
	Every     int64     `env:"CHECKPOINT_EVERY" envDefault:"1000" desc:"steps between two checkpoints; 0: only at the end"`
	Stay      int64     `env:"CHECKPOINT_KEEP_EVERY" envDefault:"0" desc:"checkpoints of steps that it divides are not removed, as all but the last two are; a multiple of CHECKPOINT_EVERY; 0: none"`
	Best      BestBy    `env:"CHECKPOINT_BEST" desc:"recall or matching_error: the checkpoint with the best figure of EVAL_DATA stays as best.safetensors, wherever steps go; EVAL_EVERY is then a multiple of CHECKPOINT_EVERY; empty: none does"`
	Upload    string    `env:"CHECKPOINT_UPLOAD" desc:"place in a bucket, or a folder, that gets a copy of every checkpoint that stays: s3://bucket/prefix/, gs://bucket/prefix/, /folder; a trainer whose CHECKPOINT_DIR has none goes on from there; empty: none"`
	ExitAtEnd bool      `env:"TRAIN_EXIT_AT_END" envDefault:"false" desc:"end the process when every lane has ended with a final seal"`
	Order     LaneOrder `env:"TRAIN_LANE_ORDER" envDefault:"rotation" desc:"rotation: lanes in strict turn; arrival: without waiting for a lane whose batch is late, in an order that is written down in CHECKPOINT_DIR and that replays follow"`
	From      From      `env:"TRAIN_FROM" envDefault:"start" desc:"where TRAIN_INIT begins when CHECKPOINT_DIR has no checkpoint: start: at the first batch of every lane; now: behind the features that are in the log"`
	Encoder   string    `env:"ENCODER_CHECKPOINT" desc:"weights of the dual encoder: pairstream's or CLIP's safetensors, or TorchScript (.pt); @latest: those that the trainer publishes in CHECKPOINT_DIR, newer ones from group to group"`
	Eval      Evaluation
	Ranks     Ranks
	Augment   device.Augmentation
	Run       service.Run
	Core      Core
}

// Validate returns every invalid setting of the trainer's own, joined.
func (s Settings) Validate() error {
	var l invalid.List
	l.Refuse(s.Dir == "", "CHECKPOINT_DIR is empty, want a folder")
	l.Refuse(s.Every < 0, "CHECKPOINT_EVERY is %d, want 0 or more", s.Every)
	l.Refuse(s.Encoder == weights.Setting && s.Every == 0,
		"CHECKPOINT_EVERY is 0 with ENCODER_CHECKPOINT=%s: the encoder would never get newer weights, want at least 1", weights.Setting)
	l.Refuse(s.Stay < 0 || s.Stay > 0 && (s.Every <= 0 || s.Stay%s.Every != 0),
		"CHECKPOINT_KEEP_EVERY is %d, want 0 or a multiple of CHECKPOINT_EVERY=%d: only checkpoints that are written can stay", s.Stay, s.Every)
	l.Refuse(!s.Order.valid(), "TRAIN_LANE_ORDER is %q, want %q or %q", s.Order, Rotation, Arrival)
	l.Refuse(!s.From.valid(), "TRAIN_FROM is %q, want %q or %q", s.From, FromStart, FromNow)
	l.Add(s.Eval.validate(), s.validateBest(), validateUpload(s.Upload), s.Ranks.validate(s.Core.StepBatches))
	return l.Err()
}

// publishing publishes weights where the encoder follows them.
func (s Settings) publishing(log *stream.Log, logger *slog.Logger) *publishing {
	if s.Encoder != weights.Setting {
		return nil
	}
	return &publishing{log: log, dir: s.Dir, logger: logger}
}

// From says where new weights begin.
type From string

const (
	// FromStart begins at the first batch of every lane. Features that are in the log already are not published again.
	FromStart From = "start"
	// FromNow begins behind the last batch whose features are in the log.
	FromNow From = "now"
)

func (f From) valid() bool { return f == FromStart || f == FromNow }

// wholeBatch says whether negatives are looked for in the whole mini-batch, as nobody asks Con-D.
func (s Settings) wholeBatch() bool { return !s.Core.ECM.ITC && !s.Core.ECM.ITM && !s.Core.ECM.MLM }

// gather returns the number of batches that a step gathers before it learns from the first; 0: none.
func (s Settings) gather() int {
	if !s.Options().Gathers() {
		return 0
	}
	return s.Core.StepBatches
}

// Options returns the options of the core.
func (s Settings) Options() trainer.Options {
	o := s.Core.options()
	o.Seed = s.Run.Seed
	return o
}

// Core has the fields of [trainer.Options], except for the seed.
type Core struct {
	ITCWeight       float64 `env:"ITC_WEIGHT" envDefault:"1" desc:"weight of ITC in the loss"`
	ITMWeight       float64 `env:"ITM_WEIGHT" envDefault:"1" desc:"weight of ITM in the loss"`
	MLMWeight       float64 `env:"MLM_WEIGHT" envDefault:"1" desc:"weight of MLM in the loss"`
	UniWeight       float64 `env:"UNI_WEIGHT" envDefault:"0" desc:"weight of GPN-S's uni-modal loss, eq. 10 (eq. 11: 1); 0: its positives are not even loaded"`
	ITC             ITC
	ECM             ECM
	Dropout         float64            `env:"DROPOUT" envDefault:"0.1" desc:"share of the text encoder's activations that training drops"`
	MaskProbability float64            `env:"MLM_PROBABILITY" envDefault:"0.5" desc:"probability that a token is masked: 0.5 in GRIT-VLP and MAFA, 0.15 in ALBEF"`
	MLMDistill      float64            `env:"MLM_DISTILL" envDefault:"0" desc:"share of MLM's loss that follows the momentum model's distribution: 0.4 in ALBEF and TCL; needs MOMENTUM=true"`
	ITMNegatives    trainer.Negatives  `env:"ITM_NEGATIVES" envDefault:"hardest" desc:"how ITM finds a negative among the candidates: hardest (GRIT-VLP, MAFA), multinomial (ALBEF, TCL) or random"`
	SameImage       bool               `env:"ITM_SAME_IMAGE" envDefault:"false" desc:"take another caption of the same image for a negative, as the papers' code does; only where Con-D scores nothing"`
	StepBatches     int                `env:"STEP_BATCHES" envDefault:"4" desc:"mini-batches whose mean gradient makes a step of the optimiser, a power of two: 4 of 96 as on the GPUs of GRIT-VLP and MAFA, 8 of 64 in ALBEF; LR_*, ITC_ALPHA_RAMP_STEPS and CHECKPOINT_EVERY count such steps"`
	ClipNorm        float64            `env:"CLIP_NORM" envDefault:"0" desc:"largest length of a step's gradient, over all parameters; a longer one is scaled to it; 0: no limit, as in the papers"`
	Tries           int                `env:"LOSS_TRIES" envDefault:"3" desc:"tries of a batch whose loss is not a finite number; then it is set aside with its reason, and training goes on"`
	Uni             trainer.UniReading `env:"UNI_READING" envDefault:"infonce" desc:"reading of GPN-S eq. 10: infonce, printed or with_pos"`
	Momentum        Momentum
	AdamW           AdamW
	Schedule        Schedule
}

// Validate returns every invalid setting, joined.
func (c Core) Validate() error { return c.options().Validate() }

func (c Core) options() trainer.Options {
	return trainer.Options{
		ITCWeight: c.ITCWeight, ITMWeight: c.ITMWeight, MLMWeight: c.MLMWeight, UniWeight: c.UniWeight,
		ITC: trainer.ITCOptions(c.ITC), ECM: trainer.ECMOptions(c.ECM), Dropout: c.Dropout, MaskProbability: c.MaskProbability,
		MLMDistill: c.MLMDistill, ITMNegatives: c.ITMNegatives, SameImage: c.SameImage, StepBatches: c.StepBatches, ClipNorm: c.ClipNorm, Tries: c.Tries, Uni: c.Uni,
		Momentum: trainer.MomentumOptions(c.Momentum), AdamW: trainer.AdamWOptions(c.AdamW), Schedule: trainer.Schedule(c.Schedule),
	}
}

// ITC has the fields of [trainer.ITCOptions].
type ITC struct {
	Targets        trainer.ITCTargets      `env:"ITC_TARGETS" envDefault:"smoothed" desc:"what softens ITC's targets: onehot, consistency (GRIT-VLP eq. 6), smoothed (MAFA eq. 5) or distilled (ALBEF)"`
	Lambda         float64                 `env:"ITC_LAMBDA" envDefault:"0.2" desc:"weight of the consistency term"`
	Form           trainer.ConsistencyForm `env:"ITC_FORM" envDefault:"additive" desc:"reading of the consistency term: additive (code), mix or literal (MAFA's text)"`
	ReportKL       bool                    `env:"ITC_REPORT_KL" envDefault:"false" desc:"report the consistency term as the divergence of GRIT-VLP eq. 6; the gradient is the same"`
	Alpha          float64                 `env:"ITC_ALPHA" envDefault:"0.5" desc:"share of the soft part of smoothed or distilled targets"`
	SoftFromEpoch  int32                   `env:"ITC_SOFT_FROM_EPOCH" envDefault:"0" desc:"first epoch of a group with smoothed targets: 0 as MAFA's eq. 5, 1 as its code, whose first epoch has random mini-batches"`
	AlphaRampSteps int64                   `env:"ITC_ALPHA_RAMP_STEPS" envDefault:"0" desc:"steps over which the shares of distilled targets, in ITC and MLM, rise from 0"`
	Triple         bool                    `env:"ITC_TRIPLE" envDefault:"false" desc:"TCL's six contrastive terms: across and within modalities, and with local features; needs MOMENTUM=true"`
	Gather         bool                    `env:"ITC_GATHER" envDefault:"false" desc:"ITC compares every anchor with the texts or images of all STEP_BATCHES mini-batches of a step, not of its own alone, as CLIP does across GPUs; costs one more forward pass of the image and text encoders, and holds the images of all of them. Not with ITC_FORM=literal; STEP_BATCHES=1 has nothing to gather"`
}

// ECM has the fields of [trainer.ECMOptions].
type ECM struct {
	ITC       bool    `env:"ECM_ITC" envDefault:"true" desc:"ITC learns from connections (MAFA table 14)"`
	ITM       bool    `env:"ECM_ITM" envDefault:"true" desc:"ITM learns from connections"`
	MLM       bool    `env:"ECM_MLM" envDefault:"true" desc:"MLM learns from connections"`
	Eliminate bool    `env:"ECM_ELIMINATE" envDefault:"false" desc:"remove false negatives instead of converting them (ECM-E)"`
	High      float64 `env:"ECM_HIGH" envDefault:"0.8" desc:"probability above which a candidate is a connection"`
	Low       float64 `env:"ECM_LOW" envDefault:"0.5" desc:"probability below which a candidate is a negative; from LOW to HIGH it is passed over"`
}

// Momentum has the fields of [trainer.MomentumOptions].
type Momentum struct {
	Enabled bool    `env:"MOMENTUM" envDefault:"false" desc:"keep a momentum encoder, whose features are ITC's keys"`
	Decay   float64 `env:"MOMENTUM_DECAY" envDefault:"0.995" desc:"share of the momentum weights that a step keeps"`
	Queue   int     `env:"MOMENTUM_QUEUE" envDefault:"0" desc:"earlier momentum features that are further negatives; ALBEF 65536"`
}

// AdamW has the fields of [trainer.AdamWOptions].
type AdamW struct {
	Beta1       float64 `env:"ADAMW_BETA1" envDefault:"0.9" desc:"AdamW's decay of the first moment"`
	Beta2       float64 `env:"ADAMW_BETA2" envDefault:"0.999" desc:"AdamW's decay of the second moment"`
	Eps         float64 `env:"ADAMW_EPS" envDefault:"1e-8" desc:"AdamW's epsilon"`
	WeightDecay float64 `env:"WEIGHT_DECAY" envDefault:"0.02" desc:"AdamW's decoupled weight decay"`
}

// Schedule has the fields of [trainer.Schedule].
type Schedule struct {
	Kind         trainer.ScheduleKind `env:"LR_SCHEDULE" envDefault:"cosine" desc:"cosine: warm-up and cosine over steps; stream: warm-up, then LR until every lane has come to the group that a final seal closes, and a cosine to LR_MIN over the batches that are left; reference: the papers' tables over epochs"`
	Rate         float64              `env:"LR" envDefault:"1e-4" desc:"highest learning rate"`
	Min          float64              `env:"LR_MIN" envDefault:"1e-5" desc:"learning rate at the end"`
	WarmupRate   float64              `env:"LR_WARMUP" envDefault:"1e-5" desc:"learning rate of the first step"`
	WarmupSteps  int64                `env:"LR_WARMUP_STEPS" envDefault:"2000" desc:"steps of warm-up; updates of the rate with LR_SCHEDULE=reference, where the papers have 20"`
	TotalSteps   int64                `env:"LR_TOTAL_STEPS" envDefault:"1562490" desc:"LR_SCHEDULE=cosine: step that reaches LR_MIN; later ones stay there. The recipe derives it from its epochs, LANES, GROUP_SIZE, BATCH_SIZE and STEP_BATCHES"`
	Epochs       int64                `env:"LR_EPOCHS" envDefault:"30" desc:"LR_SCHEDULE=reference: length of the cosine in epochs"`
	EpochSteps   int64                `env:"LR_EPOCH_STEPS" envDefault:"10000" desc:"LR_SCHEDULE=reference: steps of an epoch"`
	WarmupStride int64                `env:"LR_WARMUP_STRIDE" envDefault:"100" desc:"LR_SCHEDULE=reference: iterations between two updates of the warm-up"`
}
