//go:build cgo

package main

import (
	"log/slog"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"

	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

// TestUpDecodesAPictureOnce counts how often a picture is read and decoded. The encoder, the discriminator and the
// trainer of one process look at every picture, again in every epoch. It is decoded once.
func TestUpDecodesAPictureOnce(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in := setUpPipeline(t, 24)
	t.Setenv("CHECKPOINT_DIR", in("checkpoints"))
	mustCommand(t, "produce", in("scenes"), "--final")
	data, _ := must.Get2(dataset.Read(t.Context(), []string{in("scenes")}, 0))(t)
	p := must.Get(config.Parse[pipeline.Settings](config.Environ()))(t)
	rt := service.NewRuntime(slog.New(slog.DiscardHandler))
	log := must.Get(service.OpenLog(t.Context(), rt, p.Stream))(t)
	defer log.Close()
	shared, samples := device.NewShared(p.Device, nil), 0
	must.Do(t, pipeline.RunStages(t.Context(), log, rt, shared, p, pipeline.NewStages(), func(s trainerservice.Step) { samples += s.Result.Counts.Samples }))
	if decoded := metric(t, rt, "pairstream_images_decoded_total"); int(decoded) != data.Images() || samples == 0 {
		t.Errorf("%v images were decoded for %d samples, want %d: every picture once", decoded, samples, data.Images())
	}
	// The encoder has every picture once, and the trainer has one and a positive of it for each sample. The discriminator
	// keeps what it has encoded.
	if found := metric(t, rt, "pairstream_images_cached_total"); int(found) < 2*samples {
		t.Errorf("%v images were found in the cache, for %d samples", found, samples)
	}
	must.Check(t, shared.Close())
}

// metric reads a metric without labels.
func metric(t *testing.T, rt service.Runtime, name string) float64 {
	t.Helper()
	families := must.Get(rt.Registry.Gather())(t)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
