package eval

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/interval"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// testEncoder is the test model as an encoder, with words of one letter.
func testEncoder(t *testing.T) *model.Encoder {
	t.Helper()
	m := testModel(t)
	m.Vocab = append([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."}, strings.Split("abcdefghijklmnopqrstuvwxyz01234567", "")...)
	return must.Get(model.NewEncoder(t.Context(), m, 3))(t)
}

// noise writes the bytes of a picture that differs with its number.
func noise(_ context.Context, image int, pixels []byte) error {
	r := rng.New(1, "bytes", int64(image))
	for i := range pixels {
		pixels[i] = byte(r.IntN(256))
	}
	return nil
}

func classifiedNoise() Classified {
	d := Classified{Images: 70, Pixels: noise, Classes: [][]string{{"a"}, {"b", "c d"}, {"e"}, {"f"}, {"g"}, {"h"}, {"i"}, {"j"}}, Templates: []string{"p {}.", "q r {}", "{} s"}}
	for i := range int32(70) {
		d.ClassOf = append(d.ClassOf, i*i%7) // the last class has no image
	}
	return d
}

// TestZeroShotAgreesWithOneByOne encodes every prompt and every image by itself, and sorts the classes of every image.
func TestZeroShotAgreesWithOneByOne(t *testing.T) {
	e, d := testEncoder(t), classifiedNoise()
	var classes [][]float64
	for _, names := range d.Classes {
		mean := make([]float64, e.Dim())
		for _, name := range names {
			for _, template := range d.Templates {
				before, after, _ := strings.Cut(template, "{}")
				for k, v := range must.Get(e.EncodeTexts(t.Context(), []string{before + name + after}))(t) {
					mean[k] += float64(v) / float64(len(names)*len(d.Templates))
				}
			}
		}
		length := 0.0
		for _, v := range mean {
			length += v * v
		}
		for k := range mean {
			mean[k] /= math.Sqrt(length)
		}
		classes = append(classes, mean)
	}
	top1, top5 := 0., 0.
	hits, of := make([]float64, 8), make([]float64, 8)
	pixels := make([]byte, e.Preprocessing().Values())
	for i, class := range d.ClassOf {
		must.Do(t, noise(t.Context(), i, pixels))
		image := must.Get(e.EncodeImages(t.Context(), pixels, 1))(t)
		scores, order := make([]float64, 8), []int{0, 1, 2, 3, 4, 5, 6, 7}
		for c, vector := range classes {
			for k, v := range vector {
				scores[c] += v * float64(image[k])
			}
		}
		slices.SortStableFunc(order, func(a, b int) int {
			if scores[a] > scores[b] {
				return -1
			}
			return 1
		})
		of[class]++
		if order[0] == int(class) {
			top1++
			hits[class]++
		}
		if slices.Contains(order[:5], int(class)) {
			top5++
		}
	}
	mean, seen := 0., 0
	for c := range of {
		if of[c] > 0 {
			mean, seen = mean+hits[c]/of[c], seen+1
		}
	}
	r := must.Get(ZeroShot(t.Context(), e, d))(t)
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("top-1", r.Top1.Percent, 100*top1/70)
	near("top-5", r.Top5.Percent, 100*top5/70)
	near("the mean per class", r.Mean.Percent, 100*mean/float64(seen))
	near("chance", r.Chance.Top1, 12.5)
	near("chance of top-5", r.Chance.Top5, 62.5)
	if r.Images != 70 || r.Classes != 8 || len(r.PerClass) != seen || top1 == 0 || top1 == 70 || top5 == top1 {
		t.Errorf("%d images, %d of %d classes; %v and %v right", r.Images, len(r.PerClass), r.Classes, top1, top5)
	}
}

// Class vectors by hand: the mean of (1, 0) and (0.6, 0.8) is (0.8, 0.4), which is 0.894 long.
func TestMeansOfPrompts(t *testing.T) {
	got := must.Get(meansOf([]float32{1, 0, 0, 1, 0.6, 0.8}, []int{0, 1, 0}, 2, 2))(t)
	want := []float64{0.8 / math.Sqrt(0.8), 0.4 / math.Sqrt(0.8), 0, 1}
	for i, w := range want {
		if math.Abs(float64(got[i])-w) > 1e-7 {
			t.Errorf("value %d is %v, want %v", i, got[i], w)
		}
	}
	for name, rows := range map[string][]float32{"opposite": {1, 0, -1, 0}, "no numbers": {float32(math.NaN()), 0, 1, 0}} {
		if _, err := meansOf(rows, []int{0, 0}, 1, 2); err == nil {
			t.Errorf("%s vectors have a mean", name)
		}
	}
}

// TestZeroShotCounts has images whose class is ranked first, fifth, sixth and last, and a tie.
func TestZeroShotCounts(t *testing.T) {
	names := [][]string{{"a"}, {"b"}, {"c"}, {"d"}, {"e"}, {"f"}, {"g"}}
	row := []float32{7, 6, 5, 4, 3, 2, 2} // f and g are equally near: f is before g
	tally := newTally(len(names))
	of := []int32{0, 0, 4, 5, 6}
	tally.add(Matrix{Rows: len(of), Cols: len(row), Data: slices.Concat(row, []float32{6, 7, 5, 4, 3, 2, 1}, row, row, row)}, of)
	r := tally.report(Classified{Images: len(of), Classes: names})
	low, high := interval.Wilson(1, 5)
	if r.Top1 != (Measured{20, 100 * low, 100 * high}) || r.Top5.Percent != 60 || r.Mean.Percent != 12.5 {
		t.Errorf("%+v", r)
	}
	want := []ClassReport{{"a", 2, 50, 100}, {"e", 1, 0, 100}, {"f", 1, 0, 0}, {"g", 1, 0, 0}}
	if !slices.Equal(r.PerClass, want) {
		t.Errorf("%+v, want %+v", r.PerClass, want)
	}
	var out strings.Builder
	must.Do(t, r.Print(&out))
	if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, "5 images of 4 classes out of 7") || !strings.Contains(got, "top-1 20.0 3.6 62.4 14.3") {
		t.Errorf("it prints %s", got)
	}
}

func TestZeroShotRefuses(t *testing.T) {
	e := testEncoder(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for want, change := range map[string]func(*Classified) context.Context{
		"the classes of 69": func(d *Classified) context.Context { d.ClassOf = d.ClassOf[1:]; return t.Context() },
		"0 classes":         func(d *Classified) context.Context { d.Classes = nil; return t.Context() },
		"0 templates":       func(d *Classified) context.Context { d.Templates = nil; return t.Context() },
		"0 images":          func(d *Classified) context.Context { d.Images, d.ClassOf = 0, nil; return t.Context() },
		"loading image 40: gone": func(d *Classified) context.Context {
			d.Pixels = func(ctx context.Context, image int, pixels []byte) error {
				if image == 40 {
					return errors.New("gone")
				}
				return noise(ctx, image, pixels)
			}
			return t.Context()
		},
		"context canceled": func(*Classified) context.Context { return cancelled },
	} {
		d := classifiedNoise()
		if _, err := ZeroShot(change(&d), e, d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
