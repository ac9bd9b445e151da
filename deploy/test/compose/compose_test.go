//go:build compose

package compose

import (
	"context"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

var stages = []string{"encoder", "indexer", "grouper", "discriminator", "trainer"}

// The stack comes up from nothing. It survives the death of a container of every stage, and being scaled in the middle
// of its work. At the end every pair was in a trained mini-batch once an epoch, or is among the dead letters.
func TestStack(t *testing.T) {
	s := newStack(t, shards(t))
	if os.Getenv("PAIRSTREAM_IMAGE_IS_BUILT") == "" { // set it to try the test again and again
		s.reportSteps(s.run("build", "--progress", "plain", "topics"))
	}
	checkImage(t)
	s.run("--profile", "*", "config", "--quiet")
	s.asWritten("up -d")
	s.awaitReady()
	s.reportMemory()
	log := s.connect()
	t.Log(strings.TrimSpace(s.asWritten("run --rm pairstream produce /data")))
	s.asWritten("run --rm pairstream seal --final")
	pairs := idsOfPairs(t, log)
	if len(pairs) == 0 {
		t.Fatal("nothing was published")
	}

	eventually(t, "first step of the trainer", func(ctx context.Context) bool { return steps(ctx, t, log) > 0 })
	killed := map[string]string{}
	for _, stage := range stages {
		killed[stage] = s.kill(stage)
	}
	if ended(t.Context(), t, log) == lanes {
		t.Error("the run was over before the last container was killed: it shows nothing about kills")
	}
	s.asWritten("up -d --scale encoder=3")
	eventually(t, "killed containers run again", func(context.Context) bool {
		for _, id := range killed {
			if docker(t, "inspect", "--format", "{{.RestartCount}} {{.State.Running}}", id) != "1 true" {
				return false
			}
		}
		return s.shareLanes("encoder", 3)
	})
	eventually(t, "every lane to end", func(ctx context.Context) bool { return ended(ctx, t, log) == lanes })
	s.account(log, pairs)
	s.checkMetrics()
	s.awaitHealthy()
	t.Log(s.asWritten("run --rm pairstream status"))
	s.asWritten("down")
}

// read calls each with every record of every lane, without repetitions.
func read(t *testing.T, log *stream.Log, topic schemas.Topic, each func(lane int, value any)) {
	t.Helper()
	for lane := range lanes {
		for rec, err := range log.Records(t.Context(), topic, lane, stream.Position{}, -1) {
			if err != nil {
				t.Fatal(err)
			}
			value, err := schemas.Unmarshal(rec.Schema, rec.Value)
			if err != nil {
				if topic == schemas.Pairs {
					continue // the encoder sets aside what is not a pair
				}
				t.Fatalf("%s, lane %d, offset %d: %v", topic, lane, rec.Offset, err)
			}
			each(lane, value)
		}
	}
}

type idSet map[schemas.PairID]bool

func idsOfPairs(t *testing.T, log *stream.Log) idSet {
	t.Helper()
	ids := idSet{}
	read(t, log, schemas.Pairs, func(_ int, value any) {
		if p, ok := value.(*schemas.Pair); ok {
			ids[p.ID] = true
		}
	})
	return ids
}

// steps returns the highest training step that was reported.
func steps(ctx context.Context, t *testing.T, log *stream.Log) (most int64) {
	t.Helper()
	for rec, err := range log.Records(ctx, schemas.ProgressLog, 0, stream.Position{}, -1) {
		if err != nil {
			t.Fatal(err)
		}
		value, err := schemas.Unmarshal(rec.Schema, rec.Value)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, value.(*schemas.Progress).Step)
	}
	return most
}

