package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/schemas"
)

const (
	mostNeighbors  = 10
	mostMates      = 12
	mostEpochs     = 20 // the latest of a pair
	mostCandidates = 8  // of an anchor; a batch may have thousands
)

type pairView struct {
	*index.Pair
	Caption   string // the whole one, where the log has it
	Group     *index.Group
	Objects   []string
	Replaced  string // the text that replaced the caption
	Texts     []found
	SE, Mates []*index.Pair
	Epochs    []pairEpoch
	Journey   []stop
	Missing   string // why something is not shown
	High, Low float64
}

// pairEpoch is one epoch of a pair: its mini-batch and its hardest candidates.
type pairEpoch struct {
	index.Batch
	Text     string // it was trained on
	Replaced bool
	Masked   string
	Texts    []candidate // for the image
	Images   []candidate // for the text
}

// candidate is one that Con-D was asked about.
type candidate struct {
	ID          schemas.PairID
	Text        string
	Probability float64
	Made        string // the trainer's use: positive, passed over or negative
}

func (s *Server) findPair(w http.ResponseWriter, r *http.Request) error {
	q := query{Request: r}
	if id := q.pair(strings.ToLower(strings.TrimSpace(r.FormValue("id")))); q.err == nil {
		http.Redirect(w, r, "/pairs/"+id.String(), http.StatusSeeOther)
	}
	return q.err
}

// pairAt finds the pair with an id that a request names.
func (s *Server) pairAt(r *http.Request, id string) (*index.Pair, error) {
	q := query{Request: r}
	pair := q.pair(id)
	if q.err != nil {
		return nil, q.err
	}
	return s.o.Index.Pair(r.Context(), pair)
}

// missing explains why a page shows less than it could.
func missing(err error) string {
	return "Something is missing here, since the log did not return it: " + clip(200, err.Error())
}

