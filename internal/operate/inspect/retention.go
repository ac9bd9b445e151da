package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Retention lists the records that may be deleted.
//
// A record of a lane is needed as long as a stage or a producer would read it after a crash. Stages resume from their
// marks, the trainer from its second-to-last checkpoint, and producers from their notes. Records before all of these may
// be deleted. A replay needs all records.
type Retention struct {
	Namespace string    `json:"namespace"`
	Time      time.Time `json:"time"`
	Lanes     []Need    `json:"lanes"`
	Problems  []string  `json:"problems,omitempty"` // topics whose settings delete needed records, or are otherwise wrong
}

// Need describes the needed records of one lane of a topic.
type Need struct {
	Topic   schemas.Topic `json:"topic"`
	Lane    int           `json:"lane"`
	Start   int64         `json:"start"` // first offset in the log
	First   int64         `json:"first"` // first offset that is needed
	End     int64         `json:"end"`
	By      string        `json:"by,omitempty"` // the stage or producer that needs it
	Why     string        `json:"why,omitempty"`
	Since   *time.Time    `json:"since,omitempty"`    // time of the first needed record
	Oldest  *time.Time    `json:"oldest,omitempty"`   // time of the first record in the log
	Free    int64         `json:"free_records"`       // records that may be deleted
	Bytes   int64         `json:"free_bytes"`         // size of these, roughly
	Needed  int64         `json:"needed_bytes"`       // size of the others, roughly
	TooLate bool          `json:"too_late,omitempty"` // retention has removed records that are needed
}

// need keeps the lowest needed offset and who needs it.
func (n *Need) need(offset int64, by, why string) {
	if n.By == "" || offset < n.First {
		n.First, n.By, n.Why = offset, by, why
	}
}

