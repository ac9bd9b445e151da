package service

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "grouper"

// Run groups the lanes that this process is given, until ctx ends.
func Run(ctx context.Context, log *stream.Log, i *service.Instruments, s Settings) error {
	if o := s.Options(); o.Strategy == grouper.StrategyOwn && s.Planner == nil {
		return fmt.Errorf("STRATEGY is %s:%s, a function that `pairstream batches --strategy` calls, and no service: want random, grit, gns, jest or b3",
			grouper.StrategyOwn, o.Function)
	}
	i.Loaded()
	return log.Run(ctx, Spec(ctx, log, i, s, nil))
}

// Spec returns the stage that Run runs. After each walk it calls walked, which may be nil, with the number of pairs,
// from several goroutines.
func Spec(ctx context.Context, log *stream.Log, i *service.Instruments, s Settings, walked func(pairs int)) stream.StageSpec {
	without := func(lane int) (dues []grouper.Due, err error) {
		err = log.Forgone(ctx, Name, lane, func(raw []byte) error {
			var due grouper.Due
			err := json.Unmarshal(raw, &due)
			dues = append(dues, due)
			return err
		})
		return dues, err
	}
	return stream.StageSpec{
		Name:     Name,
		Inputs:   []schemas.Topic{schemas.Groups, schemas.Neighbors, schemas.Embeddings, schemas.Features},
		Outputs:  []schemas.Topic{schemas.Batches},
		Rereads:  []schemas.Topic{schemas.Batches},
		New:      newFactory(s.Options(), "", without, walked, s.Planner, i),
		Counters: i.Counters(),
	}
}

// Settings are those of the grouper.
type Settings struct {
	Run  service.Run
	Core grouper.Options
	// Planner is the function of the strategy own.
	Planner grouper.Planner `env:"-"`
}

// Options returns the options of the core, completed with the seed and the number of workers.
func (s Settings) Options() grouper.Options {
	o := s.Core.Normal()
	o.Seed, o.Workers = s.Run.Seed, runtime.GOMAXPROCS(0)
	return o
}

// ValidateRecords refuses batches that a topic may not take, with records of most bytes.
func (s Settings) ValidateRecords(most int) error {
	if size := s.Options().LargestRecord(); size > int64(most) {
		return fmt.Errorf("BATCH_SIZE is %d and CANDIDATES %d: a batch can have %d bytes, KAFKA_MAX_MESSAGE_BYTES is %d: lower the former, or raise the latter and the topics' max.message.bytes",
			s.Core.BatchSize, s.Core.Candidates, size, most)
	}
	return nil
}
