package service

import (
	"context"
	"encoding/json"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "grouper"

// Run groups the lanes that this process is given, until ctx ends.
func Run(ctx context.Context, log *stream.Log, i *service.Instruments, s Settings) error {
	i.Loaded()
	without := func(lane int) (dues []grouper.Due, err error) {
		err = log.Forgone(ctx, Name, lane, func(raw []byte) error {
			var due grouper.Due
			err := json.Unmarshal(raw, &due)
			dues = append(dues, due)
			return err
		})
		return dues, err
	}
	return log.Run(ctx, stream.StageSpec{
		Name:     Name,
		Inputs:   []schemas.Topic{schemas.Groups, schemas.Neighbors, schemas.Embeddings, schemas.Features},
		Outputs:  []schemas.Topic{schemas.Batches},
		New:      newFactory(s.Options(), s.SpoolDir, without, i),
		Counters: i.Counters(),
	})
}
