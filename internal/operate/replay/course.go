package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/schemas"
)

// thresholds returns the thresholds of the run's trainer, by default those of MAFA.
func thresholds(settings map[string]string) (t compare.Thresholds, err error) {
	t = compare.Thresholds{High: 0.8, Low: 0.5}
	for name, into := range map[string]*float64{"ECM_HIGH": &t.High, "ECM_LOW": &t.Low} {
		if settings[name] == "" {
			continue
		}
		if *into, err = strconv.ParseFloat(settings[name], 64); err != nil {
			return t, fmt.Errorf("%s is %q, want a probability: %w", name, settings[name], err)
		}
	}
	return t, nil
}

// mined adds a mini-batch to the course, and returns the fingerprint of the Con-D that scored it.
func (d *describer) mined(rec stream.Record) string {
	b, ok := stream.As[*schemas.ScoredBatch](rec)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !ok {
		d.course.Skip()
		return fingerprint(rec)
	}
	d.course.Batch(b)
	return b.Model
}

// whatCame returns the course of the run after all mini-batches have been read.
func (d *describer) whatCame(ctx context.Context) (*compare.Course, error) {
	for rec, err := range d.log.Records(ctx, schemas.ProgressLog, 0, stream.Position{}, -1) {
		if err != nil {
			return nil, fmt.Errorf("describing %s: %w", schemas.ProgressLog, err)
		}
		if p, ok := stream.As[*schemas.Progress](rec); ok {
			d.course.Progress(p)
		} else {
			d.course.Skip()
		}
	}
	status, err := inspect.NewCollector(d.log, 0).Collect(ctx, time.Now())
	if err != nil {
		return nil, fmt.Errorf("describing the account of the pairs: %w", err)
	}
	a := status.Account
	return d.course.Course(compare.Pairs{
		Published: a.Published, Grouped: a.Closed.Members, Again: a.Closed.Duplicates + a.Closed.Repeats, Near: a.Closed.LeftOut,
		Filtered: a.Closed.Filtered, Refused: a.Closed.Refused, NoPairs: a.NoPairs + a.Closed.Others, Unfinished: a.Open + a.Waiting,
	}), nil
}

// Run returns the manifest as a run to compare.
func (m *Manifest) Run(name string) compare.Run {
	r := compare.Run{
		Name: name, Settings: m.Settings, Course: m.Course,
		Facts: []compare.Fact{{Name: "pairstream", Value: m.Pairstream}, {Name: "namespace", Value: m.Namespace}, {Name: "lanes", Value: strconv.Itoa(m.Lanes)}, {Name: "seed", Value: m.Seed}},
	}
	for _, model := range m.Models {
		r.Models = append(r.Models, compare.Fact{Name: string(model.Topic), Value: model.Fingerprint})
	}
	pairs := newSums("pairs")
	for _, l := range m.Pairs {
		pairs.add(l.Records, l.Digest)
	}
	r.Topics = append(r.Topics, pairs.topic())
	for _, t := range m.Topics {
		all := newSums(string(t.Topic))
		for _, l := range t.Lanes {
			all.add(l.Records, l.Digest)
		}
		r.Topics = append(r.Topics, all.topic())
	}
	return r
}

// sums adds up the lanes of a topic.
type sums struct {
	compare.Topic
	digests []byte
}

func newSums(topic string) *sums { return &sums{Topic: compare.Topic{Name: topic}} }

func (s *sums) add(records int64, digest string) {
	s.Records += records
	s.digests = append(s.digests, digest...)
}

func (s *sums) topic() compare.Topic {
	sum := sha256.Sum256(s.digests)
	s.Digest = hex.EncodeToString(sum[:])
	return s.Topic
}
