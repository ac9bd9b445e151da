package replay

import (
	"context"

	"github.com/pairstream/pairstream/internal/stream"
)

// Between compares what two runs have written, lane by lane. m describes the original. It calls each with every result,
// as soon as it is there. Folders of spooled images differ between the runs, unless both read from a bucket.
func Between(ctx context.Context, m *Manifest, original, replayed *stream.Log, each func(Result)) error {
	o := Options{Manifest: m, Original: original, Replayed: replayed}
	if err := o.check(); err != nil {
		return err
	}
	over, end := context.WithCancel(ctx)
	end() // both runs are what they are
	r := newRunning(o, make([]shifts, m.Lanes))
	close(r.stopped)
	for _, f := range r.followers {
		result, err := f.follow(ctx, over)
		if err != nil {
			return err
		}
		each(result)
	}
	return nil
}
