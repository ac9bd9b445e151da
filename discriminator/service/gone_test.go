package service

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// small writes a Con-D that scores anything.
func small(t *testing.T, dir string) string {
	t.Helper()
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Threads: 1}))(t)
	defer w.Close()
	m := must.Get(model.New(t.Context(), w, model.Config{
		ImageSize: 16, PatchSize: 16, VisionDim: 16, VisionDepth: 1, VisionHeads: 2,
		TextHidden: 16, TextLayers: 2, FusionLayer: 1, TextHeads: 2, TextIntermediate: 16,
		VocabSize: 7, MaxPositions: 8, EmbedDim: 8, TextTokens: 8,
	}, 1))(t)
	defer m.Free()
	m.Vocab = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "caption"}
	path := filepath.Join(dir, "con-d.safetensors")
	must.Do(t, m.Save(t.Context(), path))
	return path
}

// shown returns a batch whose images are files in a folder.
func shown(t *testing.T, dir string) *schemas.Batch {
	t.Helper()
	b := batch(0, 2)
	for i := range b.Samples {
		var file bytes.Buffer
		picture := image.NewGray(image.Rect(0, 0, 16, 16))
		picture.Pix[0] = byte(50 * i)
		must.Do(t, png.Encode(&file, picture))
		path := filepath.Join(dir, string(rune('a'+i))+".tar")
		must.Do(t, os.WriteFile(path, file.Bytes(), 0o600))
		s := &b.Samples[i]
		s.ImageID, s.Image = schemas.NewImageID(file.Bytes()), schemas.ImageRef{URI: shard.FileURI(path), Size: int64(file.Len())}
		s.ID = schemas.NewPairID(s.ImageID, s.Text)
	}
	return b
}

// TestRunScoresNothingTakenBack takes an image back between two epochs. The stage keeps the encodings of the first one,
// and in the second one the image is masked all the same.
func TestRunScoresNothingTakenBack(t *testing.T) {
	dir := t.TempDir()
	log := logtest.Open(t, logtest.Broker(t), "test", 1)
	s := must.Get(config.Parse[Settings](map[string]string{
		"COND_CHECKPOINT": small(t, dir), "COND_MIN_PRECISION": "0", "BUCKET_ROOTS": shard.FileURI(dir),
	}))(t)
	instruments := must.Get(service.NewRuntime(slog.New(slog.DiscardHandler)).NewInstruments(Name, nil))(t)
	shared := device.NewShared(device.Settings{Name: "cpu", Threads: 1}, nil)
	ctx, stop := context.WithCancel(t.Context())
	ctx, tools := shared.For(ctx, log, instruments, new(torch.Meter))
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, tools, s)
		stop() // nobody waits for its records any more
	}()
	t.Cleanup(func() {
		stop()
		must.Check(t, <-done)
		must.Check(t, shared.Close())
	})

	p := log.NewPublisher(stream.PublisherOptions{})
	t.Cleanup(func() { _ = p.Close(context.WithoutCancel(t.Context())) })
	scored := log.OpenReader(schemas.Scored, 0, stream.Position{}, stream.ReaderOptions{})
	t.Cleanup(scored.Close)
	b := shown(t, dir)
	masks := func(epoch int32) []schemas.Mask {
		b.Epoch = epoch
		must.Do(t, p.PublishSeq(t.Context(), schemas.Batches, 0, int64(epoch), stream.Mark{}, b))
		rec := must.Get(scored.Next(ctx))(t)
		r := must.Get(schemas.Unmarshal(rec.Schema, rec.Value))(t)
		return r.(*schemas.ScoredBatch).Masked
	}
	if got := masks(0); len(got) > 0 {
		t.Errorf("before, the masks are %v", got)
	}
	must.Get(forget.Publish(t.Context(), log, []forget.Key{{Kind: forget.Image, ID: b.Samples[1].ImageID}}, time.Unix(1, 0)))(t)
	gone, err := tools.Forgotten(t.Context())
	if err == nil {
		err = gone.Refresh(t.Context()) // the set follows by itself, within a second
	}
	must.Do(t, err)
	if got, want := masks(1), []schemas.Mask{{Sample: 1, Reason: schemas.MaskForgotten}}; !slices.Equal(got, want) {
		t.Errorf("afterwards, the masks are %v, want %v", got, want)
	}
}
