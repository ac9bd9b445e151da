package service

import (
	"context"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/stagetest"
	"github.com/pairstream/pairstream/schemas"
)

// asked notes what the stage keeps for it.
type asked struct {
	half
	kept *[]*discriminator.Kept
}

func (a asked) Score(ctx context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
	*a.kept = append(*a.kept, in.Kept)
	return a.half.Score(ctx, b, in)
}

// A lane keeps scores of its own with plain images, and none with augmented ones.
func TestEveryLaneKeepsItsScores(t *testing.T) {
	for _, most := range []int{0, 100} {
		instruments, _ := stagetest.Instruments(t, Name)
		keep := keeping{scores: most, bytes: 1 << 20, model: "half"}
		must.Do(t, keep.register(instruments))
		var kept []*discriminator.Kept
		loads := 0
		factory := newFactory(asked{kept: &kept}, pictures{loads: &loads}, guardSettings{}, keep, gauges{}, instruments)
		for lane := range 2 {
			s := must.Get(factory(lane, nil))(t)
			var out stagetest.Output
			for n := range int32(2) {
				must.Do(t, s.Process(t.Context(), stagetest.Record(t, schemas.Batches, int64(n), batch(n, 2)), &out))
			}
		}
		if len(kept) != 4 || loads != 4 {
			t.Fatalf("%d batches were scored and %d loaded", len(kept), loads)
		}
		if most == 0 && (kept[0] != nil || kept[2] != nil) {
			t.Error("scores of augmented images are kept")
		}
		if most > 0 && (kept[0] == nil || kept[0] != kept[1] || kept[2] == nil || kept[2] != kept[3] || kept[0] == kept[2]) {
			t.Errorf("two batches of two lanes have %v", kept)
		}
	}
}

func TestSettingsOfPlainImages(t *testing.T) {
	drawn := dataset.Augmentation{MinScale: 0.2, Flip: 0.5, RandAugment: dataset.RandAugment{Ops: 2, Level: 7}, Workers: 3}
	s := Settings{Checkpoint: "x", Part: 1, Keep: 2, KeepBytes: 1 << 20, Images: augmented, Augment: drawn}
	if err := s.Validate(); err != nil || s.augmentation() != drawn {
		t.Errorf("augmented: %+v, %v", s.augmentation(), err)
	}
	s.Images = plain
	if err := s.Validate(); err != nil || s.augmentation() != (dataset.Augmentation{MinScale: 1, Workers: 3}) {
		t.Errorf("plain: %+v, %v", s.augmentation(), err)
	}
	must.Check(t, s.augmentation().Validate())
	s.Images = "none"
	err := s.Validate()
	if err == nil || !strings.Contains(err.Error(), `COND_IMAGES is "none", want augmented or plain`) {
		t.Errorf("other values: %v", err)
	}
}
