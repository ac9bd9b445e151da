package service

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// firstWeights writes a small model.
func firstWeights(t *testing.T) string {
	t.Helper()
	return weightsOfSize(t, 8)
}

// weightsOfSize writes a model that is small, but for its table of positions.
func weightsOfSize(t *testing.T, positions int) string {
	t.Helper()
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Threads: 1}))(t)
	defer w.Close()
	m := must.Get(model.New(t.Context(), w, model.Config{
		ImageSize: 16, PatchSize: 16, VisionDim: 16, VisionDepth: 1, VisionHeads: 2,
		TextHidden: 16, TextLayers: 2, FusionLayer: 1, TextHeads: 2, TextIntermediate: 16,
		VocabSize: 6, MaxPositions: positions, EmbedDim: 8, TextTokens: 8,
	}, 1))(t)
	defer m.Free()
	m.Vocab = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "caption"}
	path := filepath.Join(t.TempDir(), "w.safetensors")
	must.Do(t, m.Save(t.Context(), path))
	return path
}

// runTrainer runs the whole trainer on a log until its lanes have ended.
func runTrainer(t *testing.T, log *stream.Log, environ map[string]string) error {
	t.Helper()
	environ["TRAIN_EXIT_AT_END"] = "true"
	s := must.Get(parse(environ))(t)
	instruments := must.Get(service.NewRuntime(slog.New(slog.DiscardHandler)).NewInstruments(Name, nil))(t)
	shared := device.NewShared(device.Settings{Name: "cpu", Threads: 1}, nil)
	defer func() { must.Check(t, shared.Close()) }()
	ctx, tools := shared.For(t.Context(), log, instruments, new(torch.Meter))
	return Run(ctx, tools, s)
}

