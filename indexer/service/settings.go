package service

import (
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/process/service"
)

// The values of Settings.Engine.
const (
	engineAuto   = "auto"
	engineCPU    = "cpu"
	engineDevice = "device"
)

// Settings are those of the indexer.
type Settings struct {
	Engine   string `envDefault:"auto"` // what finds neighbours and clusters; auto: cpu where DEVICE is cpu, else device; changes no record
	LiveAddr string `env:"LIVE_ADDR" desc:"address of live search (GET /neighbors, POST /search): 127.0.0.1:8080, or :8080 with LIVE_TOKEN; empty: none"`

	LiveToken display.Secret `env:"LIVE_TOKEN" desc:"token that live search asks for (Authorization: Bearer); never printed; empty: none, on a loopback address only"`

	Live   indexer.LiveOptions
	Run    service.Run
	Core   indexer.Options
	Repack Repack

	Segments Segments
}

// Validate returns every invalid setting, joined.
func (s Settings) Validate() error {
	return errors.Join(s.validateLive(), s.validateScope())
}

// onDevice says whether groups are computed by a worker for this device.
func (s Settings) onDevice(device string) bool {
	return s.Engine == engineDevice || s.Engine == engineAuto && device != "cpu"
}

// Options returns the options of the core, completed from the other settings.
func (s Settings) Options() indexer.Options {
	o := s.Core.Normal()
	o.Seed, o.Window = s.Run.Seed, indexer.DefaultOptions().Window
	o.Segments = s.Segments.Root != ""
	if o.Repack = s.Repack.Root; o.Repack != "" {
		o.RepackSide = s.Repack.Side
	}
	return o
}

// LiveOptions returns what live search is told.
func (s Settings) LiveOptions() indexer.LiveOptions {
	o := s.Live
	o.Seed = s.Run.Seed
	return o
}

// ValidateRecords refuses neighbours of which a topic may not take a chunk, with records of most bytes.
func (s Settings) ValidateRecords(most int) error {
	if size := s.Options().LargestRecord(); size > int64(most) {
		return fmt.Errorf("NEIGHBORS_K is %d and NEIGHBORS_K1 %d: a chunk can have %d bytes, KAFKA_MAX_MESSAGE_BYTES is %d: lower the former, or raise the latter and the topics' max.message.bytes",
			s.Core.K, s.Core.K1, size, most)
	}
	return nil
}
