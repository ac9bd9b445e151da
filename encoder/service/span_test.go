package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/stagetest"
	"github.com/pairstream/pairstream/schemas"
)

// published are weights of which newer ones appear whenever somebody looks. The first choice of a place counts.
type published struct {
	batch   int
	bad     map[schemas.PairID]error
	newest  int
	choices map[string]string
	opened  map[string]int
	fault   error
}

func (p *published) choose(_ context.Context, lane int, seq int64) (string, error) {
	if p.fault != nil {
		return "", p.fault
	}
	p.newest++
	at := fmt.Sprint(lane, "/", seq)
	if p.choices[at] == "" {
		p.choices[at] = fmt.Sprint("w", p.newest)
	}
	return p.choices[at], nil
}

func (p *published) open(_ context.Context, _ int, fingerprint string) (embedder, error) {
	p.opened[fingerprint]++
	return &named{core{batch: p.batch, bad: p.bad}, fingerprint}, nil
}

func (p *published) close(fingerprint string) { p.opened[fingerprint]-- }

// named gives embeddings the fingerprint of its weights.
type named struct {
	core
	fingerprint string
}

func (n *named) Encode(ctx context.Context, pairs []*schemas.Pair, wanted encoder.Wanted) ([]encoder.Result, error) {
	results, err := n.core.Encode(ctx, pairs, wanted)
	for _, r := range results {
		if r.Embedding != nil {
			r.Embedding.Model = n.fingerprint
		}
	}
	return results, err
}

func newPublished(batch int) *published {
	return &published{
		batch: batch, choices: map[string]string{}, opened: map[string]int{},
		bad: map[schemas.PairID]error{pairOf(1).ID: shard.ErrMissing, pairOf(8).ID: imaging.ErrNotImage},
	}
}

// keepAll has no rules.
func keepAll(t *testing.T) *sieve {
	t.Helper()
	s := must.Get(newSieve(""))(t)
	return s
}

// newFollower makes the stage of lane 2, with spans of two embeddings.
func newFollower(t *testing.T, w *published, state []byte) *stage {
	t.Helper()
	instruments, _ := stagetest.Instruments(t, Name)
	factory := newStages(stage{sieve: keepAll(t), instruments: instruments}, shard.SpoolOptions{}, spans{size: 2, weights: w})
	s := must.Get(factory(2, state))(t)
	return s.(*stage)
}

// TestSpansHaveTheirWeights has newer weights whenever somebody looks. They change behind every second embedding and
// behind a seal alone, however pairs are batched. A new owner at any record goes on with the same weights.
func TestSpansHaveTheirWeights(t *testing.T) {
	broken := record(t, 6, pairOf(6))
	broken.Value = broken.Value[:10]
	records := []stream.Record{
		record(t, 0, pairOf(0)), record(t, 1, pairOf(1)), record(t, 2, pairOf(2)), record(t, 3, pairOf(3)), record(t, 4, &schemas.Seal{}),
		record(t, 5, pairOf(5)), broken, record(t, 7, pairOf(7)), record(t, 8, pairOf(8)), record(t, 9, pairOf(9)), record(t, 10, &schemas.Seal{Final: true}),
	}
	for _, batch := range []int{1, 2, 3, 100} {
		t.Run(fmt.Sprint("batches of ", batch), func(t *testing.T) {
			w := newPublished(batch)
			whole := newFollower(t, w, nil)
			var out stagetest.Output
			feed(t, whole, &out, records...)
			if got, want := modelsOf(out.Events), "w1 - w1 w2 seal w3 w3 - w4 seal"; got != want {
				t.Fatalf("models %q, want %q", got, want)
			}
			if got, want := fmt.Sprint(w.choices), "map[2/0:w1 2/3:w2 2/5:w3 2/7:w4]"; got != want {
				t.Errorf("choices %s, want %s", got, want)
			}
			for i, e := range out.Events {
				if e.Record == nil {
					continue
				}
				next := newFollower(t, w, e.Resume.State)
				var rest stagetest.Output
				feed(t, next, &rest, records[e.Resume.Inputs[0].Offset:]...)
				must.Do(t, next.Flush(t.Context(), &rest))
				if got, want := describe(rest.Events), describe(out.Events[i+1:]); got != want {
					t.Errorf("behind record %d:\n%s\nwant\n%s", i, got, want)
				}
				must.Check(t, next.Close())
			}
			must.Check(t, whole.Close())
			for fingerprint, open := range w.opened {
				if open != 0 {
					t.Errorf("weights %s are still open %d times", fingerprint, open)
				}
			}
		})
	}
}