func (s *Server) pairPage(w http.ResponseWriter, r *http.Request) error {
	p, err := s.pairAt(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	v := &pairView{Pair: p, Caption: p.Caption, High: s.o.High, Low: s.o.Low}
	if p.Group != 0 {
		if v.Group, err = s.o.Index.GroupN(r.Context(), p.Group); err != nil {
			return err
		}
		if v.Mates, err = s.mates(r.Context(), p); err != nil {
			return err
		}
	}
	// The rest is in the log. Without Kafka, the page shows the index's part.
	err = errors.Join(s.fromLog(r.Context(), v), s.epochs(r.Context(), v), s.journey(r.Context(), v))
	if err != nil {
		if r.Context().Err() != nil {
			return err
		}
		s.o.Logger.Debug("a pair is shown without its records", keyPair, p.ID, keyErr, err)
		v.Missing = missing(err)
	}
	return s.answer(w, r, "pair.html", page{Title: clip(60, v.Caption), Path: "/groups", Data: v})
}

func (s *Server) mates(ctx context.Context, p *index.Pair) ([]*index.Pair, error) {
	mates, err := s.o.Index.ClusterMates(ctx, p.Group, p.Cluster, p.Position, mostMates+1)
	mates = slices.DeleteFunc(mates, func(m *index.Pair) bool { return m.ID == p.ID })
	return mates[:min(len(mates), mostMates)], err
}

// fromLog reads the pair's embedding, its neighbours and its objects.
func (s *Server) fromLog(ctx context.Context, v *pairView) error {
	e, err := record[*schemas.Embedding](ctx, s.records, schemas.Embeddings, v.Lane, v.Offset)
	if err != nil {
		return fmt.Errorf("its embedding: %w", err)
	}
	v.Caption = e.Caption
	if v.Group == nil {
		return nil
	}
	at, err := s.o.Index.Chunk(ctx, v.Pair.Group, v.Position)
	if err != nil {
		return err
	}
	c, err := record[*schemas.NeighborChunk](ctx, s.records, schemas.Neighbors, v.Lane, at)
	if err != nil {
		return fmt.Errorf("its neighbours: %w", err)
	}
	row := int(v.Position - c.Start)
	if row < 0 || row >= c.Members() {
		return fmt.Errorf("chunk %d of the group has no member %d", c.Start, v.Position)
	}
	if v.SE, err = s.o.Index.Members(ctx, v.Pair.Group, known(c.SE[row*int(c.K1):(row+1)*int(c.K1)])); err != nil {
		return err
	}
	texts := known(c.V2T[row*int(c.K) : (row+1)*int(c.K)])
	if err := s.nearest(ctx, v, e.V.Floats(), texts[:min(len(texts), mostNeighbors)]); err != nil {
		return err
	}
	if v.Group.Offset < 0 {
		return nil
	}
	g, err := record[*schemas.Group](ctx, s.records, schemas.Groups, v.Lane, v.Group.Offset)
	if err != nil {
		return fmt.Errorf("the manifest of its group: %w", err)
	}
	for _, noun := range c.Objects(row) {
		if int(noun) < len(g.Nouns) {
			v.Objects = append(v.Objects, g.Nouns[noun])
		}
	}
	return nil
}

// nearest finds the texts nearest to the image, with v . t.
func (s *Server) nearest(ctx context.Context, v *pairView, image []float32, texts []int32) error {
	pairs, err := s.o.Index.Members(ctx, v.Pair.Group, texts)
	if err != nil {
		return err
	}
	v.Texts = make([]found, len(pairs))
	return parallel(ctx, len(pairs), func(ctx context.Context, i int) error {
		v.Texts[i].Pair = pairs[i]
		e, err := record[*schemas.Embedding](ctx, s.records, schemas.Embeddings, pairs[i].Lane, pairs[i].Offset)
		if err == nil {
			v.Texts[i].Score, v.Texts[i].Scored = dot(image, e.T.Floats()), true
		}
		return err
	})
}

// epochs reads the mini-batches that the pair was in.
func (s *Server) epochs(ctx context.Context, v *pairView) error {
	batches, err := s.o.Index.BatchesOf(ctx, v.Pair, mostEpochs)
	if err != nil {
		return err
	}
	v.Epochs = make([]pairEpoch, len(batches))
	err = parallel(ctx, len(batches), func(ctx context.Context, i int) error {
		b, err := record[*schemas.ScoredBatch](ctx, s.records, schemas.Scored, v.Lane, batches[i].Offset)
		v.Epochs[i].Batch = batches[i]
		if err == nil {
			high := index.HighOf(b, s.o.High)
			v.Epochs[i].fill(b, v.Position, high, min(s.o.Low, high))
		}
		return err
	})
	for _, e := range v.Epochs {
		if e.Replaced {
			v.Replaced = e.Text
		}
	}
	slices.SortFunc(v.Epochs, func(a, b pairEpoch) int { return cmp.Compare(b.Epoch, a.Epoch) })
	return err
}

func (e *pairEpoch) fill(b *schemas.ScoredBatch, pos int32, high, low float64) {
	at := slices.IndexFunc(b.Samples, func(s schemas.Sample) bool { return s.Position == pos })
	if at < 0 {
		return
	}
	e.Text, e.Replaced = b.Samples[at].Text, b.Samples[at].Replaced
	for _, m := range b.Masked {
		if int(m.Sample) == at && !m.Positive {
			e.Masked = m.Reason
		}
	}
	e.Texts = candidates(b, b.I2T, b.ProbI2T, at, high, low)
	e.Images = candidates(b, b.T2I, b.ProbT2I, at, high, low)
}

func candidates(b *schemas.ScoredBatch, places schemas.Int32s, probs schemas.Floats32, anchor int, high, low float64) []candidate {
	var list []candidate
	m := int(b.M)
	for k := anchor * m; k < (anchor+1)*m && len(list) < mostCandidates; k++ {
		if places[k] < 0 {
			break
		}
		sample := b.Samples[places[k]]
		list = append(list, candidate{sample.ID, sample.Text, float64(probs[k]), madeOf(float64(probs[k]), high, low)})
	}
	return list
}

// madeOf returns the trainer's use of a candidate (MAFA section 4.1).
func madeOf(p, high, low float64) string {
	switch {
	case p > high:
		return "positive"
	case p < low:
		return "negative"
	}
	return "passed over"
}

// stop is a stop on a pair's journey: the time at which a record with it was written.
type stop struct {
	What  string
	Time  time.Time
	After string // since the stop before
}

// location is the position of a record with the pair. input names the topic of the record that it was made from, if
// that is a stop too.
type location struct {
	what   string
	topic  schemas.Topic
	offset int64
	input  schemas.Topic
	before string // name of the input's stop
}

// journey finds the times at which the pair passed the stages: up to its group, and in its first and its latest epoch.
func (s *Server) journey(ctx context.Context, v *pairView) error {
	places := []location{{"embedded", schemas.Embeddings, v.Offset, schemas.Pairs, "published"}}
	if v.Group != nil && v.Group.Offset >= 0 {
		places = append(places, location{what: "its group was closed", topic: schemas.Groups, offset: v.Group.Offset})
	}
	for i, e := range v.Epochs { // the latest one is the first
		if i == 0 || i == len(v.Epochs)-1 {
			places = append(places, ofEpoch(e.Batch)...)
		}
	}
	found := make([][]stop, len(places))
	err := parallel(ctx, len(places), func(ctx context.Context, i int) (err error) {
		found[i], err = s.stops(ctx, v.Lane, places[i])
		return err
	})
	v.Journey = slices.Concat(found...)
	slices.SortStableFunc(v.Journey, func(a, b stop) int { return a.Time.Compare(b.Time) })
	for i := 1; i < len(v.Journey); i++ {
		v.Journey[i].After = v.Journey[i].Time.Sub(v.Journey[i-1].Time).Round(time.Millisecond).String()
	}
	return err
}

func ofEpoch(b index.Batch) []location {
	list := []location{{fmt.Sprintf("scored by Con-D, epoch %d", b.Epoch), schemas.Scored, b.Offset, schemas.Batches, fmt.Sprintf("put into a mini-batch, epoch %d", b.Epoch)}}
	if b.Features >= 0 {
		list = append(list, location{what: fmt.Sprintf("trained on, epoch %d", b.Epoch), topic: schemas.Features, offset: b.Features})
	}
	return list
}

// stops reads the time of a record, and that of its input. It leaves out an input that retention has removed.
func (s *Server) stops(ctx context.Context, lane int, p location) ([]stop, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	rec, err := s.o.Log.RecordAt(ctx, p.topic, lane, p.offset)
	if err != nil {
		return nil, fmt.Errorf("when it was %s: %w", p.what, unanswered(err))
	}
	list := []stop{{What: p.what, Time: rec.Time}}
	if p.input == "" {
		return list, nil
	}
	mark, err := stream.MarkOf(rec)
	if err != nil {
		return nil, fmt.Errorf("when it was %s: %w", p.before, err)
	}
	// The mark points behind the record's input.
	at := mark.Input(p.input).Offset - 1
	if at < 0 {
		return list, nil
	}
	input, err := s.o.Log.RecordAt(ctx, p.input, lane, at)
	switch {
	case errors.Is(err, stream.ErrGap):
		return list, nil
	case err != nil:
		return nil, fmt.Errorf("when it was %s: %w", p.before, unanswered(err))
	}
	return append(list, stop{What: p.before, Time: input.Time}), nil
}
