package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/version"
	"github.com/pairstream/pairstream/internal/log/feedback"
	"github.com/pairstream/pairstream/internal/log/msgvalue"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/internal/neighbors/scope"
	"github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/schemas"
)

// DescribeOptions hold what the log does not say of a run.
type DescribeOptions struct {
	Settings map[string]string // see Settings
	Open     bool              // accept a run that has not ended, and describe its records so far
}

// lanesAtOnce is the number of lanes that are read at the same time.
const lanesAtOnce = 8

// Describe returns the manifest of the run in a log's namespace. The stages may be running. If the run has not ended,
// the manifest may or may not include records that they write meanwhile.
func Describe(ctx context.Context, log *stream.Log, o DescribeOptions) (*Manifest, error) {
	cfg := log.Config()
	m := &Manifest{
		Version: manifestVersion, Pairstream: version.String(), Namespace: cfg.Namespace, Lanes: cfg.Lanes,
		Seed: o.Settings["SEED"], Settings: o.Settings, Models: []Model{}, Pairs: make([]Range, cfg.Lanes),
	}
	for _, t := range outputs() {
		m.Topics = append(m.Topics, Topic{Topic: t, Lanes: make([]Lane, cfg.Lanes)})
	}
	limits, err := thresholds(o.Settings)
	if err != nil {
		return nil, err
	}
	d := describer{log: log, manifest: m, open: o.Open, course: compare.NewRecorder(limits)}
	all, actx := errgroup.WithContext(ctx)
	all.SetLimit(lanesAtOnce)
	for lane := range cfg.Lanes {
		all.Go(func() error { return d.lane(actx, lane) })
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	notes, err := weights.Read(ctx, log) // after the records, so that it includes the choices for all of them
	if err != nil {
		return nil, err
	}
	counts, err := feedback.Notes.Read(ctx, log)
	if err != nil {
		return nil, err
	}
	groups, err := scope.Notes.Read(ctx, log)
	if err != nil {
		return nil, err
	}
	m.Weights, m.Choices, m.Judged, m.Asked = notes.Used(), notes.Choices(), feedback.Notes.List(counts), scope.Notes.List(groups)
	if m.Course, err = d.whatCame(ctx); err != nil {
		return nil, err
	}
	m.noteModels()
	slices.SortFunc(m.Models, func(a, b Model) int {
		return cmp.Or(cmp.Compare(slices.Index(outputs(), a.Topic), slices.Index(outputs(), b.Topic)), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	return m, nil
}

// noteModels records the topics whose records are of several models, unless the encoder followed the trainer.
func (m *Manifest) noteModels() {
	if len(m.Choices) > 0 {
		return
	}
	of := make(map[schemas.Topic][]string)
	for _, model := range m.Models {
		of[model.Topic] = append(of[model.Topic], model.Fingerprint)
	}
	for _, topic := range outputs() {
		if names := of[topic]; len(names) > 1 {
			slices.Sort(names)
			m.Changed = append(m.Changed, fmt.Sprintf("%s is of %d models (%s)", topic, len(names), strings.Join(names, ", ")))
		}
	}
}

type describer struct {
	log      *stream.Log
	manifest *Manifest
	open     bool

	mu     sync.Mutex // guards manifest.Models and course
	course *compare.Recorder
}

// lane describes one lane, from the last topic to the first. The records of a topic are made of earlier topics', which
// lane reads later, so it misses none of them.
func (d *describer) lane(ctx context.Context, lane int) error {
	ended := true
	var unfinished error
	var blocks, batches int64
	for i := len(d.manifest.Topics) - 1; i >= 0; i-- {
		t := &d.manifest.Topics[i]
		s, err := d.scan(ctx, t.Topic, lane, stream.Position{}, -1)
		if err != nil {
			return fmt.Errorf("describing %s, lane %d: %w", t.Topic, lane, err)
		}
		t.Lanes[lane] = Lane{Lane: lane, Records: s.digest.Records, Digest: s.digest.Sum()}
		switch t.Topic {
		case schemas.Features:
			blocks = s.digest.Records
		case schemas.Neighbors: // carries no seals
		case schemas.Scored:
			batches = s.batches
			fallthrough
		default:
			if !s.final {
				ended = false
				unfinished = fmt.Errorf("lane %d has not ended in %s yet: wait until `pairstream status` calls it done, or use --open", lane, t.Topic)
			}
		}
	}
	if ended && blocks != batches {
		ended = false
		unfinished = fmt.Errorf("lane %d has %d batches and features of %d: wait until `pairstream status` calls it done, or use --open", lane, batches, blocks)
	}
	r, final, err := d.pairs(ctx, lane)
	if err != nil {
		return err
	}
	if !final {
		ended = false
		unfinished = fmt.Errorf("lane %d has not ended: `pairstream seal --final` ends it, and --open describes its records so far", lane)
	}
	r.Ended = ended
	d.manifest.Pairs[lane] = r
	if unfinished != nil && !d.open {
		return unfinished
	}
	return nil
}

// pairs describes a lane of `pairs`. It refuses a lane whose first pairs were removed by retention.
func (d *describer) pairs(ctx context.Context, lane int) (Range, bool, error) {
	b, err := d.log.Bounds(ctx, schemas.Pairs, lane)
	if err != nil {
		return Range{}, false, err
	}
	for rec, err := range d.log.Records(ctx, schemas.Embeddings, lane, stream.Position{}, -1) {
		if err != nil {
			return Range{}, false, fmt.Errorf("describing embeddings, lane %d: %w", lane, err)
		}
		// The mark points after the pair of this record.
		if mark, err := stream.MarkOf(rec); err == nil && mark.Input(schemas.Pairs).Offset > 0 && mark.Input(schemas.Pairs).Offset <= b.Start {
			return Range{}, false, fmt.Errorf("retention has removed pairs of lane %d that the run began with: all before offset %d are gone", lane, b.Start)
		}
		break
	}
	s, err := d.scan(ctx, schemas.Pairs, lane, stream.Position{Offset: b.Start}, b.End)
	if err != nil {
		return Range{}, false, fmt.Errorf("describing pairs, lane %d: %w", lane, err)
	}
	return Range{Lane: lane, Start: b.Start, End: b.End, Records: s.digest.Records, Digest: s.digest.Sum()}, s.final, nil
}

// scanned is the result of one pass over a lane.
type scanned struct {
	digest  *stream.Digest
	batches int64
	final   bool // the last record is a final seal
}

func (d *describer) scan(ctx context.Context, topic schemas.Topic, lane int, from stream.Position, end int64) (scanned, error) {
	s := scanned{digest: stream.NewDigest()}
	last := ""
	for rec, err := range d.log.Records(ctx, topic, lane, from, end) {
		if err != nil {
			return s, err
		}
		s.digest.Add(rec)
		s.final = isFinalSeal(rec)
		name := ""
		switch rec.Schema {
		case schemas.SchemaScoredBatch:
			s.batches++
			name = d.mined(rec)
		case schemas.SchemaEmbedding:
			name = fingerprint(rec)
		}
		if name != "" && name != last {
			last = name
			d.addModel(Model{topic, name})
		}
	}
	return s, nil
}

func (d *describer) addModel(m Model) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.manifest.Models, m) {
		d.manifest.Models = append(d.manifest.Models, m)
	}
}

// fingerprint returns the fingerprint of the model that made a record, "" if the record has none.
func fingerprint(rec stream.Record) string {
	v, err := msgvalue.Decode(rec.Value)
	if err != nil {
		return ""
	}
	fields, _ := v.(msgvalue.Map)
	model, _ := fields.Get("model")
	name, _ := model.(string)
	return name
}

func isFinalSeal(rec stream.Record) bool {
	seal, ok := stream.As[*schemas.Seal](rec)
	return ok && seal.Final
}
