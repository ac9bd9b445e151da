package trainer

import (
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// There are three samples. Image 0 has a connection, image 1 an ambiguous candidate, image 2 a negative. Text 0 is
// ambiguous without a second candidate, text 1 has a connection, and text 2 has nothing to choose from.
var (
	planI2T = []pick{{1, 2, Connection}, {2, 0, Ambiguous}, {0, 1, Negative}}
	planT2I = []pick{{2, -1, Ambiguous}, {0, 2, Connection}, {-1, -1, NoCandidate}}
)

func TestPlanITM(t *testing.T) {
	all := MAFA().ECM
	off, eliminate := all, all
	off.ITM, eliminate.Eliminate = false, true
	for _, c := range []struct {
		name                  string
		ecm                   ECMOptions
		images, texts, labels []int64
		dropped               int
	}{
		{
			"connections are positives, the ambiguous are re-sampled", all,
			[]int64{0, 1, 2, 2, 0, 0, 1},
			[]int64{0, 1, 2, 0, 1, 1, 0},
			[]int64{1, 1, 1, 0, 1, 1, 0},
			2,
		},
		{
			"off: the hardest is a negative whatever Con-D says", off,
			[]int64{0, 1, 2, 2, 0, 0, 1, 2},
			[]int64{0, 1, 2, 0, 1, 1, 2, 0},
			[]int64{1, 1, 1, 0, 0, 0, 0, 0},
			1,
		},
		{
			"eliminated: connections give no pair", eliminate,
			[]int64{0, 1, 2, 2, 1},
			[]int64{0, 1, 2, 0, 0},
			[]int64{1, 1, 1, 0, 0},
			4,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planITM(3, planI2T, planT2I, c.ecm)
			if !slices.Equal(p.images, c.images) || !slices.Equal(p.texts, c.texts) || !slices.Equal(p.labels, c.labels) {
				t.Errorf("images %v, texts %v, labels %v\nwant   %v, texts %v, labels %v", p.images, p.texts, p.labels, c.images, c.texts, c.labels)
			}
			if p.dropped != c.dropped {
				t.Errorf("%d anchors gave no pair, want %d", p.dropped, c.dropped)
			}
		})
	}
}

func TestPlanITMOfOddBatches(t *testing.T) {
	none := []pick{{-1, -1, NoCandidate}}
	if p := planITM(1, none, none, MAFA().ECM); !slices.Equal(p.labels, []int64{1}) || p.dropped != 2 {
		t.Errorf("batch of one: labels %v, %d dropped, want the true pair alone", p.labels, p.dropped)
	}
	both := []pick{{1, -1, Connection}, {0, -1, Connection}}
	if p := planITM(2, both, both, MAFA().ECM); !slices.Equal(p.labels, []int64{1, 1, 1, 1, 1, 1}) {
		t.Errorf("every candidate a connection: labels %v, want six matches", p.labels)
	}
}

func TestPlanMLM(t *testing.T) {
	all := MAFA().ECM
	off, eliminate := all, all
	off.MLM, eliminate.Eliminate = false, true
	for _, c := range []struct {
		name          string
		ecm           ECMOptions
		images, texts []int64
	}{
		{"connections of images, then of texts", all, []int64{0, 1, 2, 0, 0}, []int64{0, 1, 2, 1, 1}},
		{"off", off, []int64{0, 1, 2}, []int64{0, 1, 2}},
		{"eliminated", eliminate, []int64{0, 1, 2}, []int64{0, 1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planMLM(3, planI2T, planT2I, c.ecm)
			if !slices.Equal(p.images, c.images) || !slices.Equal(p.texts, c.texts) {
				t.Errorf("images %v, texts %v, want %v, %v", p.images, p.texts, c.images, c.texts)
			}
		})
	}
}

func TestHardTargets(t *testing.T) {
	plain := make([]schemas.Sample, 3)
	paired := make([]schemas.Sample, 3)
	paired[0].Partners, paired[2].Partners = schemas.Int32s{2}, schemas.Int32s{0}
	all := MAFA().ECM
	off, eliminate := all, all
	off.ITC, eliminate.Eliminate = false, true
	third := 1.0 / 3
	for _, c := range []struct {
		name    string
		samples []schemas.Sample
		ecm     ECMOptions
		want    []float64
		drop    []int64
	}{
		{"a connection takes half", plain, all, []float64{0.5, 0.5, 0, 0, 1, 0, 0, 0, 1}, nil},
		{"off", plain, off, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1}, nil},
		{"eliminated", plain, eliminate, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1}, []int64{1}},
		{"partners and connection share equally", paired, all, []float64{third, third, third, 0, 1, 0, 0.5, 0, 0.5}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := hardTargets(c.samples, nil, planI2T, c.ecm)
			if values := dense(t, got); got.columns != 3 || !slices.Equal(values, c.want) || !slices.Equal(got.drop, c.drop) {
				t.Errorf("targets %v, dropped %v\nwant    %v, dropped %v", values, got.drop, c.want, c.drop)
			}
		})
	}
}

func TestHardTargetsInTheQueue(t *testing.T) {
	samples := make([]schemas.Sample, 2)
	samples[0].ImageID, samples[1].ImageID = schemas.ImageID{1}, schemas.ImageID{2}
	none := []pick{{-1, -1, NoCandidate}, {-1, -1, NoCandidate}}
	got := hardTargets(samples, []schemas.ImageID{{9}, {2}, {2}}, none, MAFA().ECM)
	third := 1.0 / 3
	if want := []float64{1, 0, 0, 0, 0, 0, third, 0, third, third}; got.columns != 5 || !slices.Equal(dense(t, got), want) {
		t.Errorf("targets %v in %d columns, want %v", dense(t, got), got.columns, want)
	}
}

// dense returns the targets row by row, as they are on the device.
func dense(t *testing.T, targets rowTargets) (values []float64) {
	t.Helper()
	onWorker(t, func(s *torch.Scope) error {
		values = targets.hard(s, torch.Float64).Float64s()
		var dropped []int64
		if x := targets.dropped(s); x != nil {
			dropped = s.Reshape(s.NonZero(s.Reshape(x, -1)), -1).Int64s()
		}
		if !slices.Equal(dropped, targets.drop) {
			t.Errorf("places %v are dropped, want %v", dropped, targets.drop)
		}
		return nil
	})
	return values
}

// What travels to the device does not grow with the queue.
func TestHardTargetsOfALongQueue(t *testing.T) {
	samples, queue := make([]schemas.Sample, 4), make([]schemas.ImageID, 65_536)
	none := make([]pick, len(samples))
	for i := range samples {
		samples[i].ImageID, none[i] = schemas.ImageID{byte(i + 1)}, pick{-1, -1, NoCandidate}
	}
	queue[70] = samples[2].ImageID
	got := hardTargets(samples, queue, none, MAFA().ECM)
	columns := int64(4 + 65_536)
	want := []int64{0, columns + 1, 2*columns + 2, 2*columns + 74, 3*columns + 3}
	if !slices.Equal(got.places, want) || !slices.Equal(got.values, []float64{1, 1, 0.5, 0.5, 1}) {
		t.Errorf("elements %v of %v, want %v", got.values, got.places, want)
	}
}
