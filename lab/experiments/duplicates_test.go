package experiments

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// Of 30 images with 4 captions, 6 are kept unseen and 5 keep a caption back. A twin fits all captions of its image.
func TestTwins(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	o := scenes.Defaults()
	o.Scenes, o.Captions, o.Side = 30, 4, 64
	photos := filepath.Join(dir, "photos")
	must.Do(t, scenes.WriteDir(ctx, photos, o, nil))
	sizes := twinSizes{Captions: 4, Unseen: 100, Kept: 5}
	all, err := readPhotographs(ctx, photos, sizes.Captions)
	must.Do(t, err)
	made := must.Get(newTwins(ctx, filepath.Join(dir, "a"), all, sizes, 32, 7))(t)
	defer func() { must.Check(t, made.closeImages()) }()
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
	batch := &schemas.Batch{}
	for _, i := range []int{0, 1, 95 - 5} { // twins of the first image, and the last pair
		batch.Samples = append(batch.Samples, schemas.Sample{ImageID: made.pairs[i].ImageID, Text: made.pairs[i].Caption})
	}
	if _, holds := made.truth(batch); !holds(0, 1) || !holds(1, 0) || !holds(2, 2) || holds(0, 2) || holds(2, 1) {
		t.Error("the truth about a mini-batch is not that about its photographs")
	}
	// 19 images have four twins, each with three others. 5 images have three twins. The captions of two images may be
	// alike.
	if want := 19*4*3 + 5*3*2; falseNegatives < want || falseNegatives > want+want/5 {
		t.Errorf("%d false negatives, want %d or a few more", falseNegatives, want)
	}
	if all, err = readPhotographs(ctx, photos, sizes.Captions); err != nil {
		t.Fatal(err)
	}
	again := must.Get(newTwins(ctx, filepath.Join(dir, "b"), all, sizes, 32, 7))(t)
	must.Do(t, again.closeImages())
	for i, p := range again.pairs {
		if p.ID != made.pairs[i].ID {
			t.Fatalf("pair %d differs with the same seed", i)
		}
	}
	if _, err := readPhotographs(ctx, filepath.Join(dir, "missing"), 1); err == nil {
		t.Error("images of no folder")
	}
	if _, err := newTwins(ctx, filepath.Join(dir, "c"), nil, twinSizes{Captions: 5, Unseen: 1, Kept: 1}, 32, 7); err == nil || !strings.Contains(err.Error(), "0 images with 5 captions") {
		t.Errorf("too few captions: %v", err)
	}
}

// Pictures that were kept take the place of photographs, without any tower. A file that lacks some is refused.
func TestPicturesAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pictures.safetensors")
	var kept []safetensors.NamedTensor
	for name, text := range map[string]string{"picture 000000": "whole", "picture 000001": "twin"} {
		tensor := safetensors.Tensor{DType: "U8", Shape: []int64{int64(len(text))}, Data: []byte(text)}
		kept = append(kept, safetensors.NamedTensor{Name: name, Tensor: tensor})
	}
	must.Do(t, safetensors.WriteFile(path, kept, nil))
	a, b, c := []byte("a"), []byte("b"), []byte("c")
	s := &sight{}
	if err := s.pictures(t.Context(), nil, []*[]byte{&a, &b}, path, nil); err != nil || string(a) != "whole" || string(b) != "twin" {
		t.Errorf("pictures %q and %q: %v", a, b, err)
	}
	if err := s.pictures(t.Context(), nil, []*[]byte{&a, &b, &c}, path, nil); err == nil || !strings.Contains(err.Error(), "has no picture 000002: remove it") {
		t.Errorf("error %v for a picture that was not kept", err)
	}
}

// X9 says what it wants before it installs anything.
func TestPhotographsAreAskedFor(t *testing.T) {
	s := photographSizes(false)
	if _, err := s.run(t.Context(), newJob(t, 1)); err == nil || !strings.Contains(err.Error(), "give --photographs a folder of tars") {
		t.Errorf("error %v without photographs", err)
	}
	j := newJob(t, 1)
	j.Photos = filepath.Join(t.TempDir(), "few")
	o := scenes.Defaults()
	o.Scenes, o.Captions, o.Side = leastPhotographs-1, 5, 64
	must.Do(t, scenes.WriteDir(t.Context(), j.Photos, o, nil))
	if _, err := s.run(t.Context(), j); err == nil || !strings.Contains(err.Error(), "9 images with 5 captions or more, want at least 10") {
		t.Errorf("error %v for few photographs", err)
	}
}
