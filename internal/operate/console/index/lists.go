package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"github.com/pairstream/pairstream/schemas"
)

// Batch is a mini-batch that Con-D has scored.
type Batch struct {
	Group                                        int64
	ID                                           schemas.GroupID
	Epoch, Sequence                              int32
	Offset                                       int64 // in the topic scored
	Features                                     int64 // offset of its features by the trainer; -1: none yet
	Strategy                                     string
	Samples                                      int64
	Candidates, Connections, Ambiguous, Replaced int64
}

const batchQuery = `SELECT b.grp, g.lane, g.seq, b.epoch, b.seq, b.at, b.features, b.strategy, b.samples, b.candidates, b.connections, b.ambiguous, b.replaced
	FROM batch b JOIN grp g ON g.n = b.grp `

func (x *Index) batches(ctx context.Context, where string, args ...any) ([]Batch, error) {
	return list(ctx, x, func(rows *sql.Rows, b *Batch) error {
		return rows.Scan(&b.Group, &b.ID.Lane, &b.ID.Seq, &b.Epoch, &b.Sequence, &b.Offset, &b.Features, &b.Strategy, &b.Samples,
			&b.Candidates, &b.Connections, &b.Ambiguous, &b.Replaced)
	}, batchQuery+where, args...)
}

// Batch finds a mini-batch.
func (x *Index) Batch(ctx context.Context, id schemas.GroupID, epoch, seq int32) (*Batch, error) {
	b, err := first(x.batches(ctx, "WHERE g.lane = ? AND g.seq = ? AND b.epoch = ? AND b.seq = ?", id.Lane, id.Seq, epoch, seq))
	return &b, err
}

// GroupBatches lists mini-batches of one epoch of a group.
func (x *Index) GroupBatches(ctx context.Context, group int64, epoch int32, from, count int) ([]Batch, error) {
	return x.batches(ctx, "WHERE b.grp = ? AND b.epoch = ? AND b.seq >= ? ORDER BY b.seq LIMIT ?", group, epoch, from, count)
}

// BatchesOf lists the mini-batches that a pair is in, by epoch.
func (x *Index) BatchesOf(ctx context.Context, p *Pair, most int) ([]Batch, error) {
	if p.Group == 0 {
		return nil, nil
	}
	type place struct{ epoch, seq int32 }
	slot := 4 * (int(p.Position) % schemas.ChunkMembers)
	places, err := list(ctx, x, func(rows *sql.Rows, at *place) error {
		var raw []byte
		err := rows.Scan(&at.epoch, &raw)
		at.seq = -1
		if err == nil && slot+4 <= len(raw) {
			at.seq = positions(raw[slot:])[0] - 1
		}
		return err
	}, "SELECT epoch, batches FROM place WHERE grp = ? AND chunk = ? ORDER BY epoch DESC LIMIT ?", p.Group, p.Position/schemas.ChunkMembers, most)
	var all []Batch
	for _, at := range slices.Backward(places) {
		if err != nil {
			break
		}
		if at.seq < 0 {
			continue // the epoch has not come to the pair
		}
		var found []Batch
		found, err = x.batches(ctx, "WHERE b.grp = ? AND b.epoch = ? AND b.seq = ?", p.Group, at.epoch, at.seq)
		all = append(all, found...)
	}
	return all, err
}

// Epoch sums up Con-D's findings in one epoch of a group, or of all groups.
type Epoch struct {
	Epoch                                        int32
	Strategy                                     string
	Batches                                      int64
	Candidates, Connections, Ambiguous, Replaced int64
	RuledOut                                     int64 // candidates that Con-D's own vectors ruled out, so that its matching head was not asked
}

// Negatives counts the candidates that are neither connections nor ambiguous.
func (e Epoch) Negatives() int64 { return e.Candidates - e.Connections - e.Ambiguous }

const sums = "count(*), sum(b.candidates), sum(b.connections), sum(b.ambiguous), sum(b.replaced), sum(b.ruled)"

// Epochs sums up the epochs of a group; group 0: of all groups.
func (x *Index) Epochs(ctx context.Context, group int64) ([]Epoch, error) {
	return list(ctx, x, func(rows *sql.Rows, e *Epoch) error {
		return rows.Scan(&e.Epoch, &e.Strategy, &e.Batches, &e.Candidates, &e.Connections, &e.Ambiguous, &e.Replaced, &e.RuledOut)
	}, "SELECT b.epoch, b.strategy, "+sums+" FROM batch b WHERE ? IN (0, b.grp) GROUP BY b.epoch, b.strategy ORDER BY b.epoch, b.strategy", group)
}

// Connection is a text that Con-D calls a match of an image, beside its own.
type Connection struct {
	Image, Text int32 // positions in the group
	Probability float64
	Epoch       int32
	Batch       int32
}

