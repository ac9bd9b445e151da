package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/content/hardcaption"
	"github.com/pairstream/pairstream/internal/content/nouns"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/log/feedback"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "discriminator"

// Run loads Con-D and scores the lanes that this process is given, until ctx ends. Without candidates it loads none.
func Run(ctx context.Context, tools device.Tools, s Settings) error {
	if s.Candidates == 0 {
		tools.Instruments.Loaded()
		return run(ctx, tools, func(_ int, state []byte) (stream.Stage, error) {
			return &without{state, tools.Instruments}, nil
		})
	}
	images, err := tools.Images(ctx, s.Bucket)
	if err != nil {
		return err
	}
	worker, err := tools.Worker()
	if err != nil {
		return err
	}
	m, err := model.OpenMatcher(ctx, worker, s.Checkpoint)
	if err != nil {
		return fmt.Errorf("COND_CHECKPOINT is %q: %w", s.Checkpoint, err)
	}
	defer m.Free()
	core, err := discriminator.New(m, discriminator.Options{Part: s.Part})
	if err != nil {
		return err
	}
	words, err := m.Words()
	if err != nil {
		return fmt.Errorf("COND_CHECKPOINT is %q: %w", s.Checkpoint, err)
	}
	loader := dataset.NewLoader(images.ForInput(m.Config.ImageSize), m.Config.ImageSize, m.Config.TextTokens, words,
		s.Run.Seed, s.augmentation())
	keep, drawn := keeping{}, loader.Drawn()
	if s.Images == plain {
		gone, err := tools.Forgotten(ctx)
		if err != nil {
			return err
		}
		keep, drawn = keeping{scores: s.Keep, bytes: cmp.Or(s.KeepBytes, service.CacheBytes(4*int64(tools.Log.Config().Lanes))), model: core.Fingerprint(), level: s.level(), gone: gone.Image}, ""
	}
	err = keep.register(tools.Instruments)
	if err != nil {
		return err
	}
	guarded := s.guard(core.Fingerprint(), loader)
	guarded.people = countFrom(tools.Log)
	gauges, err := newGauges(tools.Instruments)
	if err != nil {
		return err
	}
	tools.Instruments.Loaded()
	return run(ctx, tools, newFactory(recorder{core, drawn}, loader, guarded, keep, gauges, tools.Instruments))
}

func run(ctx context.Context, tools device.Tools, factory stream.Factory) error {
	return tools.Log.Run(ctx, stream.StageSpec{
		Name: Name, Inputs: []schemas.Topic{schemas.Batches}, Outputs: []schemas.Topic{schemas.Scored},
		New: factory, Counters: tools.Instruments.Counters(),
	})
}

// countFrom returns a function that takes what people say from the log.
func countFrom(log *stream.Log) func(context.Context, feedback.Place) (discriminator.People, error) {
	return func(ctx context.Context, p feedback.Place) (discriminator.People, error) {
		c, err := feedback.Take(ctx, log, p)
		if err != nil {
			return discriminator.People{}, stream.Transient(fmt.Errorf("lane %d, group %d, epoch %d: %w", p.Lane, p.Group, p.Epoch, err))
		}
		return discriminator.People{Judged: c.Judged, Right: c.Right}, nil
	}
}

// guard returns the settings of the guard.
func (s Settings) guard(model string, loader *dataset.Loader) guardSettings {
	return guardSettings{
		least: s.MinPrecision.Least, high: s.High, auto: s.MinPrecision.Chooses, keeps: s.KeepCandidates, seed: s.Run.Seed, model: model,
		tagger: func() (hardcaption.Tagger, error) { return nouns.Load() }, words: loader.Words,
	}
}

