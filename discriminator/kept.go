package discriminator

import (
	"context"
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/schemas"
)

// Kept holds the scores of a lane's pairs from one epoch to the next. It is for images that are not augmented: a pair's
// score is then the same in every epoch (MAFA scores augmented ones). Every group has scores of its own, as the same image
// may be read from elsewhere there. It is not safe for concurrent use.
type Kept struct {
	most  int // scores in either half
	young map[keptPair]float32
	old   map[keptPair]float32 // of before young was full

	asked, found int64
}

// keptPair is an image and a text, by their hash, in a group.
type keptPair struct {
	group int64 // of the lane
	pair  schemas.PairID
}

// NewKept returns room for up to so many scores, 2 or more, of which each takes about 50 bytes. When it is full, it forgets
// the older half.
func NewKept(most int) *Kept { return &Kept{most: most / 2, young: map[keptPair]float32{}} }

// Counts returns how many pairs were asked about, and how many of them were kept.
func (k *Kept) Counts() (asked, found int64) { return k.asked, k.found }

func (k *Kept) get(p keptPair) (float32, bool) {
	k.asked++
	score, found := k.young[p]
	if !found {
		if score, found = k.old[p]; found {
			k.put(p, score) // it is in use
		}
	}
	if found {
		k.found++
	}
	return score, found
}

func (k *Kept) put(p keptPair, score float32) {
	if len(k.young) >= k.most {
		k.young, k.old = make(map[keptPair]float32, k.most), k.young
	}
	k.young[p] = score
}

// matchKept asks Con-D about the pairs whose scores are not kept, with their images and texts alone.
func (d *Discriminator) matchKept(ctx context.Context, b *schemas.Batch, in Input, pairs []model.Pair) ([]float32, error) {
	if len(in.IDs) != len(b.Samples) {
		return nil, fmt.Errorf("%w: %d texts for %d samples", model.ErrInput, len(in.IDs), len(b.Samples))
	}
	side := d.matcher.Config.ImageSize
	if len(in.Pixels) != 3*side*side*len(b.Samples) {
		return nil, fmt.Errorf("%w: %d pixel values for %d images of %d x %d", model.ErrInput, len(in.Pixels), len(b.Samples), side, side)
	}
	key := func(p model.Pair) keptPair {
		return keptPair{b.Group.Seq, schemas.NewPairID(b.Samples[p.Image].ImageID, b.Samples[p.Text].Text)}
	}
	scores := make([]float32, len(pairs))
	var fresh []int
	for i, p := range pairs {
		score, found := in.Kept.get(key(p))
		if !found {
			fresh = append(fresh, i)
		}
		scores[i] = score
	}
	if len(fresh) == 0 {
		return scores, nil
	}
	pixels, ids, asked := in.only(pairs, fresh)
	got, err := d.matcher.MatchFixed(ctx, pixels, ids, asked, d.part)
	if err != nil {
		return nil, err
	}
	for n, i := range fresh {
		scores[i] = got[n]
		if !math.IsNaN(float64(got[n])) { // the caller refuses it
			in.Kept.put(key(pairs[i]), got[n])
		}
	}
	return scores, nil
}

// only returns the images and texts of chosen pairs, and the pairs in their numbers.
func (in Input) only(pairs []model.Pair, chosen []int) (pixels []float32, ids [][]int32, local []model.Pair) {
	values := len(in.Pixels) / len(in.IDs)
	images, texts := map[int32]int32{}, map[int32]int32{}
	for _, i := range chosen {
		p := pairs[i]
		if _, known := images[p.Image]; !known {
			images[p.Image] = int32(len(images))
			pixels = append(pixels, in.Pixels[int(p.Image)*values:int(p.Image+1)*values]...)
		}
		if _, known := texts[p.Text]; !known {
			texts[p.Text] = int32(len(texts))
			ids = append(ids, in.IDs[p.Text])
		}
		local = append(local, model.Pair{Image: images[p.Image], Text: texts[p.Text]})
	}
	return pixels, ids, local
}