// Connections lists connections of a kind, in their order.
func (x *Index) Connections(ctx context.Context, group int64, kind, from, count int) ([]Connection, error) {
	return list(ctx, x, func(rows *sql.Rows, c *Connection) error {
		return rows.Scan(&c.Image, &c.Text, &c.Probability, &c.Epoch, &c.Batch)
	}, "SELECT image, text, prob, epoch, batch FROM connection WHERE grp = ? AND kind = ? ORDER BY rank, image, text LIMIT ? OFFSET ?", group, kind, count, from)
}

// Judged counts people's judgements on the connections of a group in one sample.
type Judged struct{ Right, Wrong int64 }

// Judged counts judgements by sample.
func (x *Index) Judged(ctx context.Context, id schemas.GroupID) (map[string]Judged, error) {
	judged := make(map[string]Judged)
	err := each(ctx, x.reads, func(rows *sql.Rows) error {
		var sample string
		var j Judged
		err := rows.Scan(&sample, &j.Right, &j.Wrong)
		judged[sample] = j
		return err
	}, "SELECT sample, sum(match), sum(1 - match) FROM judgement WHERE lane = ? AND seq = ? GROUP BY sample", id.Lane, id.Seq)
	return judged, err
}

// Verdict returns the judgement on one connection.
func (x *Index) Verdict(ctx context.Context, image, text schemas.PairID) (match, judged bool, err error) {
	judged, err = one(ctx, x, []any{&match}, "SELECT match FROM judgement WHERE image = ? AND text = ?", image[:], text[:])
	return match, judged, err
}

// Dead is a dead letter.
type Dead struct {
	Number               int64
	Stage, Class, Reason string
	Topic                schemas.Topic
	Lane                 int
	Offset, Bytes        int64
	Time                 time.Time
}

// DeadFilter chooses dead letters. An empty field chooses all.
type DeadFilter struct{ Stage, Class, Words string }

const deadWhere = " FROM dead WHERE (?1 = '' OR stage = ?1) AND (?2 = '' OR class = ?2) AND (?3 = '' OR instr(lower(reason), lower(?3)) > 0)"

// DeadLetters lists dead letters whose number is below before, the latest first, and counts all that are chosen.
func (x *Index) DeadLetters(ctx context.Context, f DeadFilter, before int64, count int) (letters []Dead, all int64, err error) {
	if _, err := one(ctx, x, []any{&all}, "SELECT count(*)"+deadWhere, f.Stage, f.Class, f.Words); err != nil {
		return nil, 0, err
	}
	letters, err = list(ctx, x, func(rows *sql.Rows, d *Dead) error {
		var at int64
		err := rows.Scan(&d.Number, &d.Stage, &d.Class, &d.Reason, &d.Topic, &d.Lane, &d.Offset, &d.Bytes, &at)
		d.Time = time.UnixMilli(at)
		return err
	}, "SELECT n, stage, class, reason, topic, lane, at, bytes, time"+deadWhere+" AND n < ?4 ORDER BY n DESC LIMIT ?5", f.Stage, f.Class, f.Words, before, count)
	return letters, all, err
}

// DeadCount counts dead letters of one stage and class.
type DeadCount struct {
	Stage, Class string
	Count        int64
}

// DeadCounts counts by stage and class, the most frequent first.
func (x *Index) DeadCounts(ctx context.Context) ([]DeadCount, error) {
	return list(ctx, x, func(rows *sql.Rows, d *DeadCount) error {
		return rows.Scan(&d.Stage, &d.Class, &d.Count)
	}, "SELECT stage, class, count(*) AS c FROM dead GROUP BY stage, class ORDER BY c DESC, stage, class LIMIT 200")
}

// DeadOverTime counts dead letters in equal spans of time, from the first to the last.
func (x *Index) DeadOverTime(ctx context.Context, bins int) (start time.Time, width time.Duration, counts []int64, err error) {
	var first, last, all int64
	if _, err = one(ctx, x, []any{&first, &last, &all}, "SELECT coalesce(min(time), 0), coalesce(max(time), 0), count(*) FROM dead"); err != nil || all == 0 {
		return start, 0, nil, err
	}
	span := max((last-first)/int64(bins)+1, 1000)
	counts = make([]int64, (last-first)/span+1)
	err = each(ctx, x.reads, func(rows *sql.Rows) error {
		var bin, n int64
		err := rows.Scan(&bin, &n)
		if err == nil && bin >= 0 && bin < int64(len(counts)) {
			counts[bin] = n
		}
		return err
	}, "SELECT (time - ?) / ? AS bin, count(*) FROM dead GROUP BY bin", first, span)
	return time.UnixMilli(first), time.Duration(span) * time.Millisecond, counts, err
}

// Report is a report of the trainer or of an evaluation.
type Report struct {
	Kind       string
	Step       int64
	Time       time.Time
	Values     map[string]float64
	Checkpoint string
}