func modelsOf(events []stagetest.Event) string {
	var words []string
	for _, e := range events {
		switch r := e.Record.(type) {
		case *schemas.Embedding:
			words = append(words, r.Model)
		case *schemas.Refusal:
			words = append(words, "-")
		case *schemas.Seal:
			words = append(words, "seal")
		}
	}
	return strings.Join(words, " ")
}

// A lane that has followed nobody begins a span where it is. One that follows nobody any more keeps its spool's place.
func TestFollowingBeginsAndEnds(t *testing.T) {
	o := shard.SpoolOptions{Root: t.TempDir(), Namespace: "crawl", TarBytes: 1 << 20}
	w := newPublished(1)
	instruments, _ := stagetest.Instruments(t, Name)
	follows := newStages(stage{sieve: keepAll(t), instruments: instruments}, o, spans{size: 3, weights: w})
	alone := newStages(stage{core: &core{batch: 1}, sieve: keepAll(t), instruments: instruments}, o, spans{size: 3})
	var state []byte
	for i, factory := range []stream.Factory{alone, follows, follows, alone, follows} {
		s := must.Get(factory(2, state))(t)
		out := placed{at: int64(i)}
		must.Do(t, s.Process(t.Context(), record(t, int64(i), inlinePair(t, i, picture(t, i))), &out))
		e := out.Events[0]
		state = e.Resume.State
		if got := e.Record.(*schemas.Embedding).Image.URI; !strings.HasSuffix(got, "/lane-00002/00000000000000000000.tar") {
			t.Errorf("record %d: its image is in %s", i, got)
		}
		must.Do(t, s.(*stage).Close())
	}
	if got, want := fmt.Sprint(w.choices), "map[2/1:w1 2/4:w2]"; got != want {
		t.Errorf("choices %s, want %s", got, want)
	}
	if _, err := follows(2, []byte(spanned+"{")); err == nil {
		t.Error("a broken state is taken")
	}
}

// placed is an output whose next record has a seq.
type placed struct {
	stagetest.Output
	at int64
}

func (p *placed) Before(rec stream.Record, state []byte) stream.Mark {
	m := p.Output.Before(rec, state)
	m.Seqs = []stream.TopicSeq{{Topic: schemas.Embeddings, Seq: p.at}}
	return m
}

func TestNoWeightsYet(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 1)
	_, err := chooseFrom(t.Context(), log, 0, 0)
	if !errors.Is(err, stream.ErrNotYet) || !strings.Contains(err.Error(), "start the trainer, which publishes TRAIN_INIT") {
		t.Errorf("error %v", err)
	}
}

func TestWeightsThatCannotBeOpened(t *testing.T) {
	m := &models{dir: t.TempDir(), loaded: map[string]*loaded{}, load: func(_ context.Context, path string) (*model.Encoder, *encoder.Encoder, error) {
		_, err := os.Stat(path)
		if err == nil {
			err = errors.New("no weights file")
		}
		return nil, nil, err
	}}
	_, err := m.open(t.Context(), 1, "abc")
	path := filepath.Join(m.dir, "published", "abc.safetensors")
	if !errors.Is(err, stream.ErrNotYet) || !strings.HasPrefix(err.Error(), "the file "+path+" with the weights of the trainer that lane 1 goes on with: ") {
		t.Errorf("a missing file: error %v", err)
	}
	must.Do(t, errors.Join(os.Mkdir(weights.Folder(m.dir), 0o755), os.WriteFile(path, nil, 0o644)))
	if _, err := m.open(t.Context(), 1, "abc"); errors.Is(err, stream.ErrNotYet) || errors.Is(err, fs.ErrNotExist) || err == nil {
		t.Errorf("a broken file: error %v", err)
	}
}
