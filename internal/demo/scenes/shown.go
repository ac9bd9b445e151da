package scenes

import (
	"context"
	"errors"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

// ErrNotGenerated means that tars hold pictures that [WriteDir] has not drawn.
var ErrNotGenerated = errors.New("not a generated scene")

// Shown returns the scene shown by each picture of generated tars. It skips entries that form no pair.
func Shown(ctx context.Context, paths []string) (map[schemas.ImageID]Scene, error) {
	shows := map[schemas.ImageID]Scene{}
	_, err := shard.Scan(ctx, paths, shard.Visitor{
		Example: func(ex shard.Example) error {
			r, err := ReadRecord(ex.Meta)
			if err != nil || len(r.Scene.Objects) == 0 {
				return ErrNotGenerated
			}
			shows[ex.ImageID] = r.Scene
			return nil
		},
		Problem: func(shard.Problem) error { return nil },
	})
	return shows, err
}
