package service

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
)

// The values of Settings.Engine.
const (
	engineAuto   = "auto"
	engineCPU    = "cpu"
	engineDevice = "device"
	engineFAISS  = "faiss" // the former name of engineCPU
)

// Settings are those of the indexer.
type Settings struct {
	Engine   string `env:"NEIGHBORS_ENGINE" envDefault:"auto" desc:"engine that finds neighbours and clusters: cpu, device (tiles of products on DEVICE) or auto: cpu where DEVICE is cpu, else device; changes no record"`
	LiveAddr string `env:"LIVE_ADDR" desc:"address of live search (GET /neighbors, POST /search): 127.0.0.1:8080, or :8080 with LIVE_TOKEN; empty: none"`

	LiveToken stream.Secret `env:"LIVE_TOKEN" desc:"token that live search asks for (Authorization: Bearer); never printed; empty: none, on a loopback address only"`

	Live   Live
	Run    service.Run
	Core   Core
	Repack Repack

	Segments Segments
}

// Validate returns every invalid setting, joined.
func (s Settings) Validate() error {
	var problem error
	if !slices.Contains([]string{engineAuto, engineCPU, engineDevice, engineFAISS}, s.Engine) {
		problem = fmt.Errorf("NEIGHBORS_ENGINE is %q, want %q, %q or %q", s.Engine, engineAuto, engineCPU, engineDevice)
	}
	return errors.Join(problem, s.validateLive(), s.validateScope())
}

// onDevice says whether groups are computed by a worker for this device.
func (s Settings) onDevice(device string) bool {
	return s.Engine == engineDevice || s.Engine == engineAuto && device != "cpu"
}

// Options returns what the core is told.
func (s Settings) Options() indexer.Options {
	o := s.Core.options()
	o.Seed, o.Window = s.Run.Seed, indexer.DefaultOptions().Window
	o.Segments = s.Segments.Root != ""
	if o.Repack = s.Repack.Root; o.Repack != "" {
		o.RepackSide = s.Repack.Side
	}
	return o
}

// LiveOptions returns what live search is told.
func (s Settings) LiveOptions() indexer.LiveOptions {
	o := indexer.LiveOptions(s.Live)
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

// Core has the fields of [indexer.Options].
type Core struct {
	GroupSize     int     `env:"GROUP_SIZE" envDefault:"5000000" desc:"distinct pairs of a lane that are indexed and clustered together"`
	K             int     `env:"NEIGHBORS_K" envDefault:"10" desc:"k: texts nearest to each image, V2T"`
	K1            int     `env:"NEIGHBORS_K1" envDefault:"5" desc:"k1: images nearest to each image, V2V, from which its positives come (GPN-S eq. 9)"`
	K2            int     `env:"NEIGHBORS_K2" envDefault:"500" desc:"k2: images nearest to each text, T2V, among which positives must be"`
	KeepSameImage bool    `env:"NEIGHBORS_SAME_IMAGE" envDefault:"false" desc:"let an image's other captions count among its V2V neighbours"`
	Clusters      int     `env:"CLUSTERS" envDefault:"1000" desc:"K of k-means; no more than the group has pairs"`
	Iterations    int     `env:"CLUSTER_ITERATIONS" envDefault:"20" desc:"most iterations of k-means"`
	Modality      string  `env:"CLUSTER_MODALITY" envDefault:"image" desc:"vectors that are clustered: image or text"`
	P             float64 `env:"OBJECT_SHARE" envDefault:"0.3" desc:"p: a noun in more than this share of the neighbour texts is an object of the image (GPN-S eq. 7)"`
	MinCount      int     `env:"NOUN_MIN_COUNT" envDefault:"10" desc:"a noun counts when more captions of the group than this have it"`
	Window        int     `env:"-"` // the same for all
	SameImage     string  `env:"DEDUPE_IMAGES" envDefault:"keep" desc:"pairs whose image one of the lane's latest 1,048,576 embeddings has with another caption: keep, count or drop"`
	NearImage     string  `env:"DEDUPE_NEAR" envDefault:"keep" desc:"pairs whose image resembles that of an earlier pair in its cluster of the group: keep, count or drop (SemDeDup)"`
	NearCosine    float64 `env:"DEDUPE_NEAR_COSINE" envDefault:"0.95" desc:"cosine of two images' vectors above which they resemble one another, where DEDUPE_NEAR is count or drop"`
	Seed          uint64  `env:"-"` // of Run
	Repack        string  `env:"-"` // of Repack
	RepackSide    int     `env:"-"` // of Repack
	Scope         string  `env:"NEIGHBORS_SCOPE" envDefault:"group" desc:"where neighbours are looked for besides the group: group (nowhere), lane (earlier groups of the lane) or crawl (closed groups of all lanes); needs SEGMENTS_ROOT"`
	Asked         int     `env:"NEIGHBORS_GROUPS" envDefault:"8" desc:"most closed groups that a group asks, the latest, where NEIGHBORS_SCOPE is lane or crawl"`
	Segments      bool    `env:"-"` // where Segments has a root
	Threads       int     `env:"INDEXER_THREADS" envDefault:"0" desc:"threads of neighbour search and k-means; 0: all processors; changes no record"`
}

// keepImages is the value of DEDUPE_IMAGES and DEDUPE_NEAR that marks do not mention.
const keepImages = "keep"

// scopeGroup is the value of NEIGHBORS_SCOPE that marks do not mention.
const scopeGroup = "group"

func (c Core) options() indexer.Options {
	o := indexer.Options(c)
	if o.Scope == scopeGroup {
		o.Scope, o.Asked = "", 0
	}
	if o.SameImage == keepImages {
		o.SameImage = indexer.KeepImages
	}
	if o.NearImage == keepImages {
		o.NearImage, o.NearCosine = indexer.KeepImages, 0 // of no effect
	}
	return o
}

// Validate returns every invalid setting, joined.
func (c Core) Validate() error { return c.options().Validate() }

// Live has the fields of [indexer.LiveOptions].
type Live struct {
	KeepGroups int     `env:"LIVE_GROUPS" envDefault:"1" desc:"latest closed groups of each lane that stay searchable, besides the open one"`
	TailRows   int     `env:"LIVE_TAIL" envDefault:"512" desc:"pairs that searches compare one by one until they go into inverted lists together"`
	Recall     float64 `env:"LIVE_RECALL" envDefault:"0.97" desc:"share of the exact ten nearest that a search in inverted lists should find"`
	Seed       uint64  `env:"-"` // of Run
}

// Validate returns every invalid setting, joined.
func (l Live) Validate() error { return indexer.LiveOptions(l).Validate() }
