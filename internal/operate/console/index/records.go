package index

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

const (
	captionBytes = 160 // of a caption that are kept; the log has the whole
	reasonBytes  = 300
	mostDead     = 100_000
	mostReports  = 10_000
	simScale     = 1e6 // a similarity is kept as a whole number of millionths
)

// cut shortens a text to at most so many bytes of whole characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}

func (w *writer) uri(uri string) (n int64) {
	if !w.one([]any{&n}, "SELECT n FROM uri WHERE uri = ?", uri) {
		w.one([]any{&n}, "INSERT INTO uri (uri) VALUES (?) RETURNING n", uri)
	}
	return n
}

func (w *writer) embedding(rec stream.Record, e *schemas.Embedding) {
	uri, caption := w.uri(e.Image.URI), cut(e.Caption, captionBytes)
	var n int64
	added := w.one([]any{&n}, `INSERT INTO pair (id, image, lane, at, seq, uri, off, size, sim, caption, cut) VALUES (?,?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT (id) DO NOTHING RETURNING n`, e.ID[:], e.ImageID[:], rec.Lane, rec.Offset, rec.Seq, uri, e.Image.Offset, e.Image.Size,
		int64(math.Round(float64(e.Similarity)*simScale)), caption, len(caption) < len(e.Caption))
	if added {
		w.exec("INSERT INTO words (rowid, caption) VALUES (?, ?)", n, caption)
	}
}

// group returns the number of a group, and its statistics so far.
func (w *writer) group(id schemas.GroupID) (n int64, s *Stats) {
	var raw []byte
	s = newStats()
	if !w.one([]any{&n, &raw}, "SELECT n, stats FROM grp WHERE lane = ? AND seq = ?", id.Lane, id.Seq) {
		w.one([]any{&n}, "INSERT INTO grp (lane, seq, at, count) VALUES (?, ?, -1, 0) RETURNING n", id.Lane, id.Seq)
	} else if raw != nil {
		w.err = json.Unmarshal(raw, s)
	}
	return n, s
}

func (w *writer) neighbors(rec stream.Record, c *schemas.NeighborChunk) {
	n, stats := w.group(c.Group)
	var there int
	if w.one([]any{&there}, "SELECT 1 FROM chunk WHERE grp = ? AND start = ?", n, c.Start) {
		return
	}
	for i := range c.Members() {
		id := c.ID(i)
		var sim int64
		if w.one([]any{&sim}, "UPDATE pair SET grp = ?, pos = ?, cluster = ? WHERE id = ? RETURNING sim", n, int(c.Start)+i, c.Cluster[i], id[:]) {
			stats.similarity(float64(sim) / simScale)
		}
		stats.member(c, i)
	}
	w.exec("UPDATE grp SET count = count + ?, stats = ? WHERE n = ?", c.Members(), w.json(stats), n)
	w.exec("INSERT INTO chunk (grp, start, at) VALUES (?, ?, ?)", n, c.Start, rec.Offset)
}

func (w *writer) manifest(rec stream.Record, g *schemas.Group) {
	n, _ := w.group(g.Group)
	w.exec("UPDATE grp SET at = ?, count = ? WHERE n = ?", rec.Offset, g.Count, n)
}

func (w *writer) deadLetter(rec stream.Record) {
	d, err := stream.ParseDeadLetter(rec)
	if err != nil {
		return // a foreign record; the log's own reader reports it
	}
	bytes := cmp.Or(d.Cut, int64(len(d.Value)))
	w.exec(`INSERT INTO dead (n, stage, class, reason, topic, lane, at, bytes, time) VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`,
		d.Number, d.Stage, d.Class(), cut(strings.ToValidUTF8(d.Reason, "\uFFFD"), reasonBytes), string(d.Topic), d.Lane, d.Offset, bytes, d.Time.UnixMilli())
}

func (w *writer) progress(rec stream.Record, p *schemas.Progress) {
	at := cmp.Or(p.Time, rec.Time.UnixMilli())
	w.exec("INSERT INTO progress (n, kind, step, time, vals, checkpoint) VALUES (?,?,?,?,?,?) ON CONFLICT DO NOTHING",
		rec.Offset, p.Kind, p.Step, at, w.json(p.Values), p.Checkpoint)
}

func (w *writer) judgement(j *schemas.Judgement) {
	if j.Verdict == schemas.VerdictNone {
		w.exec("DELETE FROM judgement WHERE image = ? AND text = ?", j.Image[:], j.Text[:])
		return
	}
	random := j.Sample == schemas.SampleRandom
	w.exec(`INSERT INTO judgement (image, text, lane, seq, sample, match, random, prob, model) VALUES (?,?,?,?,?,?,?,?,?)
		ON CONFLICT (image, text) DO UPDATE SET lane = excluded.lane, seq = excluded.seq, sample = excluded.sample, match = excluded.match,
		random = random OR excluded.random, prob = excluded.prob, model = excluded.model`,
		j.Image[:], j.Text[:], j.Group.Lane, j.Group.Seq, j.Sample, j.Verdict == schemas.VerdictMatch, random, j.Probability, j.Model)
}

// prune keeps the tables within their bounds.
func (w *writer) prune(topic schemas.Topic) {
	switch topic { //nolint:exhaustive // the other tables are as long as the groups and pairs that are kept
	case schemas.Embeddings:
		w.prunePairs()
	case schemas.DeadLetters:
		w.exec("DELETE FROM dead WHERE n <= (SELECT max(n) FROM dead) - ?", mostDead)
	case schemas.ProgressLog:
		var count int
		w.one([]any{&count}, "SELECT count(*) FROM progress WHERE kind = 'step'")
		if count > mostReports { // Every other report goes. Curves stay whole, with half of the points.
			w.exec(`DELETE FROM progress WHERE n IN (SELECT n FROM (SELECT n, row_number() OVER (ORDER BY n) AS k FROM progress WHERE kind = 'step') WHERE k % 2 = 0)`)
		}
	}
}

// prunePairs drops the oldest pairs beyond the bound, and groups whose pairs are all gone.
func (w *writer) prunePairs() {
	var first, last int64
	if !w.one([]any{&first, &last}, "SELECT coalesce(min(n), 0), coalesce(max(n), -1) FROM pair") || last-first < w.x.o.Pairs {
		return
	}
	limit := last - w.x.o.Pairs
	w.exec("INSERT INTO words (words, rowid, caption) SELECT 'delete', n, caption FROM pair WHERE n <= ?", limit)
	w.exec("DELETE FROM pair WHERE n <= ?", limit)
	const gone = "(SELECT n FROM grp WHERE at >= 0 AND NOT EXISTS (SELECT 1 FROM pair WHERE pair.grp = grp.n))"
	for _, table := range []string{"chunk", "sheet", "batch", "place", "connection"} {
		w.exec(fmt.Sprintf("DELETE FROM %s WHERE grp IN %s", table, gone))
	}
	w.exec("DELETE FROM grp WHERE n IN " + gone)
}
