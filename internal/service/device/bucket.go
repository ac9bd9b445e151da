package device

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/invalid"
	"github.com/pairstream/pairstream/internal/shard"
)

// Bucket holds the settings of which images may be read, and how many are kept.
type Bucket struct {
	Roots      []string `env:"BUCKET_ROOTS" desc:"places that image references may name, comma separated: file:///data, s3://bucket/prefix, gs://bucket"`
	CacheBytes int64    `env:"IMAGE_CACHE_BYTES" envDefault:"268435456" desc:"decoded images kept in memory"`
}

// Validate returns every invalid setting, joined.
func (b Bucket) Validate() error {
	var l invalid.List
	l.Refuse(len(b.Roots) == 0, "BUCKET_ROOTS is empty, want the places where images are, such as file:///data")
	l.Refuse(b.CacheBytes < 0, "IMAGE_CACHE_BYTES is %d, want 0 or more", b.CacheBytes)
	return l.Err()
}

// OpenImages opens the bucket and a cache of its images. The cache is of its own size; stages take their view of it with
// [shard.Images.ForInput].
func (b Bucket) OpenImages(ctx context.Context) (*shard.Images, func() error, error) {
	bucket, err := shard.OpenBucket(ctx, b.Roots, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("BUCKET_ROOTS: %w", err)
	}
	return shard.NewImages(bucket, shard.ImagesOptions{MaxBytes: b.CacheBytes}), bucket.Close, nil
}

// Augmentation has the fields of [dataset.Augmentation].
type Augmentation struct {
	MinScale float64 `env:"AUGMENT_MIN_SCALE" envDefault:"0.2" desc:"smallest share of an image's area that a random crop keeps, up to 1; 1: no crop"`
	Distort  bool    `env:"AUGMENT_DISTORT" envDefault:"false" desc:"vary images as TCL does: with probability 0.8 brightness, contrast and saturation by 0.4 and hue by 0.1, with 0.2 grey, with 0.5 blurred"`
	Flip     float64 `env:"AUGMENT_FLIP" envDefault:"0.5" desc:"probability of mirroring an image; 0 where captions speak of left and right"`
	Color    float64 `env:"AUGMENT_COLOR" envDefault:"0" desc:"how much brightness, contrast and saturation vary"`
	Ops      int     `env:"AUGMENT_OPS" envDefault:"2" desc:"operations of RandAugment, each done half of the time; 0: none"`
	Level    int     `env:"AUGMENT_LEVEL" envDefault:"7" desc:"strength of RandAugment's operations, 0 to 10"`
	Workers  int     `env:"IMAGE_WORKERS" envDefault:"2" desc:"goroutines that load, decode and augment images of a batch"`
}

// Validate returns every invalid setting, joined.
func (a Augmentation) Validate() error { return dataset.Augmentation(a).Validate() }
