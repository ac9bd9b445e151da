package imaging

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// augmentations are the reference vectors of RandAugment.
type augmentations struct {
	*golden.File
	config struct {
		Ops   []string `json:"ops"`
		Calls []struct {
			Image int   `json:"image"`
			Draws []any `json:"draws"`
		} `json:"calls"`
	}
}

func openAugmentations(t *testing.T) augmentations {
	t.Helper()
	a := augmentations{File: golden.Open(t, "randaugment.safetensors")}
	a.Config(&a.config)
	return a
}

func (a augmentations) image(t *testing.T, name string) *Image {
	t.Helper()
	x := a.Must(name)
	return &Image{H: int(x.Shape[0]), W: int(x.Shape[1]), Pix: slices.Clone(x.Data)}
}

func (a augmentations) operation(t *testing.T, name string) Operation {
	t.Helper()
	i := slices.Index(a.config.Ops, name)
	if i < 0 {
		t.Fatalf("the reference vectors know no operation %s", name)
	}
	return Operation(i)
}

// interpolates tells whether an operation mixes neighbouring pixels, so that two grey levels are allowed.
func (o Operation) interpolates() bool { return o == ShearX || o == ShearY || o == Rotate }

// compare checks that no value is off by more than allowed, and that enough of them are exact.
func compare(t *testing.T, what string, got, want *Image, allowed int, exact float64) {
	t.Helper()
	if got.W != want.W || got.H != want.H {
		t.Errorf("%s: %d x %d pixels, want %d x %d", what, got.W, got.H, want.W, want.H)
		return
	}
	worst, same := 0, 0
	for i := range want.Pix {
		off := int(got.Pix[i]) - int(want.Pix[i])
		worst = max(worst, off, -off)
		if off == 0 {
			same++
		}
	}
	if share := float64(same) / float64(len(want.Pix)); worst > allowed || share < exact {
		t.Errorf("%s: off by %d at most, %.2f %% exact; want %d and %.2f %%", what, worst, 100*share, allowed, 100*exact)
	}
}

func TestGoldenOperations(t *testing.T) {
	a := openAugmentations(t)
	tried := 0
	for _, name := range a.Names() {
		part := strings.Split(name, ".")
		if len(part) != 5 || part[0] != "out" {
			continue
		}
		level := must.Get(strconv.Atoi(part[2]))(t)
		o := a.operation(t, part[1])
		allowed, exact := 1, 0.995
		if o.interpolates() {
			allowed, exact = 2, 0
		}
		got := a.image(t, "in.image."+part[4]).apply(o, level, part[3] == "neg")
		compare(t, name, got, a.image(t, name), allowed, exact)
		tried++
	}
	if tried < operations {
		t.Fatalf("%d reference pictures, want one of each operation at least", tried)
	}
}

func TestGoldenRandAugmentCalls(t *testing.T) {
	a := openAugmentations(t)
	if len(a.config.Calls) == 0 {
		t.Fatal("no calls")
	}
	for c, call := range a.config.Calls {
		var drawn []Operation
		allowed, exact := 1, 0.995
		for _, name := range call.Draws[0].([]any)[1:] {
			o := a.operation(t, name.(string))
			drawn = append(drawn, o)
			if o.interpolates() {
				allowed, exact = 2, 0
			}
		}
		rest := call.Draws[1:]
		uniform := func() float64 {
			if len(rest) == 0 {
				t.Fatalf("call %d asks for more draws than the authors' code", c)
			}
			u := rest[0].(float64)
			rest = rest[1:]
			return u
		}
		name := fmt.Sprintf("out.call.%d", c)
		got := randAugment(a.image(t, fmt.Sprintf("in.image.%d", call.Image)), drawn, 7, uniform)
		if len(rest) != 0 {
			t.Errorf("%s: %d draws are left over", name, len(rest))
		}
		compare(t, name, got, a.image(t, name), allowed, exact)
	}
}

func TestRandAugmentIsKeyedAndTouchesNoOther(t *testing.T) {
	im := New(40, 30)
	for i := range im.Pix {
		im.Pix[i] = byte(i * 7)
	}
	look := func(seed uint64) string {
		text := must.Get(json.Marshal(RandAugment(&Image{W: im.W, H: im.H, Pix: slices.Clone(im.Pix)}, 2, 7, rng.New(seed, "test"))))(t)
		return string(text)
	}
	seen := map[string]bool{}
	for seed := range uint64(20) {
		first := look(seed)
		if again := look(seed); again != first {
			t.Errorf("seed %d gives two results", seed)
		}
		seen[first] = true
	}
	if len(seen) < 8 {
		t.Errorf("20 seeds give %d results", len(seen))
	}
}

func TestOperationsOnTinyImages(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {1, 5}, {5, 1}, {2, 2}} {
		for o := range Operation(operations) {
			for _, negative := range []bool{false, true} {
				im := New(size[0], size[1])
				im.Pix[0] = 9
				if got := im.apply(o, 10, negative); got.W != size[0] || got.H != size[1] {
					t.Errorf("operation %d makes %d x %d of %v", o, got.W, got.H, size)
				}
			}
		}
	}
}
