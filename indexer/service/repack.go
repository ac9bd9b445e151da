package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/crawl/repack"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/process/service"
)

// Repack says where smaller copies of the images of groups go.
type Repack struct {
	Root    string   `env:"REPACK_ROOT" desc:"place that gets smaller copies of a group's images when the group closes, for discriminator and trainer to read: s3://bucket/prefix, gs://bucket/prefix or a folder, below one of BUCKET_ROOTS; empty: none"`
	Side    int      `env:"REPACK_SIDE" envDefault:"288" desc:"most pixels of the shorter side of a copy, where REPACK_ROOT is set; at least that of the models' inputs"`
	Workers int      `envDefault:"16"` // images that are read and made smaller at once; changes no record
	Roots   []string `env:"BUCKET_ROOTS" desc:"places that image references may name, comma separated: file:///data, s3://bucket/prefix, gs://bucket"`
}

// Validate returns every invalid setting, joined.
func (r Repack) Validate() error {
	if r.Root == "" {
		return nil
	}
	var l invalid.List
	l.Refuse(r.Side < indexer.LeastRepackSide || r.Side > indexer.MostRepackSide,
		"REPACK_SIDE is %d, want %d..%d", r.Side, indexer.LeastRepackSide, indexer.MostRepackSide)
	place, err := r.place()
	switch {
	case err != nil:
		l.Add(err)
	case !slices.ContainsFunc(r.Roots, func(root string) bool { return below(place, strings.TrimSpace(root)) }):
		l.Add(fmt.Errorf("REPACK_ROOT is %q, which is below none of BUCKET_ROOTS (%s): add it to those of all stages, so that discriminator and trainer may read it",
			r.Root, strings.Join(r.Roots, ",")))
	}
	return l.Err()
}

// place returns REPACK_ROOT as references name it: as a URL without options.
func (r Repack) place() (*url.URL, error) {
	place, err := url.Parse(r.Root)
	local := !shard.IsRemote(r.Root)
	switch {
	case local && (err != nil || place.Scheme != "file"):
		folder, err := filepath.Abs(r.Root)
		return &url.URL{Scheme: "file", Path: filepath.ToSlash(folder)}, err
	case err != nil || !local && (place.Scheme != "s3" && place.Scheme != "gs" || place.Host == "") || local && !path.IsAbs(place.Path):
		return nil, fmt.Errorf("REPACK_ROOT is %q, want s3://bucket/prefix, gs://bucket/prefix or a folder", r.Root)
	}
	return &url.URL{Scheme: place.Scheme, Host: place.Host, Path: strings.TrimSuffix(place.Path, "/")}, nil
}

// below reports whether a place is a root, or lies under it.
func below(place *url.URL, raw string) bool {
	root, err := url.Parse(raw)
	if err != nil || root.Scheme != place.Scheme || root.Host != place.Host {
		return false
	}
	return strings.HasPrefix(strings.TrimSuffix(place.Path, "/")+"/", strings.TrimSuffix(root.Path, "/")+"/")
}

// copier copies the images of the groups of a process.
type copier struct {
	s           Repack
	instruments *service.Instruments
	forgotten   func(context.Context) (*forget.Set, error)
	images      *prometheus.CounterVec
	bytes       prometheus.Counter

	mu      sync.Mutex
	source  *shard.Bucket
	made    map[string]*repack.Repacker // by place and side
	closers []func() error
}

// newCopier opens nothing yet.
func newCopier(s Repack, instruments *service.Instruments, forgotten func(context.Context) (*forget.Set, error)) *copier {
	return &copier{
		s: s, instruments: instruments, forgotten: forgotten, made: make(map[string]*repack.Repacker),
		images: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pairstream_indexer_repacked_images_total",
			Help: "Images of closed groups that REPACK_ROOT was to get copies of, by what became of them: shrunk, copied, found or lost by an earlier owner, unreachable, or the reason of a mask.",
		}, []string{"outcome"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pairstream_indexer_repacked_bytes_total", Help: "Bytes of the copies of images in REPACK_ROOT that this process has made.",
		}),
	}
}

