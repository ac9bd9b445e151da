package console

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"

	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/schemas"
)

const (
	mostCells  = 128 // side of the matrix that a page draws
	besideFrom = 16  // mini-batches that a random one is drawn from
)

type batchView struct {
	index.Batch
	Record  *schemas.ScoredBatch
	Samples []sampleView
	Matrix  *matrix
	Beside  *matrix
	Missing string
	Last    int32 // number of the epoch's last batch
	High    float64
}

type sampleView struct {
	schemas.Sample
	Number      int
	Connections int
	Masked      string
}

// matrix is the similarity of every image with every text of a batch. The page draws it.
type matrix struct {
	N      int      `json:"n"`
	Cells  []int    `json:"cells"` // thousandths, row after row: images by texts
	Marks  [][2]int `json:"marks"` // image and text: Con-D calls them a match
	IDs    []string `json:"ids"`   // of the pairs
	Low    int      `json:"low"`   // smallest cell
	High   int      `json:"high"`  // largest cell
	Mean   float64  `json:"-"`     // of the cells beside the diagonal
	Cut    bool     `json:"-"`     // the batch is larger
	Found  int      `json:"-"`     // marks
	Source string   `json:"-"`     // whose vectors these are
	Texts  []string `json:"texts"` // shortened
}

func (s *Server) batchPage(w http.ResponseWriter, r *http.Request) error {
	q := query{Request: r}
	id, epoch, number := q.group(), q.path("epoch", 1<<31-1), q.path("number", 1<<31-1)
	if q.err != nil {
		return q.err
	}
	b, err := s.o.Index.Batch(r.Context(), id, int32(epoch), int32(number))
	if err != nil {
		return err
	}
	v := &batchView{Batch: *b}
	if v.Record, err = record[*schemas.ScoredBatch](r.Context(), s.records, schemas.Scored, int(id.Lane), b.Offset); err != nil {
		return err
	}
	v.Last = v.Record.Batches - 1
	v.High = index.HighOf(v.Record, s.o.High)
	v.samples(v.High)
	if v.Matrix, err = s.matrix(r.Context(), b, v.Record); err == nil {
		err = s.beside(r.Context(), v)
	}
	if err != nil {
		if r.Context().Err() != nil {
			return err
		}
		v.Missing = missing(err)
	}
	return s.answer(w, r, "batch.html", page{Title: fmt.Sprintf("Mini-batch %d of epoch %d", number, epoch), Path: "/groups", Data: v})
}

func (v *batchView) samples(high float64) {
	for i, sample := range v.Record.Samples {
		v.Samples = append(v.Samples, sampleView{Sample: sample, Number: i + 1})
	}
	for _, m := range v.Record.Masked {
		if !m.Positive {
			v.Samples[m.Sample].Masked = m.Reason
		}
	}
	for _, mark := range marks(v.Record, high, len(v.Samples)) {
		v.Samples[mark[0]].Connections++
	}
}

// marks lists the images and texts that Con-D calls a match, each once.
func marks(b *schemas.ScoredBatch, high float64, most int) [][2]int {
	seen := make(map[[2]int]bool)
	list := [][2]int{}
	for k := range b.I2T {
		anchor := k / int(b.M)
		for _, found := range []struct {
			image, text int
			p           float32
		}{{anchor, int(b.I2T[k]), b.ProbI2T[k]}, {int(b.T2I[k]), anchor, b.ProbT2I[k]}} {
			mark := [2]int{found.image, found.text}
			if found.image >= 0 && found.text >= 0 && found.image < most && found.text < most && float64(found.p) > high && !seen[mark] {
				seen[mark] = true
				list = append(list, mark)
			}
		}
	}
	return list
}

