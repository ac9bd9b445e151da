package service

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/crawl/filter"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "encoder"

// Run loads the model and encodes the lanes that this process is given, until ctx ends.
func Run(ctx context.Context, tools device.Tools, s Settings) error {
	return RunWithQueries(ctx, tools, s, NewQueries())
}

// RunWithQueries is [Run], and answers queries with the model besides.
func RunWithQueries(ctx context.Context, tools device.Tools, s Settings, q *Queries) error {
	cache, err := tools.Images(ctx, s.Bucket)
	if err != nil {
		return err
	}
	worker, err := tools.Worker()
	if err != nil {
		return err
	}
	none, err := newSieve("")
	if err != nil {
		return err
	}
	none.detect = detector(s.LanguageModels)
	rules, err := none.with(s.Filter)
	if err != nil {
		return err
	}
	if err := tools.Instruments.Register(rules.dropped); err != nil {
		return err
	}
	if rules.gone, err = tools.Forgotten(ctx); err != nil {
		return err
	}
	load := func(ctx context.Context, path string) (*model.Encoder, *encoder.Encoder, error) {
		m, err := model.OpenEncoder(ctx, worker, path, model.EncoderOptions{
			BatchSize: s.Core.BatchSize, VocabPath: s.Vocab,
		})
		if err != nil {
			return nil, nil, err
		}
		core, err := newCore(m, m.Preprocessing(), cache, s.Decode, s.Core.BatchSize)
		if err != nil {
			m.Free()
		}
		return m, core, err
	}
	lend := func(m *model.Encoder) { q.lend(m, s.Decode) }
	config := tools.Log.Config()
	spool := s.spool(config.Namespace, config.Lanes)
	like, next := stage{sieve: rules, instruments: tools.Instruments}, spans{size: s.GroupSize, filter: s.Filter}
	if s.Checkpoint == weights.Setting {
		m := &models{log: tools.Log, dir: s.Checkpoints, load: load, lend: lend, loaded: make(map[string]*loaded)}
		defer m.free()
		next.weights = m
		return run(ctx, tools, newStages(like, spool, next))
	}
	m, core, err := load(ctx, s.Checkpoint)
	if err != nil {
		return fmt.Errorf("ENCODER_CHECKPOINT is %q: %w", s.Checkpoint, err)
	}
	defer m.Free()
	lend(m)
	defer lend(nil)
	like.core = core
	return run(ctx, tools, newStages(like, spool, next))
}

// run encodes lanes with the stages of a factory.
func run(ctx context.Context, tools device.Tools, factory stream.Factory) error {
	tools.Instruments.Loaded()
	return tools.Log.Run(ctx, stream.StageSpec{
		Name: Name, Inputs: []schemas.Topic{schemas.Pairs}, Outputs: []schemas.Topic{schemas.Embeddings},
		New: factory, Counters: tools.Instruments.Counters(),
	})
}

// Settings are those of the encoder.
type Settings struct {
	Bucket     device.Bucket
	Checkpoint string `env:"ENCODER_CHECKPOINT" desc:"weights of the dual encoder: pairstream's, CLIP's or open_clip's safetensors, or TorchScript (.pt), which is a program; @latest: those that the trainer publishes in CHECKPOINT_DIR, newer ones from group to group"`
	// Where @latest finds the trainer's weights, and how many embeddings are made with the same weights and rules.
	Checkpoints string `env:"CHECKPOINT_DIR" envDefault:"data/checkpoints" desc:"folder of checkpoints; training goes on from the newest one in it"`
	GroupSize   int    `env:"GROUP_SIZE" envDefault:"5000000" desc:"distinct pairs of a lane that are indexed and clustered together"`

	Vocab      string   `env:"ENCODER_VOCAB" desc:"file of the words, for weights without them inside: CLIP's byte-pair merges for CLIP (empty: merges.txt beside it), a WordPiece vocabulary, a token a line, for ALBEF; any of them, or SigLIP's spiece.model, for TorchScript"`
	Decode     Decoding `env:"DECODE" envDefault:"scaled" desc:"how the encoder reduces a JPEG that is larger than the model's input: scaled, by its decoder, to 1/2, 1/4 or 1/8, in less time; exact: to twice the input or more, then by averages, as Con-D and the trainer see it. Embeddings name the way beside the weights, so a change begins a new group"`
	SpoolDir   string   `env:"SPOOL_DIR" desc:"folder, under one of BUCKET_ROOTS, for images that came inline; empty: they are refused"`
	SpoolBytes int64    `env:"SPOOL_MAX_BYTES" envDefault:"0" desc:"bytes of such images kept, over all lanes: the oldest tars beyond are deleted, and their images masked; 0: all"`
	Filter     string   `env:"FILTER" desc:"pairs to keep, by rules in CEL: size: width >= 200 && aspect < 3.0; safe: meta.punsafe < 0.1 (docs/curation.md); a change holds from the next GROUP_SIZE embeddings of a lane, or a seal; empty: all"`
	// Where FILTER's lang is told from.
	LanguageModels string `env:"LANGUAGE_MODELS" desc:"file of the models that tell the language of a caption, for rules of FILTER that speak of lang; empty: languages.zip beside the program"`
	Core           encoder.Options
}

// Validate returns all invalid settings of the encoder, joined.
func (s Settings) Validate() error {
	var l invalid.List
	l.Refuse(s.Checkpoint == "", "ENCODER_CHECKPOINT is empty, want a weights file; `pairstream bootstrap` trains a first one")
	l.Want(s.Decode == DecodeExact || s.Decode == DecodeScaled, "DECODE is %q, want exact or scaled", s.Decode)
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
