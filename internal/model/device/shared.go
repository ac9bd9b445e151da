package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/process/service"
)

// Shared holds the resources that the stages of one process share. Each is opened when a stage first needs it. All
// methods are safe for concurrent use.
type Shared struct {
	settings Settings
	worker   func() (*torch.Worker, error)

	mu       sync.Mutex
	images   *shard.Images
	measured bool // images report their metrics
	gone     *forget.Set
	closers  []func() error
}

// NewShared returns a Shared with nothing open. The caller closes images that it passes in; nil: they are opened when
// needed.
func NewShared(s Settings, images *shard.Images) *Shared {
	shared := &Shared{settings: s, images: images}
	shared.worker = shared.newWorker()
	return shared
}

// newWorker returns a function that starts a worker when it is first called.
func (s *Shared) newWorker() func() (*torch.Worker, error) {
	return sync.OnceValues(func() (*torch.Worker, error) {
		w, err := s.settings.NewWorker()
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closers = append(s.closers, func() error {
			w.Close()
			return nil
		})
		return w, nil
	})
}

// openImages opens the process's cache of decoded images, once.
func (s *Shared) openImages(ctx context.Context, i *service.Instruments, b Bucket) (*shard.Images, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.images == nil {
		images, closeImages, err := b.OpenImages(ctx)
		if err != nil {
			return nil, err
		}
		s.images, s.closers = images, append(s.closers, closeImages)
	}
	if !s.measured {
		if err := i.Register(imageMetrics(s.images)...); err != nil {
			return nil, err
		}
		s.measured = true
	}
	return s.images, nil
}

// forgotten opens the set of forgotten pairs, once, and follows it until the process ends.
func (s *Shared) forgotten(ctx context.Context, log *stream.Log, i *service.Instruments) (*forget.Set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone != nil {
		return s.gone, nil
	}
	gone, err := forget.Open(ctx, log)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var following sync.WaitGroup
	following.Go(func() {
		gone.Run(ctx, func(err error) { i.Log.Warn("tombstones cannot be read, and are tried again", keyErr, err) })
	})
	s.gone = gone
	s.closers = append(s.closers, func() error {
		stop()
		following.Wait()
		return nil
	})
	return gone, nil
}

// imageMetrics report the savings of the cache.
func imageMetrics(images *shard.Images) []prometheus.Collector {
	const prefix = "pairstream_images_"
	return []prometheus.Collector{
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: prefix + "decoded_total", Help: "Images that were read and decoded."},
			func() float64 { return float64(images.Stats().Misses) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: prefix + "cached_total", Help: "Images that were found decoded in the cache."},
			func() float64 { return float64(images.Stats().Hits) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + "cache_bytes", Help: "Decoded images in the cache; at most an eighth of the memory limit."},
			func() float64 { return float64(images.Stats().Bytes) }),
	}
}

// Close closes all resources, the last first. No stage may be running.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var problems []error
	for _, closeOne := range slices.Backward(s.closers) {
		problems = append(problems, closeOne())
	}
	s.closers = nil
	return errors.Join(problems...)
}

// Tools are the resources of one stage.
type Tools struct {
	Log         *stream.Log
	Instruments *service.Instruments

	shared *Shared
	worker func() (*torch.Worker, error)
	busy   *torch.Meter
}

// For returns the tools of a stage, and a context that counts the time of workers as the stage's, in busy.
func (s *Shared) For(ctx context.Context, log *stream.Log, i *service.Instruments, busy *torch.Meter) (context.Context, Tools) {
	return torch.WithMeter(ctx, busy), Tools{Log: log, Instruments: i, shared: s, worker: s.worker, busy: busy}
}

// Alone returns the same tools, but with a worker that no other stage uses.
func (t Tools) Alone() Tools {
	t.worker = t.shared.newWorker()
	return t
}

// Settings returns the settings of the device.
func (t Tools) Settings() Settings { return t.shared.settings }

// Device returns the name of the device on which workers compute.
func (t Tools) Device() string { return t.shared.settings.Name }

// Worker returns the worker for the stage's tensors, and counts its time as the stage's from now on. [Shared.Close]
// ends it.
func (t Tools) Worker() (*torch.Worker, error) {
	w, err := t.worker()
	if err == nil {
		t.Instruments.UseDevice(t.busy.Busy)
	}
	return w, err
}

// Images returns the cache of decoded images, shared by all stages of the process. It refuses forgotten images.
func (t Tools) Images(ctx context.Context, b Bucket) (*shard.Images, error) {
	gone, err := t.Forgotten(ctx)
	if err != nil {
		return nil, err
	}
	images, err := t.shared.openImages(ctx, t.Instruments, b)
	if err == nil {
		images.Forget(gone.Image)
	}
	return images, err
}

// Forgotten returns the forgotten pairs, shared by all stages of the process.
func (t Tools) Forgotten(ctx context.Context) (*forget.Set, error) {
	return t.shared.forgotten(ctx, t.Log, t.Instruments)
}

// alone is the environment of the process of one stage with tensors, besides the settings of every process.
type alone[S any] struct {
	Device Settings
	Stage  S
}

// ValidateRecords implements the interface of [service.ValidateRecords].
func (a alone[S]) ValidateRecords(most int) error {
	return service.ValidateRecords(a.Stage, most)
}

// Main is [service.Main] for a stage that needs tensors.
func Main[S any](name string, run func(context.Context, Tools, S) error) {
	service.Main(name, Facts, func(ctx context.Context, log *stream.Log, i *service.Instruments, s alone[S]) error {
		if err := i.Register(s.Device.Info()); err != nil {
			return err
		}
		shared := NewShared(s.Device, nil)
		defer func() {
			if err := shared.Close(); err != nil {
				i.Log.Warn("closing what the stage has opened", keyErr, err)
			}
		}()
		ctx, tools := shared.For(ctx, log, i, new(torch.Meter))
		return run(ctx, tools, s.Stage)
	})
}

// CacheBytes returns how many bytes of decoded images a process keeps in memory.
func CacheBytes() int64 { return service.CacheBytes(8) }

// Bucket holds the settings for reading and caching images.
type Bucket struct {
	Roots      []string `env:"BUCKET_ROOTS" desc:"places that image references may name, comma separated: file:///data, s3://bucket/prefix, gs://bucket"`
	CacheBytes int64    `envDefault:"0"` // decoded images kept in memory; 0: see [CacheBytes]
}

// Validate returns every invalid setting, joined.
func (b Bucket) Validate() error {
	var l invalid.List
	l.Refuse(len(b.Roots) == 0, "BUCKET_ROOTS is empty, want the places where images are, such as file:///data")
	return l.Err()
}

// OpenImages opens the bucket and a cache of its images. The cache has no model's size; stages take their view of it
// with [shard.Images.ForInput].
func (b Bucket) OpenImages(ctx context.Context) (*shard.Images, func() error, error) {
	bucket, err := shard.OpenBucket(ctx, b.Roots, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("BUCKET_ROOTS: %w", err)
	}
	return shard.NewImages(bucket, shard.ImagesOptions{MaxBytes: cmp.Or(b.CacheBytes, CacheBytes())}), bucket.Close, nil
}

// Keys of log lines.
const (
	keyErr = "err"
)
