package service

import (
	"log/slog"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
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
	Encoder   string    `env:"ENCODER_CHECKPOINT" desc:"weights of the dual encoder: pairstream's, CLIP's or open_clip's safetensors, or TorchScript (.pt), which is a program; @latest: those that the trainer publishes in CHECKPOINT_DIR, newer ones from group to group"`
	Planned   Planned
	Eval      Evaluation
	Ranks     Ranks
	Augment   dataset.Augmentation
	Run       service.Run
	Core      trainer.Options
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
	l.Add(s.Eval.validate(), s.validateBest(), validateUpload(s.Upload), s.Ranks.validate(s.Core.StepBatches), s.Planned.validate())
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

// wholeBatch reports whether negatives come from the whole mini-batch, because no loss uses Con-D.
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
	o := s.Core
	o.Seed = s.Run.Seed
	return o
}
