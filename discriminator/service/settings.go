package service

import (
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/device"
)

// Settings are those of the discriminator.
type Settings struct {
	Bucket     device.Bucket
	Checkpoint string  `env:"COND_CHECKPOINT" desc:"weights of Con-D, an image-text-matching model with its vocabulary inside: pairstream's safetensors, or TorchScript (.pt), which is a program"`
	Part       int     `env:"COND_PART" envDefault:"128" desc:"candidates that go through Con-D's fusion encoder at once"`
	Images     string  `env:"COND_IMAGES" envDefault:"augmented" desc:"images that Con-D looks at: augmented, the trainer's own, as in the papers; or plain, which gives a pair the same score in every epoch, so that it is kept"`
	Keep       int     `env:"COND_KEEP" envDefault:"4000000" desc:"scores that a lane keeps with COND_IMAGES=plain, about 50 bytes each"`
	MinAUC     float64 `env:"COND_MIN_AUC" envDefault:"0.55" desc:"connections are off in a lane unless Con-D tells the known positives of its first batches from mismatches with an AUC above this; 0: no such guard, as in the papers"`
	Run        service.Run
	Augment    device.Augmentation
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
	return dataset.Augmentation(s.Augment)
}

// Validate returns every invalid setting of its own, joined.
func (s Settings) Validate() error {
	var problems []error
	if s.Checkpoint == "" {
		problems = append(problems, errors.New("COND_CHECKPOINT is empty, want a weights file; `pairstream bootstrap` trains a first one"))
	}
	if s.Part < 1 {
		problems = append(problems, fmt.Errorf("COND_PART is %d, want at least 1", s.Part))
	}
	if s.Images != augmented && s.Images != plain {
		problems = append(problems, fmt.Errorf("COND_IMAGES is %q, want %s or %s", s.Images, augmented, plain))
	}
	if s.Keep < 2 {
		problems = append(problems, fmt.Errorf("COND_KEEP is %d, want at least 2", s.Keep))
	}
	if !(s.MinAUC >= 0 && s.MinAUC < 1) {
		problems = append(problems, fmt.Errorf("COND_MIN_AUC is %g, want at least 0 and less than 1", s.MinAUC))
	}
	return errors.Join(problems...)
}