// open opens REPACK_ROOT, if it is set, and returns its URL, which the marks of groups keep.
func (c *copier) open(ctx context.Context) (string, error) {
	if err := c.instruments.Register(c.images, c.bytes); err != nil || c.s.Root == "" {
		return "", err
	}
	place, err := c.s.place()
	if err != nil {
		return "", err
	}
	if place.Scheme == "file" { // references name the real path, as buckets follow no links
		if err := os.MkdirAll(filepath.FromSlash(place.Path), 0o755); err != nil {
			return "", fmt.Errorf("making the folder of REPACK_ROOT: %w", err)
		}
		real, err := filepath.EvalSymlinks(filepath.FromSlash(place.Path))
		if err != nil {
			return "", fmt.Errorf("looking for the folder of REPACK_ROOT: %w", err)
		}
		place.Path = filepath.ToSlash(real)
	}
	_, err = c.at(ctx, place.String(), c.s.Side)
	return place.String(), err
}

// at returns the repacker for a place, which may be that of a group begun with other settings.
func (c *copier) at(ctx context.Context, place string, side int) (*repack.Repacker, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprintf("%s %d", place, side)
	if r := c.made[key]; r != nil {
		return r, nil
	}
	root, err := url.Parse(place)
	if err != nil {
		return nil, fmt.Errorf("the place of copies %q: %w", place, err)
	}
	gone, err := c.forgotten(ctx)
	if err != nil {
		return nil, err
	}
	if len(c.s.Roots) == 0 {
		return nil, errors.New("BUCKET_ROOTS is empty, want the places where images are")
	}
	if c.source == nil {
		if c.source, err = shard.OpenBucket(ctx, c.s.Roots, nil); err != nil {
			return nil, fmt.Errorf("BUCKET_ROOTS: %w", err)
		}
		c.closers = append(c.closers, c.source.Close)
	}
	store, err := c.store(ctx, root)
	if err != nil {
		return nil, fmt.Errorf("opening REPACK_ROOT, %s: %w", place, err)
	}
	r := repack.New(c.source, store, gone.Image, repack.Options{Root: root, Side: side, Workers: max(1, c.s.Workers)}, c.instruments.Log)
	c.made[key] = r
	return r, nil
}

// store opens the store of copies. A place in a bucket has the options of REPACK_ROOT, or of the root that it lies
// under.
func (c *copier) store(ctx context.Context, root *url.URL) (repack.Store, error) {
	roots := c.s.Roots
	if strings.Contains(c.s.Root, "?") {
		roots = append(slices.Clone(roots), c.s.Root)
	}
	store, err := shard.OpenPlace(ctx, root.String(), roots)
	if err == nil {
		c.closers = append(c.closers, store.Close)
	}
	return store, err
}

// Close closes all opened buckets, last first.
func (c *copier) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var problems []error
	for _, closeOne := range slices.Backward(c.closers) {
		problems = append(problems, closeOne())
	}
	c.closers = nil
	return errors.Join(problems...)
}

// sayEvery is the time between two lines about the progress of a group's copies.
const sayEvery = 30 * time.Second

// copy makes the copies of a group's images, notes them in its chunks and signs its manifest anew.
func (c *copier) copy(ctx context.Context, o indexer.Options, g *indexer.Group) error {
	r, err := c.at(ctx, o.Repack, o.RepackSide)
	if err != nil {
		return fmt.Errorf("group %s was begun with REPACK_ROOT=%s and needs it until it is closed: %w", g.Manifest.Group, o.Repack, err)
	}
	started, said := time.Now(), time.Now()
	all := make(map[string]int)
	say := func() {
		c.instruments.Log.Info("copied images of a group", keyGroup, g.Manifest.Group.String(), keyCount, repack.Counts{Images: all}.All(), keyPairs, g.Manifest.Count,
			keyOutcomes, fmt.Sprint(all), keyDuration, time.Since(started).Round(time.Millisecond))
	}
	err = r.Copy(ctx, repack.Group{ID: g.Manifest.Group, Chunks: g.Chunks, Image: g.Image}, func(counts repack.Counts) {
		for _, outcome := range slices.Sorted(maps.Keys(counts.Images)) {
			all[outcome] += counts.Images[outcome]
			c.images.WithLabelValues(outcome).Add(float64(counts.Images[outcome]))
		}
		c.bytes.Add(float64(counts.Bytes))
		if time.Since(said) >= sayEvery {
			said = time.Now()
			say()
		}
	})
	if err != nil {
		return err
	}
	say()
	return g.Sign()
}