// Settings are those of the discriminator.
type Settings struct {
	Bucket       device.Bucket
	Candidates   int       `env:"CANDIDATES" envDefault:"2" desc:"m: hardest candidates of each pair and direction that Con-D scores; 0: none, and no Con-D is loaded"`
	Checkpoint   string    `env:"COND_CHECKPOINT" desc:"weights of Con-D, an image-text-matching model with its vocabulary inside: pairstream's safetensors, or TorchScript (.pt), which is a program"`
	Part         int       `envDefault:"0"` // candidates that go through Con-D's fusion encoder at once; 0: 8 on the processor, 128 on a GPU
	Images       string    `env:"COND_IMAGES" envDefault:"plain" desc:"images that Con-D looks at: plain, so that a pair has the same score in every epoch and is not asked about twice; or augmented, the trainer's own, as in the papers"`
	Keep         int       `envDefault:"4000000"` // scores that a lane keeps with COND_IMAGES=plain, about 50 bytes each
	KeepBytes    int64     `envDefault:"0"`       // memory for encoded images and texts that a lane keeps with COND_IMAGES=plain; 0: its share of a quarter of the memory limit
	MinPrecision Precision `env:"COND_MIN_PRECISION" envDefault:"0.4" desc:"connections are off in a lane unless more than this share of them is true for certain, by what the lane's first batches tell; auto:0.4 also chooses the threshold, the lowest one with which this share is met, in the place of ECM_HIGH; 0: no such guard, as in the papers"`
	High         float64   `env:"ECM_HIGH" envDefault:"0.8" desc:"probability above which a candidate is a connection"`
	Low          float64   `env:"ECM_LOW" envDefault:"0.5" desc:"probability below which a candidate is a negative; from LOW to HIGH it is passed over"`
	Run          service.Run

	// KeepCandidates leaves batches their candidates where connections are off, with a threshold that none is above. A
	// plan does so: its readers choose negatives by Con-D's probabilities.
	KeepCandidates bool `env:"-"`

	Augment dataset.Augmentation
}

// Values of [Settings.Images].
const (
	augmented = "augmented"
	plain     = "plain"
)

// augmentation returns how the images vary that Con-D looks at.
func (s Settings) augmentation() dataset.Augmentation {
	if s.Images == plain {
		return dataset.Augmentation{MinScale: 1, Workers: s.Augment.Workers}
	}
	return s.Augment
}

// Validate returns all invalid settings of the discriminator, joined.
func (s Settings) Validate() error {
	var l invalid.List
	l.Refuse(s.Candidates > 0 && s.Checkpoint == "", "COND_CHECKPOINT is empty, want a weights file; `pairstream bootstrap` trains a first one")
	l.Refuse(s.Images != augmented && s.Images != plain, "COND_IMAGES is %q, want %s or %s", s.Images, augmented, plain)
	l.Refuse(!(s.MinPrecision.Least >= 0 && s.MinPrecision.Least < 1), "COND_MIN_PRECISION is %s, want at least 0 and less than 1", s.MinPrecision)
	l.Refuse(!(s.High >= 0 && s.High <= 1), "ECM_HIGH is %g, want 0..1", s.High)
	l.Refuse(!(s.Low >= 0 && s.Low <= 1), "ECM_LOW is %g, want 0..1", s.Low)
	return l.Err()
}

// Precision says how many of its connections must be true for certain in a lane that has any.
type Precision struct {
	Least   float64 // a share; 0: all connections are taken
	Chooses bool    // the measurement also chooses the threshold, the lowest one with which Least is met
}

// UnmarshalText reads a share, or auto:SHARE.
func (p *Precision) UnmarshalText(text []byte) error {
	share, chooses := strings.CutPrefix(string(text), "auto:")
	least, err := strconv.ParseFloat(share, 64)
	if err != nil {
		return errors.New("want a number, or auto:NUMBER")
	}
	*p = Precision{least, chooses}
	return nil
}

// String returns what UnmarshalText reads.
func (p Precision) String() string {
	if p.Chooses {
		return fmt.Sprintf("auto:%g", p.Least)
	}
	return fmt.Sprint(p.Least)
}

// level returns the probability from which a candidate is no negative for the trainer. An automatic threshold is never
// lower than the lowest of [discriminator.Thresholds].
func (s Settings) level() float64 {
	high := s.High
	if s.MinPrecision.Chooses {
		high = discriminator.Thresholds()[0]
	}
	return min(s.Low, high)
}