// CollectRetention returns the needed records of every lane, and dates the report now.
func CollectRetention(ctx context.Context, log *stream.Log, now time.Time) (*Retention, error) {
	r := &Retention{Namespace: log.Config().Namespace, Time: now}
	checkpoint, err := resumeStep(ctx, log)
	if err != nil {
		return nil, err
	}
	producers, err := begunSources(ctx, log)
	if err != nil {
		return nil, err
	}
	kept, err := log.Kept(ctx)
	if err != nil {
		return nil, err
	}
	c := needs{log: log, checkpoint: checkpoint, producers: producers, kept: kept}
	lanes := make([][]Need, log.Config().Lanes)
	all, qctx := errgroup.WithContext(ctx)
	all.SetLimit(questions)
	for lane := range lanes {
		all.Go(func() (err error) {
			lanes[lane], err = c.ofLane(qctx, lane)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	for i := range lanes[0] {
		for lane := range lanes {
			r.Lanes = append(r.Lanes, lanes[lane][i])
		}
	}
	r.Problems, err = problems(ctx, log, r)
	return r, err
}

// needs holds what is read once for all lanes.
type needs struct {
	log        *stream.Log
	checkpoint step
	producers  map[int]begun
	kept       map[stream.KeptPlace]int64
}

// ofLane returns the needed records of one lane, by topic.
func (c needs) ofLane(ctx context.Context, lane int) ([]Need, error) {
	of := make(map[schemas.Topic]*Need)
	for _, info := range schemas.Catalogue() {
		if info.Lane {
			of[info.Topic] = &Need{Topic: info.Topic, Lane: lane}
		}
	}
	for _, stage := range stageTopics {
		inputs := append([]schemas.Topic{stage.reads}, stage.also...)
		if stage.name != trainer {
			mark, err := c.log.ResumeMark(ctx, stage.name, lane, inputs, stage.writes)
			if err != nil {
				return nil, fmt.Errorf("reading where the %s resumes in lane %d: %w", stage.name, lane, err)
			}
			for _, t := range inputs {
				of[t].need(mark.Input(t).Offset, stage.name, whyOf[stage.name])
			}
			if err := needAgain(ctx, c.log, mark, of, stage.writes, stage.name); err != nil {
				return nil, err
			}
		}
		for _, t := range stage.writes {
			last, found, err := c.log.LastRecord(ctx, t, lane)
			if err != nil {
				return nil, err
			}
			if noted, ok := c.kept[stream.KeptPlace{Stage: stage.name, Topic: t, Lane: lane}]; found && (!ok || noted != last.Seq) {
				of[t].need(last.Offset, stage.name, "sees from its last record where it has stopped")
			}
		}
	}
	at, err := trainerPlace(ctx, c.log, lane, c.checkpoint)
	if err != nil {
		return nil, err
	}
	of[schemas.Scored].need(max(0, at-1), trainer, c.checkpoint.why()) // a checkpoint recognises its log by the record before
	of[schemas.Features].need(at, trainer, c.checkpoint.why())
	if p, ok := c.producers[lane]; ok {
		of[schemas.Pairs].need(p.offset, "producers", "begun, not ended: "+p.uri)
	}
	var out []Need
	for _, info := range schemas.Catalogue() {
		if n := of[info.Topic]; n != nil {
			if err := n.measure(ctx, c.log); err != nil {
				return nil, err
			}
			out = append(out, *n)
		}
	}
	return out, nil
}

// needAgain adds the records of its own output that a stage reads when it resumes. The record of a seq is at the offset
// with the same number or, after repetitions, at a higher one.
func needAgain(ctx context.Context, log *stream.Log, mark stream.Mark, of map[schemas.Topic]*Need, writes []schemas.Topic, stage string) error {
	for _, p := range mark.Inputs {
		if !slices.Contains(writes, p.Topic) {
			continue
		}
		n, offset := of[p.Topic], p.Offset
		b, err := log.Bounds(ctx, p.Topic, n.Lane)
		if err != nil {
			return err
		}
		if offset < b.Start && b.Start < b.End {
			first, err := log.SeqAt(ctx, p.Topic, n.Lane, b.Start)
			if err != nil {
				return err
			}
			if first <= p.Seq { // the log starts with repetitions
				offset = b.Start
			}
		}
		n.need(offset, stage, "reads the order of the epoch before again")
	}
	return nil
}

var whyOf = map[string]string{
	"encoder":       "embeds the pairs from there on",
	"indexer":       "reads its open group, and the window before it, again",
	"grouper":       "reads the group in hand again",
	"discriminator": "scores the batches from there on",
}

// measure fills in the counts and times of the log.
func (n *Need) measure(ctx context.Context, log *stream.Log) error {
	b, err := log.Bounds(ctx, n.Topic, n.Lane)
	if err != nil {
		return err
	}
	n.Start, n.End = b.Start, b.End
	n.TooLate = n.First < b.Start
	n.First = min(max(n.First, b.Start), b.End)
	n.Free = n.First - b.Start
	if n.Oldest, n.Bytes, err = about(ctx, log, n, n.Start, n.First); err != nil {
		return err
	}
	n.Since, n.Needed, err = about(ctx, log, n, n.First, n.End)
	return err
}

// recordBytes is roughly the size of a record without its value.
const recordBytes = 100

// about returns the time of the first record in a range of offsets, and estimates the bytes of the range from its first
// records.
func about(ctx context.Context, log *stream.Log, n *Need, from, end int64) (*time.Time, int64, error) {
	if from >= end {
		return nil, 0, nil
	}
	records, err := log.Peek(ctx, n.Topic, n.Lane, from)
	if err != nil || len(records) == 0 {
		return nil, 0, err
	}
	bytes := int64(0)
	for _, r := range records {
		bytes += int64(len(r.Value)) + recordBytes
	}
	return &records[0].Time, bytes * (end - from) / int64(len(records)), nil
}

// step is the training step from which the trainer would resume.
type step struct {
	number int64
	known  bool
}

func (s step) why() string {
	if !s.known {
		return "no checkpoint was reported: it begins anew"
	}
	return fmt.Sprintf("resumes from its second-to-last checkpoint, of step %d", s.number)
}

// resumeStep returns the step of the second-to-last checkpoint, which the trainer falls back to if the last one is
// damaged. If there is only one checkpoint, it returns the step of that.
func resumeStep(ctx context.Context, log *stream.Log) (step, error) {
	var steps []int64
	for rec, err := range log.Records(ctx, schemas.ProgressLog, 0, stream.Position{}, -1) {
		if err != nil {
			return step{}, err
		}
		if p, ok := stream.As[*schemas.Progress](rec); ok && p.Kind == schemas.ProgressCheckpoint {
			steps = append(steps, p.Step)
		}
	}
	if len(steps) == 0 {
		return step{}, nil
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	return step{steps[max(0, len(steps)-2)], true}, nil
}

// trainerPlace returns the seq of the first features of a lane that the trainer would compute again. Since offsets are
// never below seqs, these features and their batch are at or after the offset with the same number.
func trainerPlace(ctx context.Context, log *stream.Log, lane int, from step) (int64, error) {
	b, err := log.Bounds(ctx, schemas.Features, lane)
	if err != nil || !from.known {
		return 0, err
	}
	place := int64(0)
	for low, high := b.Start, b.End; low < high; { // steps ascend along the lane
		middle := low + (high-low)/2
		seq, made, err := blockAt(ctx, log, lane, middle)
		switch {
		case err != nil:
			return 0, err
		case made < 0 || made >= from.number:
			high = middle
		default:
			place, low = seq+1, middle+1
		}
	}
	return place, nil
}

// blockAt returns the seq and step of the first features at or after an offset, and -1 if there are none.
func blockAt(ctx context.Context, log *stream.Log, lane int, offset int64) (seq, made int64, err error) {
	records, err := log.Peek(ctx, schemas.Features, lane, offset)
	for _, rec := range records {
		r, uerr := schemas.Unmarshal(rec.Schema, rec.Value)
		if block, ok := r.(*schemas.FeatureBlock); uerr == nil && ok && rec.Seq >= 0 {
			return rec.Seq, block.Step, err
		}
	}
	return -1, -1, err
}

// begun is the lowest offset that a producer would read.
type begun struct {
	offset int64
	uri    string
}

// begunSources returns the sources that are partly published, by lane.
func begunSources(ctx context.Context, log *stream.Log) (map[int]begun, error) {
	lowest := make(map[int]begun)
	err := log.Notes(ctx, schemas.Sources, "", func(key string, value []byte) error {
		var note struct {
			Ends []int64 `json:"ends"`
		}
		err := json.Unmarshal(value, &note)
		for lane, end := range note.Ends {
			if b, ok := lowest[lane]; !ok || end < b.offset || end == b.offset && key < b.uri {
				lowest[lane] = begun{end, key}
			}
		}
		return err
	})
	return lowest, err
}

// problems compares the settings of topics with the needed records.
func problems(ctx context.Context, log *stream.Log, r *Retention) ([]string, error) {
	settings, err := log.TopicSettings(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range r.Lanes {
		name := n.Topic.Name(r.Namespace)
		say := func(format string, args ...any) {
			out = append(out, fmt.Sprintf("topic %s, lane %d: ", name, n.Lane)+fmt.Sprintf(format, args...))
		}
		if n.TooLate {
			say("retention has removed records that the %s needs: it %s. `pairstream lanes` says whether it has stopped", n.By, n.Why)
		}
		if ms, err := strconv.ParseInt(settings[n.Topic]["retention.ms"], 10, 64); err == nil && ms >= 0 && n.Since != nil {
			if keep, age := time.Duration(ms)*time.Millisecond, r.Time.Sub(*n.Since); age >= keep {
				say("retention.ms=%d deletes records that the %s still needs, of %s ago: want more than %d", ms, n.By, age.Round(time.Second), age.Milliseconds())
			}
		}
		if bytes, err := strconv.ParseInt(settings[n.Topic]["retention.bytes"], 10, 64); err == nil && bytes >= 0 && n.Needed > bytes {
			say("retention.bytes=%d deletes records that the %s still needs, about %d bytes: want -1", bytes, n.By, n.Needed)
		}
	}
	return out, nil
}

// Print writes the report as a table.
func (r *Retention) Print(w io.Writer) error {
	p := printer{w: w, now: r.Time}
	var rows [][]string
	for _, n := range r.Lanes {
		need := fmt.Sprintf("%s %s", n.By, n.Why)
		rows = append(rows, []string{
			string(n.Topic), strconv.Itoa(n.Lane), Count(n.Start), Count(n.First), Count(n.End), p.age(n.Since), Count(n.Free), size(n.Bytes), p.age(n.Oldest), display.Printable(need),
		})
	}
	p.table([]string{" topic", "lane", "start", "needed from", "end", "since", "free records", "bytes", "oldest", " who needs it"}, rows)
	p.line("Records before \"needed from\" may be deleted, unless you want to replay the run. Your own readers are not counted.")
	for _, text := range r.Problems {
		p.line("PROBLEM  %s", display.Printable(text))
	}
	if len(r.Problems) == 0 {
		p.line("no topic deletes what is needed")
	}
	return p.err
}

// age returns how long ago t was.
func (p *printer) age(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return p.now.Sub(*t).Round(time.Second).String()
}

// size writes a number of bytes.
func size(n int64) string {
	const unit = 1000
	for _, name := range []string{"B", "kB", "MB", "GB"} {
		if n < unit {
			return fmt.Sprintf("%d %s", n, name)
		}
		n /= unit
	}
	return fmt.Sprintf("%d TB", n)
}