// matrix reads the vectors that the trainer made of a batch, or the encoder's as long as there are none.
func (s *Server) matrix(ctx context.Context, b *index.Batch, rec *schemas.ScoredBatch) (*matrix, error) {
	n := min(len(rec.Samples), mostCells)
	m := &matrix{N: n, Cut: n < len(rec.Samples), Source: "the model in training"}
	images, texts := make([][]float32, n), make([][]float32, n)
	if b.Features >= 0 {
		f, err := record[*schemas.FeatureBlock](ctx, s.records, schemas.Features, int(b.ID.Lane), b.Features)
		if err != nil {
			return nil, fmt.Errorf("reading the batch's features: %w", err)
		}
		v, t, dim := f.V.Floats(), f.T.Floats(), int(f.Dim)
		if len(v) < n*dim || len(t) < n*dim {
			return nil, errors.New("the trainer's features have fewer rows than the batch")
		}
		for i := range n {
			images[i], texts[i] = v[i*dim:(i+1)*dim], t[i*dim:(i+1)*dim]
		}
	} else {
		m.Source = "the encoder; the trainer has not reached this batch"
		err := parallel(ctx, n, func(ctx context.Context, i int) error {
			p, err := s.o.Index.Pair(ctx, rec.Samples[i].ID)
			if err != nil {
				return err
			}
			e, err := record[*schemas.Embedding](ctx, s.records, schemas.Embeddings, p.Lane, p.Offset)
			if err == nil {
				images[i], texts[i] = e.V.Floats(), e.T.Floats()
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	m.fill(images, texts)
	m.Marks = marks(rec, index.HighOf(rec, s.o.High), n)
	m.Found = len(m.Marks)
	for _, sample := range rec.Samples[:n] {
		m.IDs = append(m.IDs, sample.ID.String())
		m.Texts = append(m.Texts, clip(80, sample.Text))
	}
	return m, nil
}

func (m *matrix) fill(images, texts [][]float32) {
	sum := 0.0
	for i := range images {
		for j := range texts {
			cell := dot(images[i], texts[j])
			m.Cells = append(m.Cells, int(1000*cell))
			if i != j {
				sum += cell
			}
		}
	}
	m.Low, m.High = slices.Min(m.Cells), slices.Max(m.Cells)
	m.Mean = sum / float64(max(m.N*(m.N-1), 1))
}

// beside draws as many pairs at random from the same epoch, in turn from mini-batches that are far apart. It compares
// their features, so that the same model has seen both.
func (s *Server) beside(ctx context.Context, v *batchView) error {
	if v.Features < 0 || v.Matrix.N < 2 {
		return nil
	}
	list, err := s.o.Index.Spread(ctx, v.Group, v.Epoch, besideFrom)
	if err != nil || len(list) < 4 {
		return err
	}
	batches := make([]*schemas.ScoredBatch, len(list))
	blocks := make([]*schemas.FeatureBlock, len(list))
	err = parallel(ctx, len(list), func(ctx context.Context, i int) (err error) {
		if batches[i], err = record[*schemas.ScoredBatch](ctx, s.records, schemas.Scored, int(v.ID.Lane), list[i].Offset); err == nil {
			blocks[i], err = record[*schemas.FeatureBlock](ctx, s.records, schemas.Features, int(v.ID.Lane), list[i].Features)
		}
		return err
	})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(uint64(v.Epoch), uint64(v.Sequence))) // the same page always shows the same pairs
	m := &matrix{Marks: [][2]int{}}
	var images, texts [][]float32
	for i := range v.Matrix.N {
		b, f := batches[i%len(list)], blocks[i%len(list)]
		row, dim := rng.IntN(min(len(b.Samples), len(f.Positions))), int(f.Dim)
		images = append(images, f.V[2*row*dim:2*(row+1)*dim].Floats())
		texts = append(texts, f.T[2*row*dim:2*(row+1)*dim].Floats())
		m.IDs = append(m.IDs, b.Samples[row].ID.String())
		m.Texts = append(m.Texts, clip(80, b.Samples[row].Text))
	}
	m.N = len(images)
	m.fill(images, texts)
	v.Beside = m
	return nil
}
