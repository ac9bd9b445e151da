package service

import (
	"fmt"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/filter"
	"github.com/pairstream/pairstream/internal/invalid"
	"github.com/pairstream/pairstream/internal/service/device"
	"github.com/pairstream/pairstream/internal/shard"
)

// Settings are those of the encoder.
type Settings struct {
	Bucket     device.Bucket
	Checkpoint string `env:"ENCODER_CHECKPOINT" desc:"weights of the dual encoder: pairstream's or CLIP's safetensors, or TorchScript (.pt); @latest: those that the trainer publishes in CHECKPOINT_DIR, newer ones from group to group"`
	// Where @latest finds the trainer's weights, and how many embeddings are made with the same weights and rules.
	Checkpoints string `env:"CHECKPOINT_DIR" envDefault:"data/checkpoints" desc:"folder of checkpoints; training goes on from the newest one in it"`
	GroupSize   int    `env:"GROUP_SIZE" envDefault:"5000000" desc:"distinct pairs of a lane that are indexed and clustered together"`

	Merges     string `env:"ENCODER_MERGES" desc:"CLIP's gzipped byte-pair merges, for CLIP and TorchScript"`
	Vocab      string `env:"ENCODER_VOCAB" desc:"WordPiece vocabulary, for weights without one inside, and for TorchScript whose words are not CLIP's"`
	ImageSize  int    `env:"ENCODER_IMAGE_SIZE" envDefault:"0" desc:"pixels on a side, for TorchScript"`
	SpoolDir   string `env:"SPOOL_DIR" desc:"folder, under one of BUCKET_ROOTS, for images that came inline; empty: they are refused"`
	SpoolBytes int64  `env:"SPOOL_MAX_BYTES" envDefault:"0" desc:"bytes of such images kept, over all lanes: the oldest tars beyond are deleted, and their images masked; 0: all"`
	Filter     string `env:"FILTER" desc:"pairs to keep, by rules in CEL: size: width >= 200 && aspect < 3.0; safe: meta.punsafe < 0.1 (docs/curation.md); a change holds from the next GROUP_SIZE embeddings of a lane, or a seal; empty: all"`
	// Where FILTER's lang is told from.
	LanguageModels string `env:"LANGUAGE_MODELS" desc:"file of the models that tell the language of a caption, for rules of FILTER that speak of lang; empty: languages.zip beside the program"`
	Core           Core
}

// Validate returns every invalid setting of its own, joined.
func (s Settings) Validate() error {
	var l invalid.List
	l.Refuse(s.Checkpoint == "", "ENCODER_CHECKPOINT is empty, want a weights file; `pairstream bootstrap` trains a first one")
	l.Refuse(s.GroupSize < 1, "GROUP_SIZE is %d, want at least 1", s.GroupSize)
	l.Refuse(s.SpoolBytes < 0, "SPOOL_MAX_BYTES is %d, want 0 or more", s.SpoolBytes)
	if _, err := filter.Parse(s.Filter); err != nil {
		l.Add(fmt.Errorf("FILTER: %w", err))
	}
	return l.Err()
}

// tarBytes is where a tar of spooled images ends, unless the quota asks for smaller ones.
const tarBytes = 256 << 20

// spool shares the quota out among the lanes. A lane has room for four tars, as the last two are always kept.
func (s Settings) spool(namespace string, lanes int) shard.SpoolOptions {
	o := shard.SpoolOptions{Root: s.SpoolDir, Namespace: namespace, TarBytes: tarBytes}
	if s.SpoolBytes > 0 {
		o.KeepBytes = max(1, s.SpoolBytes/int64(lanes))
		o.TarBytes = max(1, min(o.TarBytes, o.KeepBytes/4))
	}
	return o
}

// Core has the fields of [encoder.Options].
type Core struct {
	BatchSize int `env:"ENCODER_BATCH_SIZE" envDefault:"32" desc:"pairs embedded in one call of the device"`
	Workers   int `env:"ENCODER_WORKERS" envDefault:"2" desc:"goroutines that load and decode images"`
}

// Validate returns every invalid setting, joined.
func (c Core) Validate() error { return encoder.Options(c).Validate() }