// ended counts the lanes whose scored batches have all been trained on. Such a lane has as many feature blocks as
// scored batches, after the final seal.
func ended(ctx context.Context, t *testing.T, log *stream.Log) (n int) {
	t.Helper()
	for lane := range lanes {
		scored, features, final := 0, 0, false
		for rec, err := range log.Records(ctx, schemas.Scored, lane, stream.Position{}, -1) {
			if err != nil {
				t.Fatal(err)
			}
			switch value, err := schemas.Unmarshal(rec.Schema, rec.Value); v := value.(type) {
			case *schemas.ScoredBatch:
				scored++
			case *schemas.Seal:
				final = v.Final
			default:
				t.Fatalf("scored, lane %d, offset %d: %T, %v", lane, rec.Offset, value, err)
			}
		}
		for _, err := range log.Records(ctx, schemas.Features, lane, stream.Position{}, -1) {
			if err != nil {
				t.Fatal(err)
			}
			features++
		}
		if final && features == scored {
			n++
		}
	}
	return n
}

// account compares sets of ids, not counts.
func (s *stack) account(log *stream.Log, pairs idSet) {
	s.t.Helper()
	embedded, members := idSet{}, idSet{}
	read(s.t, log, schemas.Embeddings, func(_ int, value any) {
		if e, ok := value.(*schemas.Embedding); ok {
			embedded[e.ID] = true
		}
	})
	if len(embedded) == 0 {
		s.t.Error("nothing was embedded")
	}
	aside := idSet{}
	for d, err := range log.DeadLetters(s.t.Context()) {
		if err != nil {
			s.t.Fatal(err)
		}
		if value, err := schemas.Unmarshal(d.Schema, d.Value); err == nil {
			aside[value.(*schemas.Pair).ID] = true
		}
	}
	if len(aside) != 1 {
		s.t.Errorf("%d pairs are set aside, want the one whose image is broken", len(aside))
	}
	for id := range pairs {
		if embedded[id] == aside[id] {
			s.t.Errorf("pair %s: embedded is %v, set aside is %v: want exactly one", id, embedded[id], aside[id])
		}
	}
	read(s.t, log, schemas.Neighbors, func(_ int, value any) {
		c := value.(*schemas.NeighborChunk)
		for i := range c.Members() {
			members[c.ID(i)] = true
		}
	})
	if !maps.Equal(members, embedded) {
		s.t.Errorf("groups have %d pairs, %d were embedded", len(members), len(embedded))
	}
	s.accountBatches(log, members)
}

// accountBatches checks that an epoch of a group is a permutation of its pairs.
func (s *stack) accountBatches(log *stream.Log, members idSet) {
	s.t.Helper()
	type epoch struct {
		group schemas.GroupID
		epoch int32
	}
	seen := map[epoch]map[int32]bool{}
	sizes := map[schemas.GroupID]int{}
	read(s.t, log, schemas.Groups, func(_ int, value any) {
		if g, ok := value.(*schemas.Group); ok {
			sizes[g.Group] = int(g.Count)
		}
	})
	read(s.t, log, schemas.Scored, func(_ int, value any) {
		b, ok := value.(*schemas.ScoredBatch)
		if !ok {
			return
		}
		e := epoch{b.Group, b.Epoch}
		if seen[e] == nil {
			seen[e] = map[int32]bool{}
		}
		for _, sample := range b.Samples {
			if seen[e][sample.Position] {
				s.t.Errorf("group %v, epoch %d: position %d is there twice", e.group, e.epoch, sample.Position)
			}
			seen[e][sample.Position] = true
			if !sample.Replaced && !members[sample.ID] {
				s.t.Errorf("pair %s was trained on, but is in no group", sample.ID)
			}
		}
	})
	for e, positions := range seen {
		if len(positions) != sizes[e.group] {
			s.t.Errorf("group %v, epoch %d: %d of %d pairs are in mini-batches", e.group, e.epoch, len(positions), sizes[e.group])
		}
	}
	if len(seen) != epochs*len(sizes) {
		s.t.Errorf("%d epochs of %d groups, want %d each", len(seen), len(sizes), epochs)
	}
}
