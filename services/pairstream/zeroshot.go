//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// withEncoder opens the weights of any dual encoder, and images of their size.
func (e evaluation) withEncoder(
	ctx context.Context, w *torch.Worker, paths []string, measure func(*model.Encoder, *shard.Images) error,
) error {
	encoder, err := model.OpenEncoder(ctx, w, e.checkpoint, model.EncoderOptions{VocabPath: e.vocab})
	if err != nil {
		return fmt.Errorf("opening --checkpoint with --vocab %q: %w", e.vocab, err)
	}
	defer encoder.Free()
	images, closeImages, err := bootstrap.Images(ctx, paths, encoder.ImageSize(), e.cache)
	if err != nil {
		return err
	}
	return errors.Join(measure(encoder, images), closeImages())
}

// evaluateZeroShot classifies the images of tars.
func evaluateZeroShot(
	ctx context.Context, w *torch.Worker, paths []string, e evaluation,
) (report *eval.ZeroShotReport, err error) {
	classes, err := dataset.ReadClasses(e.classes)
	if err != nil {
		return nil, err
	}
	templates := eval.Templates
	if e.templates != "" {
		if templates, err = dataset.ReadTemplates(e.templates); err != nil {
			return nil, err
		}
	}
	data, of, err := dataset.ReadClassed(ctx, paths, classes)
	if err != nil {
		return nil, err
	}
	producer.PrintPassedOver(e.log, data.Totals())
	for _, note := range classes.Notes {
		fmt.Fprintf(e.log, "note: %s\n", note)
	}
	err = e.withEncoder(ctx, w, paths, func(encoder *model.Encoder, images *shard.Images) (err error) {
		d := eval.ClassifiedCorpus(encoder, images, data, of)
		d.Classes, d.Templates = classes.Names, templates
		report, err = eval.ZeroShot(ctx, encoder, d)
		return err
	})
	return report, err
}

// evaluateWinoground measures weights on pairs of images and captions: those with a matching head by it as well.
func evaluateWinoground(
	ctx context.Context, w *torch.Worker, paths []string, e evaluation,
) (report *eval.WinogroundReport, err error) {
	data, err := dataset.ReadWinoground(ctx, e.winoground, paths)
	if err != nil {
		return nil, err
	}
	matches, err := model.HasMatching(e.checkpoint)
	if err != nil {
		return nil, err
	}
	if matches {
		err = e.loaded(ctx, w, paths, data, func(m *model.Model, shown eval.Data) (err error) {
			report, err = eval.Winoground(ctx, m, shown)
			return err
		})
		return report, err
	}
	err = e.withEncoder(ctx, w, paths, func(encoder *model.Encoder, images *shard.Images) (err error) {
		report, err = eval.WinogroundEncoder(ctx, encoder, images, data)
		return err
	})
	return report, err
}
