package trainer

import (
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
)

func TestGoldenSoftLabels(t *testing.T) {
	v := openVectors(t, "soft_labels.safetensors")
	var config struct{ B, Q int }
	v.Config(&config)
	cons := v.scalar("in.alpha_cons")
	for _, c := range []struct {
		prefix  string
		options ITCOptions
		alpha   float64
		queue   bool
		scale   float64 // what the file divides the labels by
	}{
		{"sitc", ITCOptions{Targets: Smoothed}, v.scalar("in.alpha_sitc"), false, 1},
		{"cons", ITCOptions{Targets: Consistency, Form: Mix, Lambda: cons}, 0, false, 1},
		{"cons_additive", ITCOptions{Targets: Consistency, Form: Additive, Lambda: cons}, 0, false, 1 + cons},
		{"cons_literal", ITCOptions{Targets: Consistency, Form: Literal, Lambda: cons}, 0, false, 1},
		{"md", ITCOptions{Targets: Distilled}, v.scalar("in.alpha_md"), true, 1},
		{"mdnq", ITCOptions{Targets: Distilled}, v.scalar("in.alpha_md"), false, 1},
	} {
		t.Run(c.prefix, func(t *testing.T) {
			onWorker(t, func(s *torch.Scope) error {
				columns := int64(config.B)
				if c.queue {
					columns += int64(config.Q)
				}
				side := func(way string) direction {
					d := direction{sim: v.matrix(s, "in.sim_"+way), hard: onesOnDiagonal(s, int64(config.B), columns)}
					d.teacher = s.Narrow(v.matrix(s, "in.sim_"+way+"_m"), 1, 0, columns)
					return d
				}
				i2t, t2i := side("i2t"), side("t2i")
				labels := func(d, other direction) []float64 {
					return s.MulScalar(c.options.targets(s, d, c.options.soft(s, d, other), c.alpha), 1/c.scale).Float64s()
				}
				images, texts := labels(i2t, t2i), labels(t2i, i2t)
				golden.Close(t, "label_i2t", images, v.Float64s(c.prefix+".label_i2t"), 1e-10, 0)
				golden.Close(t, "label_t2i", texts, v.Float64s(c.prefix+".label_t2i"), 1e-10, 0)
				both := slices.Concat(images, texts)
				sorted := meanSortedLabels(both, int(columns))
				golden.Close(t, "mean_sorted", sorted, v.Float64s(c.prefix+".mean_sorted"), 1e-10, 0)
				groups := softLabelGroups(sorted, config.B)
				golden.Close(t, "groups", groups[:], v.Float64s(c.prefix+".groups"), 1e-10, 0)
				groups = softLabelGroups(meanSortedLabels(images, int(columns)), config.B)
				golden.Close(t, "groups_i2t", groups[:], v.Float64s(c.prefix+".groups_i2t"), 1e-10, 0)
				groups = softLabelGroups(meanSortedLabels(texts, int(columns)), config.B)
				golden.Close(t, "groups_t2i", groups[:], v.Float64s(c.prefix+".groups_t2i"), 1e-10, 0)
				return nil
			})
		})
	}
}

func onesOnDiagonal(s *torch.Scope, rows, columns int64) *torch.Tensor {
	values := make([]float64, rows*columns)
	for i := range rows {
		values[i*columns+i] = 1
	}
	return s.Float64s(values, rows, columns)
}

// meanSortedLabels sorts the soft labels of every anchor in descending order and averages them over the anchors (MAFA
// appendix D, steps 1 to 3). labels holds one row of the given number of columns per anchor. It does not change.
func meanSortedLabels(labels []float64, columns int) []float64 {
	mean := make([]float64, columns)
	rows := len(labels) / columns
	for r := range rows {
		row := slices.Clone(labels[r*columns : (r+1)*columns])
		slices.Sort(row)
		for i, v := range row {
			mean[columns-1-i] += v / float64(rows)
		}
	}
	return mean
}

// softLabelGroups sums the labels of [meanSortedLabels] over three groups of ranks. These are 1..5, 6..batch, and the
// ranks beyond, which are the queue's (MAFA appendix D, steps 4 and 5; Table 2).
func softLabelGroups(sorted []float64, batch int) [3]float64 {
	var groups [3]float64
	for rank, v := range sorted {
		switch {
		case rank < 5:
			groups[0] += v
		case rank < batch:
			groups[1] += v
		default:
			groups[2] += v
		}
	}
	return groups
}
