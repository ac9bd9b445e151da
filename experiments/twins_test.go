package experiments

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/scenes"
)

// Of 30 images with 4 captions, 6 are kept unseen and 5 keep a caption back. A twin fits all captions of its image.
func TestTwins(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	o := scenes.Defaults()
	o.Scenes, o.Captions, o.Side = 30, 4, 64
	photos := filepath.Join(dir, "photos")
	if err := scenes.WriteDir(ctx, photos, o, nil); err != nil {
		t.Fatal(err)
	}
	sizes := twinSizes{Captions: 4, Unseen: 100, Kept: 5}
	made, err := newTwins(ctx, filepath.Join(dir, "a"), photos, sizes, 32, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := made.closeImages(); err != nil {
			t.Error(err)
		}
	}()
	if made.held.Images() != 6 || made.held.Pairs() != 24 || made.seen.Images() != 5 || made.seen.Pairs() != 5 ||
		len(made.pairs) != 24*4-5 || made.train.Images() != 24*4-5 {
		t.Errorf("%d unseen images with %d captions, %d seen with %d, %d pairs of %d images", made.held.Images(), made.held.Pairs(),
			made.seen.Images(), made.seen.Pairs(), len(made.pairs), made.train.Images())
	}
	var falseNegatives int
	for _, p := range made.pairs {
		if !made.matches(p.ImageID, p.Caption) {
			t.Errorf("a twin does not fit its own caption %q", p.Caption)
		}
		for _, other := range made.pairs {
			if other.ImageID != p.ImageID && made.matches(p.ImageID, other.Caption) {
				falseNegatives++
			}
		}
	}
	// 19 images have four twins, each with three others. 5 images have three twins. The captions of two images may be alike.
	if want := 19*4*3 + 5*3*2; falseNegatives < want || falseNegatives > want+want/5 {
		t.Errorf("%d false negatives, want %d or a few more", falseNegatives, want)
	}
	again, err := newTwins(ctx, filepath.Join(dir, "b"), photos, sizes, 32, 7)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.closeImages(); err != nil {
		t.Fatal(err)
	}
	for i, p := range again.pairs {
		if p.ID != made.pairs[i].ID {
			t.Fatalf("pair %d differs with the same seed", i)
		}
	}
	if _, err := readPhotographs(ctx, filepath.Join(dir, "missing"), 1); err == nil {
		t.Error("images of no folder")
	}
	if _, err := newTwins(ctx, filepath.Join(dir, "c"), photos, twinSizes{Captions: 5, Unseen: 1, Kept: 1}, 32, 7); err == nil || !strings.Contains(err.Error(), "0 images with 5 captions") {
		t.Errorf("too few captions: %v", err)
	}
}
