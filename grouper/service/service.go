package service

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "grouper"

// Run groups the lanes that this process is given, until ctx ends.
func Run(ctx context.Context, log *stream.Log, i *service.Instruments, s Settings) error {
	i.Loaded()
	return log.Run(ctx, Spec(ctx, log, i, s, nil))
}

// Spec returns the stage that Run runs. walked is called with the number of pairs after each walk, by several goroutines; nil:
// nobody asks.
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
		New:      newFactory(s.Options(), s.SpoolDir, without, walked, i),
		Counters: i.Counters(),
	}
}

// Settings are those of the grouper.
type Settings struct {
	Run      service.Run
	Core     Core
	SpoolDir string `env:"GROUPER_SPOOL_DIR" desc:"EPOCH_ORDER=lane: folder for the groups that wait for their next epoch, without names; empty: the system's for temporary files"`
}

// Options returns what the core is told.
func (s Settings) Options() grouper.Options {
	o := grouper.Options(s.Core)
	o.Seed = s.Run.Seed
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

// Core has the fields of [grouper.Options].
type Core struct {
	Seed      uint64           `env:"-"` // of Run
	Strategy  grouper.Strategy `env:"STRATEGY" envDefault:"grit" desc:"how mini-batches are formed: random, grit (GRIT-VLP) or gns (GPN-S)"`
	Epochs    int              `env:"EPOCHS" envDefault:"20" desc:"E: times that a group is trained on"`
	BatchSize int              `env:"BATCH_SIZE" envDefault:"96" desc:"N: pairs of a mini-batch"`

	EpochOrder  grouper.EpochOrder `env:"EPOCH_ORDER" envDefault:"group" desc:"group: all epochs of a group, then the next; lane: epoch by epoch over EPOCH_GROUPS groups of a lane"`
	EpochGroups int                `env:"EPOCH_GROUPS" envDefault:"1" desc:"W of EPOCH_ORDER=lane: groups that go through their epochs together; a seal ends them earlier"`

	QueueSize       int            `env:"QUEUE_SIZE" envDefault:"48000" desc:"L of grit: pairs collected before they are grouped; 0: the whole group"`
	SearchSpace     int            `env:"SEARCH_SPACE" envDefault:"4800" desc:"M of grit: pairs of a walk; 0: the whole queue"`
	StartAsReleased bool           `env:"GRIT_START_AS_RELEASED" envDefault:"false" desc:"never start a walk at the last pair, as GRIT-VLP's released code"`
	SameImage       bool           `env:"GRIT_SAME_IMAGE" envDefault:"false" desc:"captions of one image may come into one mini-batch of grit, as in the papers' eq. 5 and released code"`
	Features        grouper.Source `env:"GRIT_FEATURES" envDefault:"training" desc:"features that group the epochs after the first: training, made by the steps of the epoch before; current, made anew after it by the weights of then (GRIT-VLP Remark 2), for one more forward pass; or encoder"`

	Clusters   int `env:"GNS_CLUSTERS" envDefault:"8" desc:"c of gns: clusters that a mini-batch draws from"`
	PerCluster int `env:"GNS_PER_CLUSTER" envDefault:"3" desc:"s of gns: pairs drawn from each of them"`

	Candidates int              `env:"CANDIDATES" envDefault:"2" desc:"m: hardest candidates of each pair and direction that Con-D scores"`
	Texts      grouper.TextRule `env:"TEXTS" envDefault:"none" desc:"captions replaced by obj(v): curriculum (GPN-S eq. 8), share, all or none"`
	TextShare  float64          `env:"TEXT_SHARE" envDefault:"0" desc:"share of captions replaced by TEXTS=share"`

	CurriculumEpochs int `env:"CURRICULUM_EPOCHS" envDefault:"0" desc:"TEXTS=curriculum: epochs after which it is over, at least 4, counted through the groups of a lane; 0: EPOCHS, so that only the first group has it"`

	Workers int `env:"GROUPER_WORKERS" envDefault:"1" desc:"goroutines for similarities; changes no mini-batch"`
}

// Validate returns every invalid setting, joined.
func (c Core) Validate() error { return grouper.Options(c).Validate() }
