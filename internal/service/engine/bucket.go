package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/shard/cloud"
)

// Bucket says which images may be read.
type Bucket struct {
	Roots      []string `env:"BUCKET_ROOTS" desc:"places that image references may name, comma separated: file:///data, s3://bucket/prefix, gs://bucket"`
	CacheBytes int64    `env:"IMAGE_CACHE_BYTES" envDefault:"268435456" desc:"decoded images kept in memory"`
}

// Validate joins all problems.
func (b Bucket) Validate() error {
	var problems []error
	if len(b.Roots) == 0 {
		problems = append(problems, errors.New("BUCKET_ROOTS is empty, want the places where images are, such as file:///data"))
	}
	if b.CacheBytes < 0 {
		problems = append(problems, fmt.Errorf("IMAGE_CACHE_BYTES is %d, want 0 or more", b.CacheBytes))
	}
	return errors.Join(problems...)
}

// Open opens the bucket.
func (b Bucket) Open(ctx context.Context) (*shard.Bucket, error) {
	bucket, err := shard.OpenBucket(ctx, b.Roots, cloud.Open)
	if err != nil {
		return nil, fmt.Errorf("BUCKET_ROOTS: %w", err)
	}
	return bucket, nil
}

// Images is a cache of images of the bucket for models whose input has side pixels: they are kept at twice that size,
// which leaves room for crops.
func (b Bucket) Images(bucket *shard.Bucket, side int) *shard.Images {
	return shard.NewImages(bucket, shard.ImagesOptions{MaxBytes: b.CacheBytes, MinSide: 2 * side})
}