// Reports lists the reports in the order of the log.
func (x *Index) Reports(ctx context.Context) ([]Report, error) {
	return list(ctx, x, func(rows *sql.Rows, r *Report) error {
		var at int64
		var raw []byte
		if err := rows.Scan(&r.Kind, &r.Step, &at, &raw, &r.Checkpoint); err != nil {
			return err
		}
		r.Time = time.UnixMilli(at)
		return json.Unmarshal(raw, &r.Values)
	}, "SELECT kind, step, time, vals, checkpoint FROM progress ORDER BY n")
}

// Totals count the records of the index.
type Totals struct {
	Pairs, Groups, Batches, DeadLetters int64
	Bytes                               int64 // of the file
}

// Totals counts. Pairs are numbered one after the other; max and min apart read two rows, together they would read all.
func (x *Index) Totals(ctx context.Context) (Totals, error) {
	var t Totals
	_, err := one(ctx, x, []any{&t.Pairs, &t.Groups, &t.Batches, &t.DeadLetters, &t.Bytes}, `SELECT
		coalesce((SELECT max(n) FROM pair) - (SELECT min(n) FROM pair) + 1, 0), (SELECT count(*) FROM grp), (SELECT count(*) FROM batch), (SELECT count(*) FROM dead),
		(SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size())`)
	return t, err
}

// BatchSize returns the number of samples of the latest mini-batch; 0: there is none.
func (x *Index) BatchSize(ctx context.Context) (int64, error) {
	var n int64
	_, err := one(ctx, x, []any{&n}, "SELECT samples FROM batch ORDER BY grp DESC, epoch DESC LIMIT 1")
	return n, err
}

// Judge adds a judgement that was just written to the log, before the index reads it there.
func (x *Index) Judge(ctx context.Context, j *schemas.Judgement) error {
	return x.update(ctx, func(w *writer) { w.judgement(j) })
}

// Spread returns up to count mini-batches of an epoch that are far apart, of those with features by the trainer.
func (x *Index) Spread(ctx context.Context, group int64, epoch int32, count int) ([]Batch, error) {
	var all int
	if _, err := one(ctx, x, []any{&all}, "SELECT count(*) FROM batch WHERE grp = ? AND epoch = ? AND features >= 0", group, epoch); err != nil {
		return nil, err
	}
	return x.batches(ctx, "WHERE b.grp = ? AND b.epoch = ? AND b.features >= 0 AND b.seq % ? = 0 ORDER BY b.seq LIMIT ?", group, epoch, max(1, all/count), count)
}

// Said is a person's judgement on a text of another image.
type Said struct {
	Image, Text schemas.PairID
	Probability float64 // Con-D's
	Match       bool
}

func (x *Index) said(ctx context.Context, where string, args ...any) ([]Said, error) {
	return list(ctx, x, func(rows *sql.Rows, s *Said) error {
		var image, text []byte
		if err := rows.Scan(&image, &text, &s.Probability, &s.Match); err != nil {
			return err
		}
		s.Image, s.Text = schemas.PairID(image), schemas.PairID(text)
		return nil
	}, "SELECT image, text, prob, match FROM judgement WHERE "+where, args...)
}

// RandomlyJudged lists people's judgements on the random samples of all groups, of one Con-D.
func (x *Index) RandomlyJudged(ctx context.Context, model string) ([]Said, error) {
	return x.said(ctx, "random AND model = ? ORDER BY prob DESC, image, text", model)
}

// Disagreements lists the connections of a group that people call no match, the one of which Con-D is surest first.
func (x *Index) Disagreements(ctx context.Context, id schemas.GroupID, from, count int) ([]Said, error) {
	return x.said(ctx, "lane = ? AND seq = ? AND NOT match ORDER BY prob DESC, image, text LIMIT ? OFFSET ?", id.Lane, id.Seq, count, from)
}

// Check returns the verdict of the guard of connections on a group: the latest of the group, or of an earlier one of
// its lane. It returns nil when there is none.
func (x *Index) Check(ctx context.Context, id schemas.GroupID) (*schemas.Check, error) {
	var raw []byte
	found, err := one(ctx, x, []any{&raw}, "SELECT checked FROM grp WHERE lane = ? AND seq <= ? AND checked IS NOT NULL ORDER BY seq DESC LIMIT 1", id.Lane, id.Seq)
	if err != nil || !found {
		return nil, err
	}
	var c schemas.Check
	return &c, json.Unmarshal(raw, &c)
}

// Model returns the fingerprint of the Con-D whose connections a group has, the latest; empty: it has none.
func (x *Index) Model(ctx context.Context, group int64) (string, error) {
	var model string
	_, err := one(ctx, x, []any{&model}, "SELECT model FROM connection WHERE grp = ? ORDER BY epoch DESC, batch DESC LIMIT 1", group)
	return model, err
}

// Asked returns Con-D's probability for a connection that the index keeps, and the Con-D's fingerprint.
func (x *Index) Asked(ctx context.Context, group int64, image, text int32) (p float32, model string, err error) {
	err = need(ctx, x, []any{&p, &model}, "SELECT prob, model FROM connection WHERE grp = ? AND image = ? AND text = ? LIMIT 1", group, image, text)
	return p, model, err
}
