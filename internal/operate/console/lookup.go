package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// lookupTime bounds the wait for one record of the log.
const lookupTime = 4 * time.Second

// recordCache reads single records of the log and keeps the latest. It blanks samples of mini-batches that were taken
// back.
type recordCache struct {
	log  *stream.Log
	gone func(schemas.ImageID) bool
	kept *lru.Cache[recordKey, schemas.Record]
}

type recordKey struct {
	topic  schemas.Topic
	lane   int
	offset int64
}

// keptRecords bounds the cache. The largest record has about a megabyte.
const keptRecords = 96

func newRecordCache(log *stream.Log, gone func(schemas.ImageID) bool) *recordCache {
	kept, _ := lru.New[recordKey, schemas.Record](keptRecords) // refuses only sizes below 1
	return &recordCache{log, gone, kept}
}

// errUnanswered marks a failed request that may succeed later.
var errUnanswered = errors.New("no answer from Kafka")

// unanswered marks every error as passing, except that of a record that is gone.
func unanswered(err error) error {
	if errors.Is(err, stream.ErrGap) {
		return err
	}
	return fmt.Errorf("%w: %w", errUnanswered, err)
}

// record reads one record.
func record[T schemas.Record](ctx context.Context, c *recordCache, topic schemas.Topic, lane int, offset int64) (T, error) {
	var none T
	key := recordKey{topic, lane, offset}
	r, ok := c.kept.Get(key)
	if !ok {
		ctx, cancel := context.WithTimeout(ctx, lookupTime)
		defer cancel()
		rec, err := c.log.RecordAt(ctx, topic, lane, offset)
		if err != nil {
			return none, unanswered(err)
		}
		if r, err = schemas.Unmarshal(rec.Schema, rec.Value); err != nil {
			return none, err
		}
		c.kept.Add(key, r)
	}
	t, ok := c.without(r).(T)
	if !ok {
		return none, fmt.Errorf("%s, lane %d, offset %d holds %s", topic, lane, offset, r.Schema())
	}
	return t, nil
}

// forgotten replaces the text of a forgotten image.
const forgotten = "(forgotten)"

// without returns a mini-batch without the texts and pictures that were forgotten, and any other record unchanged. It
// copies, since the cache shares its records.
func (c *recordCache) without(r schemas.Record) schemas.Record {
	switch b := r.(type) {
	case *schemas.Batch:
		other := *b
		other.Samples = c.samples(b.Samples)
		return &other
	case *schemas.ScoredBatch:
		other := *b
		other.Samples = c.samples(b.Samples)
		return &other
	}
	return r
}

func (c *recordCache) samples(list []schemas.Sample) []schemas.Sample {
	if !slices.ContainsFunc(list, func(s schemas.Sample) bool { return c.gone(s.ImageID) }) {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		if c.gone(list[i].ImageID) {
			list[i].Text, list[i].Image = forgotten, schemas.ImageRef{}
		}
	}
	return list
}

// parallel calls do for every number below n, for eight at a time.
func parallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(8)
	for i := range n {
		all.Go(func() error { return do(ctx, i) })
	}
	return all.Wait()
}

// dot multiplies two unit vectors.
func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range min(len(a), len(b)) {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// known drops the positions that are -1.
func known(places schemas.Int32s) []int32 {
	return slices.DeleteFunc(slices.Clone([]int32(places)), func(p int32) bool { return p < 0 })
}

// another connects to the log of a namespace on the same brokers. It refuses one without a run, whose topics a reader
// would wait for.
func another(ctx context.Context, cfg stream.Config, namespace string) (*stream.Log, error) {
	cfg.Namespace, cfg.TraceEndpoint = namespace, ""
	log, err := stream.Connect(ctx, cfg, stream.Options{})
	if err != nil {
		return nil, err
	}
	has, err := log.Has(ctx, schemas.ProgressLog)
	if err == nil && !has {
		err = fmt.Errorf("there is no run in namespace %q", namespace)
	}
	if err != nil {
		log.Close()
		return nil, err
	}
	return log, nil
}
