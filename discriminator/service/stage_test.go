package service

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/stagetest"
	"github.com/pairstream/pairstream/schemas"
)

// half gives every candidate the probability 1/2, unless its sample is masked.
type half struct{ fault error }

func (h half) Score(_ context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
	masked := map[int32]bool{-1: true}
	for _, m := range in.Masked {
		masked[m.Sample] = true
	}
	probs := func(list schemas.Int32s) schemas.Floats32 {
		out := make(schemas.Floats32, len(list))
		for k, c := range list {
			if !masked[c] && !masked[int32(k/int(b.M))] {
				out[k] = 0.5
			}
		}
		return out
	}
	return &schemas.ScoredBatch{Batch: *b, Model: "half", ProbI2T: probs(b.I2T), ProbT2I: probs(b.T2I), Masked: in.Masked}, h.fault
}

// Known gives every pair 1/2.
func (h half) Known(_ context.Context, b *schemas.Batch, _ discriminator.Input, _ discriminator.Questions, _ [][]int32) (discriminator.Known, error) {
	all := slices.Repeat([]float32{0.5}, len(b.Samples))
	return discriminator.Known{Positives: all, Edited: all, Candidates: all}, h.fault
}

// pictures loads nothing, and says what it is told.
type pictures struct {
	lost  []schemas.Mask
	fault error
	loads *int
}

func (p pictures) IDs(b *schemas.Batch) [][]int32 { return make([][]int32, len(b.Samples)) }

func (p pictures) Images(context.Context, *schemas.Batch, []schemas.Mask) ([]float32, []schemas.Mask, error) {
	*p.loads++
	return nil, p.lost, p.fault
}

// batch is number n of an epoch, with m candidates for each of its three samples.
func batch(n, m int32) *schemas.Batch {
	b := &schemas.Batch{Group: schemas.GroupID{Seq: 4}, Sequence: n, Batches: 9, Strategy: schemas.StrategyRandom, M: m}
	for i := range int32(3) {
		image, text := schemas.NewImageID([]byte{byte(n), byte(i)}), "a caption"
		b.Samples = append(b.Samples, schemas.Sample{
			ID: schemas.NewPairID(image, text), ImageID: image, Text: text, Position: i,
			Image: schemas.ImageRef{URI: "file:///a.tar", Size: 10},
		})
		for c := range m {
			b.I2T, b.T2I = append(b.I2T, (i+c+1)%3), append(b.T2I, (i+c+1)%3)
		}
	}
	return b
}

func newStage(t *testing.T, core scorer, p pictures) (stream.Stage, func(string) float64) {
	t.Helper()
	instruments, rt := stagetest.Instruments(t, Name)
	s := must.Get(newFactory(core, p, guardSettings{}, keeping{}, gauges{}, instruments)(0, nil))(t)
	return s, func(name string) float64 { return stagetest.Metric(t, rt, name) }
}

// Every batch gives one record behind which the stage resumes, whatever the bucket says of its images.
func TestEveryBatchGivesOneRecord(t *testing.T) {
	masks := []schemas.Mask{{Sample: 1, Reason: schemas.MaskMissing}, {Sample: 2, Reason: schemas.MaskChanged}}
	for name, lost := range map[string][]schemas.Mask{"all images": nil, "two are gone": masks} {
		t.Run(name, func(t *testing.T) {
			loads := 0
			s, metric := newStage(t, half{}, pictures{lost: lost, loads: &loads})
			var out stagetest.Output
			for i, rec := range []schemas.Record{batch(0, 2), batch(1, 0), &schemas.Seal{Final: true}, batch(2, 1)} {
				if s.Input() != schemas.Batches {
					t.Fatalf("the stage asks for %s", s.Input())
				}
				must.Do(t, s.Process(t.Context(), stagetest.Record(t, schemas.Batches, int64(10+i), rec), &out))
				if len(out.Events) != i+1 {
					t.Fatalf("%d records behind %d inputs", len(out.Events), i+1)
				}
				got := out.Events[i]
				want := stream.TopicPosition{Topic: schemas.Batches, Position: stream.Position{Offset: int64(11 + i), Seq: int64(11 + i)}}
				if got.Topic != schemas.Scored || len(got.Resume.Inputs) != 1 || got.Resume.Inputs[0] != want || got.Resume.Seqs != nil {
					t.Errorf("record %d on %s resumes at %+v, want behind its input", i, got.Topic, got.Resume)
				}
				switch r := got.Record.(type) {
				case *schemas.ScoredBatch:
					if r.Sequence != rec.(*schemas.Batch).Sequence || r.M > 0 && !slices.Equal(r.Masked, lost) || r.M == 0 && r.Masked != nil {
						t.Errorf("record %d is batch %d with masks %v", i, r.Sequence, r.Masked)
					}
				case *schemas.Seal:
					if i != 2 || !r.Final {
						t.Errorf("record %d is the seal %+v", i, r)
					}
				}
			}
			if loads != 2 {
				t.Errorf("images were loaded %d times, want for the two batches with candidates", loads)
			}
			if in, out, masked := metric("pairstream_stage_pairs_in_total"), metric("pairstream_stage_pairs_out_total"), metric("pairstream_stage_masked_images_total"); in != 9 || out != 9 || masked != float64(2*len(lost)) {
				t.Errorf("metrics: %v in, %v out, %v masked", in, out, masked)
			}
		})
	}
}

func TestFaultsAreToldApart(t *testing.T) {
	down := errors.New("bucket out of reach")
	good := stagetest.Record(t, schemas.Batches, 0, batch(0, 2))
	broken, foreign := good, stagetest.Record(t, schemas.Batches, 0, &schemas.Progress{Kind: schemas.ProgressEval})
	broken.Value = broken.Value[:20]
	for name, c := range map[string]struct {
		core  scorer
		fault error
		rec   stream.Record
		want  error // nil: fatal
	}{
		"bucket":         {half{}, down, good, stream.ErrTransient},
		"record cut":     {half{}, nil, broken, stream.ErrPoison},
		"foreign record": {half{}, nil, foreign, stream.ErrPoison},
		"model":          {half{fault: down}, nil, good, nil},
	} {
		t.Run(name, func(t *testing.T) {
			loads := 0
			s, _ := newStage(t, c.core, pictures{fault: c.fault, loads: &loads})
			var out stagetest.Output
			err := s.Process(t.Context(), c.rec, &out)
			if err == nil || len(out.Events) != 0 {
				t.Fatalf("error %v and %d records", err, len(out.Events))
			}
			for _, kind := range []error{stream.ErrTransient, stream.ErrPoison} {
				if errors.Is(err, kind) != errors.Is(c.want, kind) {
					t.Errorf("error %v: is %v: %v", err, kind, errors.Is(err, kind))
				}
			}
			if err := s.Flush(t.Context(), &out); err != nil || len(out.Events) != 0 {
				t.Errorf("flushing: %v and %d records", err, len(out.Events))
			}
		})
	}
}

// A scored batch says how its images were drawn; one whose images nobody loaded says nothing.
func TestScoredBatchesSayHowImagesWereDrawn(t *testing.T) {
	for m, want := range map[int32]string{2: "seed 1", 0: ""} {
		scored, err := recorder{half{}, "seed 1"}.Score(t.Context(), batch(0, m), discriminator.Input{})
		if err != nil || scored.Drawn != want {
			t.Errorf("%d candidates: drawn by %q (%v), want %q", m, scored.Drawn, err, want)
		}
	}
}
