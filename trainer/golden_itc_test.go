package trainer

import (
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/schemas"
)

// itcCase is one family of tensors in the file.
type itcCase struct {
	prefix      string
	options     ITCOptions
	alpha       float64
	connections bool
	reference   bool // run by the authors' code in float32 too
}

// itcCases finds the cases by the names of their losses.
func itcCases(t *testing.T, v vectors) []itcCase {
	t.Helper()
	var cases []itcCase
	for _, tensor := range v.Names() {
		prefix, ok := strings.CutSuffix(tensor, ".loss")
		if !ok {
			continue
		}
		kind, share, _ := strings.Cut(prefix, "_a")
		c := itcCase{prefix: prefix, connections: strings.Contains(kind, "ecm"), reference: v.has(prefix + ".loss_f32")}
		switch kind {
		case "onehot":
			c.options = ITCOptions{Targets: OneHot}
		case "cons":
			c.options = ITCOptions{Targets: Consistency, Form: Additive, Lambda: v.scalar("cons.lambda")}
		case "sitc", "ecm", "sitc_ecm":
			c.options = ITCOptions{Targets: Smoothed}
		case "mdnq":
			c.options = ITCOptions{Targets: Distilled}
		default:
			t.Fatalf("case %s is unknown", prefix)
		}
		if share != "" {
			alpha, err := strconv.ParseFloat(share, 64)
			if err != nil {
				t.Fatalf("case %s: %v", prefix, err)
			}
			c.alpha = alpha
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		t.Fatal("the file has no case")
	}
	return cases
}

// ecmPicks returns the choices from which the file's case with connections starts.
func ecmPicks(v vectors, hardest, fresh string) []pick {
	flags := v.Int64s(fresh)
	picks := make([]pick, len(flags))
	for i, j := range v.Int64s(hardest) {
		picks[i] = pick{hardest: int32(j), second: -1}
		if flags[i] != 0 {
			picks[i].class = Connection
		}
	}
	return picks
}

func TestGoldenITCLosses(t *testing.T) {
	v := openVectors(t, "itc_losses.safetensors")
	for _, way := range []string{"i2t", "t2i"} {
		fresh := v.Int64s("ecm.new_pos_" + way)
		for i, p := range v.Float64s("ecm.cond_prob_" + way) {
			if found := MAFA().ECM.ClassOf(float32(p)) == Connection; found != (fresh[i] != 0) {
				t.Errorf("anchor %d of %s, of a probability of %g: a connection is %t", i, way, p, found)
			}
		}
	}
	for _, c := range itcCases(t, v) {
		t.Run(c.prefix, func(t *testing.T) {
			v := openVectors(t, "itc_losses.safetensors")
			onWorker(t, func(s *torch.Scope) error {
				i2t, t2i := goldenDirections(v, s, c)
				loss := c.options.loss(s, i2t, t2i, c.alpha)
				s.Backward(loss)
				golden.Close(t, "loss", []float64{loss.Item()}, v.Float64s(c.prefix+".loss"), 1e-10, 0)
				if c.reference {
					golden.Close(t, "loss of the float32 run", []float64{loss.Item()}, v.Float64s(c.prefix+".loss_f32"), 2e-6, 0)
				}
				for _, d := range []struct {
					way       string
					row, cols direction
				}{{"i2t", i2t, t2i}, {"t2i", t2i, i2t}} {
					target := c.options.targets(s, d.row, c.options.soft(s, d.row, d.cols), c.alpha)
					golden.Close(t, "target "+d.way, target.Float64s(), v.Float64s(c.prefix+".target_"+d.way), 1e-10, 0)
					golden.Close(t, "gradient "+d.way, s.Grad(d.row.sim).Float64s(), v.Float64s(c.prefix+".dsim_"+d.way), 1e-11, 0)
				}
				return nil
			})
		})
	}
}

// goldenDirections puts the similarities of a case on the scope, with hard targets made as a step makes them.
func goldenDirections(v vectors, s *torch.Scope, c itcCase) (i2t, t2i direction) {
	source := "in"
	if c.options.Targets == Distilled {
		source = c.prefix
	}
	i2t.sim, t2i.sim = v.variable(s, source+".sim_i2t"), v.variable(s, source+".sim_t2i")
	if c.options.Targets == Distilled {
		i2t.teacher, t2i.teacher = v.matrix(s, source+".sim_i2t_m"), v.matrix(s, source+".sim_t2i_m")
	}
	n := i2t.sim.Shape()[0]
	ecm := MAFA().ECM
	ecm.ITC = c.connections
	samples := make([]schemas.Sample, n)
	hard := func(hardest, fresh string) *torch.Tensor {
		return hardTargets(samples, nil, ecmPicks(v, hardest, fresh), ecm).hard(s, torch.Float64)
	}
	i2t.hard = hard("ecm.hard_text_for_image", "ecm.new_pos_i2t")
	t2i.hard = hard("ecm.hard_image_for_text", "ecm.new_pos_t2i")
	return i2t, t2i
}

func TestGoldenITCConnections(t *testing.T) {
	v := openVectors(t, "itc_losses.safetensors")
	n := int(v.Must("in.sim_i2t").Shape[0])
	for _, d := range []struct{ sim, hardest, prob, fresh string }{
		{"in.sim_i2t", "ecm.hard_text_for_image", "ecm.cond_prob_i2t", "ecm.new_pos_i2t"},
		{"in.sim_t2i", "ecm.hard_image_for_text", "ecm.cond_prob_t2i", "ecm.new_pos_t2i"},
	} {
		sim := v.Float64s(d.sim)
		b := batchOf(n, 0, nil, nil)
		i2t, _ := directions(b, MAFA().ECM)
		hardest, fresh := v.Int64s(d.hardest), v.Int64s(d.fresh)
		for i, p := range i2t.mine(float32s(sim), n, twoHardest) {
			if int64(p.hardest) != hardest[i] {
				t.Errorf("%s of anchor %d: %d, want %d", d.hardest, i, p.hardest, hardest[i])
			}
			if got := MAFA().ECM.ClassOf(float32(v.Float64s(d.prob)[i])) == Connection; got != (fresh[i] != 0) {
				t.Errorf("%s of anchor %d: %v, want %d", d.fresh, i, got, fresh[i])
			}
		}
	}
}

func TestGoldenConsistencyAsKL(t *testing.T) {
	v := openVectors(t, "itc_losses.safetensors")
	onWorker(t, func(s *torch.Scope) error {
		c := itcCase{options: ITCOptions{Targets: Consistency, Form: Additive, Lambda: v.scalar("cons.lambda"), ReportKL: true}}
		i2t, t2i := goldenDirections(v, s, c)
		loss := c.options.loss(s, i2t, t2i, 0)
		s.Backward(loss)
		golden.Close(t, "loss", []float64{loss.Item()}, v.Float64s("cons.loss_paper_kl"), 1e-10, 0)
		golden.Close(t, "gradient", s.Grad(i2t.sim).Float64s(), v.Float64s("cons.dsim_i2t"), 1e-11, 0)
		return nil
	})
}

func float32s(values []float64) []float32 {
	out := make([]float32, len(values))
	for i, x := range values {
		out[i] = float32(x)
	}
	return out
}