// The trainer resumes where its checkpoint says, alone, and only in the log that the checkpoint belongs to. It does not
// stop when every image of the batches is gone: the features say so.
func TestRunKeepsToItsLog(t *testing.T) {
	open := testLogs(t)
	log, dir := open("exp"), t.TempDir()
	putScored(t, log, 0, 1, 2)
	environ := map[string]string{"CHECKPOINT_DIR": dir, "TRAIN_INIT": firstWeights(t), "BUCKET_ROOTS": "file://" + t.TempDir()}
	for i := range 2 { // once more from its last checkpoint
		if err := runTrainer(t, log, environ); err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	for lane := range testLanes {
		blocks := 0
		err := published{log: log}.each(t.Context(), positions{Lanes: []lanePosition{{Lane: lane}}}, func(_ int, _ int64, b *schemas.FeatureBlock) error {
			blocks++
			if len(b.Masked) != 1 || b.Masked[0].Reason != schemas.MaskForbidden {
				t.Errorf("block %d of lane %d has masks %v", b.Sequence, lane, b.Masked)
			}
			return nil
		})
		if err != nil || blocks != testBatches {
			t.Errorf("lane %d has %d blocks (%v), want %d", lane, blocks, err, testBatches)
		}
	}

	other := open("other")
	putScored(t, other, 0, 1, 2)
	err := runTrainer(t, other, environ)
	if !errors.Is(err, errOtherLog) || !strings.Contains(err.Error(), `NAMESPACE "exp", this is "other"`) || !strings.Contains(err.Error(), dir) {
		t.Errorf("in another namespace: %v", err)
	}
	if last := lastOf(t, other); last[0] != -1 || last[1] != -1 || last[2] != -1 {
		t.Errorf("the refused trainer has published features %v", last)
	}

	anew := testLogs(t)("exp") // of the same name, on a broker of the same name
	putScored(t, anew, 0, 1, 2)
	if err := runTrainer(t, anew, environ); !errors.Is(err, errOtherLog) || !strings.Contains(err.Error(), "the log ends at -1") {
		t.Errorf("beside a log that was made anew: %v", err)
	}

	lock := must.Get(lockFolder(dir))(t)
	if err := runTrainer(t, log, environ); err == nil || !strings.Contains(err.Error(), "another trainer is training in it") {
		t.Errorf("a second trainer in the folder: %v", err)
	}
	must.Check(t, lock.release())
}

// New weights beside a log with trained features begin anew, or behind the features when the setting says so.
func TestRunOfNewWeights(t *testing.T) {
	log := testLogs(t)("exp")
	putScored(t, log, 0, 1, 2)
	environ := map[string]string{"TRAIN_INIT": firstWeights(t), "BUCKET_ROOTS": "file://" + t.TempDir(), "STEP_BATCHES": "1"}
	for _, c := range []struct {
		from string
		want string // name of the last checkpoint
	}{
		{"start", "checkpoint-000000000012.safetensors"},
		{"start", "checkpoint-000000000012.safetensors"},
		{"now", ""}, // nothing is left to be trained on
	} {
		environ["CHECKPOINT_DIR"], environ["TRAIN_FROM"] = t.TempDir(), c.from
		must.Do(t, runTrainer(t, log, environ))
		got := ""
		if files, err := filepath.Glob(filepath.Join(environ["CHECKPOINT_DIR"], "*")); err != nil || len(files) > 0 {
			got = filepath.Base(files[len(files)-1])
		}
		if got != c.want {
			t.Errorf("from %s the last checkpoint is %q, want %q", c.from, got, c.want)
		}
	}
}

// A newer trainer has published features that this one cannot read. Their lane is parked, which others see, until the
// operator gives them up.
func TestFeaturesOfANewerTrainer(t *testing.T) {
	log, done := trainBeside(t, 0, blockFromTheFuture{oneFeature()})
	awaitState(t, log, []string{"0", "1", "0"}, []string{"", "parked: lane is damaged: features, lane 1, offset 0, seq 0 is of a newer version", ""})
	skip := stream.Skip{Topic: schemas.Features, Lane: 1, To: stream.Position{Offset: 1, Seq: 1}, Reason: "we go back to the older version"}
	must.Do(t, log.Skip(t.Context(), skip))
	must.Do(t, <-done)
	if last := lastOf(t, log); last[0] != testBatches-1 || last[1] != testBatches-1 || last[2] != testBatches-1 {
		t.Errorf("the last features are %v, want those of %d batches in each lane", last, testBatches)
	}
}

// trainBeside starts a trainer that finds a record among the features of lane 1, and returns how it ends.
func trainBeside(t *testing.T, seq int64, rec schemas.Record) (*stream.Log, <-chan error) {
	t.Helper()
	made := testLogs(t)("exp")
	log := must.Get(stream.Connect(t.Context(), made.Config(), stream.Options{Patience: 20 * time.Millisecond}))(t)
	t.Cleanup(log.Close)
	putScored(t, log, 0, 1, 2)
	p := log.NewPublisher(stream.PublisherOptions{})
	must.Do(t, errors.Join(p.PublishSeq(t.Context(), schemas.Features, 1, seq, stream.Mark{}, rec), p.Close(t.Context())))
	done := make(chan error, 1)
	go func() {
		done <- runTrainer(t, log, map[string]string{"CHECKPOINT_DIR": t.TempDir(), "TRAIN_INIT": firstWeights(t), "BUCKET_ROOTS": "file://" + t.TempDir()})
	}()
	return log, done
}

// blockFromTheFuture is a feature block whose major this program does not know.
type blockFromTheFuture struct{ *schemas.FeatureBlock }

func (blockFromTheFuture) Schema() string { return "pairstream.feature_block/99" }

func oneFeature() *schemas.FeatureBlock {
	one := schemas.NewFloat16s([]float32{1})
	return &schemas.FeatureBlock{Positions: schemas.Int32s{0}, Dim: 1, V: one, T: one}
}

// Retention has removed all features of a lane that was quiet for long. The checkpoint knows how many there were;
// without one the trainer says what is missing.
func TestFeaturesAreGone(t *testing.T) {
	log, dir, weights := testLogs(t)("exp"), t.TempDir(), firstWeights(t)
	putScored(t, log, 0, 1, 2)
	environ := map[string]string{"CHECKPOINT_DIR": dir, "TRAIN_INIT": weights, "BUCKET_ROOTS": "file://" + t.TempDir()}
	must.Do(t, runTrainer(t, log, environ))
	must.Do(t, kafka.DeleteRecords(t.Context(), log.Config().Brokers, schemas.Features.Name("exp"), 1, testBatches))
	lost, err := log.FindDamage(t.Context(), schemas.Features, 1, stream.Position{Offset: 1, Seq: 1})
	if want := (stream.Position{Offset: testBatches, Seq: testBatches}); err != nil || lost.To != want {
		t.Errorf("who reads the features may go on at %+v (%v), want %+v", lost.To, err, want)
	}
	if err := runTrainer(t, log, environ); err != nil {
		t.Errorf("beside its checkpoint: %v", err)
	}
	environ["CHECKPOINT_DIR"] = t.TempDir()
	if err := runTrainer(t, log, environ); err == nil || !strings.Contains(err.Error(), "all features of lane 1") || !strings.Contains(err.Error(), "another NAMESPACE") {
		t.Errorf("without a checkpoint: %v", err)
	}
}

// A foreign record lies among the features. Their lane is parked, and what the commands propose leads past it.
func TestForeignFeatures(t *testing.T) {
	log, done := trainBeside(t, 7, oneFeature())
	awaitState(t, log, []string{"0", "8", "0"}, []string{"", "parked: records are missing: topic features, lane 1, offset 0: expected seq 0, found 7", ""})
	damage, err := inspect.FindDamage(t.Context(), log, Name, 1)
	if err != nil || len(damage) != 1 || damage[0].Topic != schemas.Features {
		t.Fatalf("the commands find %+v (%v), want the foreign record", damage, err)
	}
	damage[0].Reason = "somebody's test"
	must.Do(t, log.Skip(t.Context(), damage[0]))
	must.Do(t, <-done)
}
