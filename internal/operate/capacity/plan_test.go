package capacity

import (
	"math"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// round has figures that are easy to count with. Of its operations a second, 1.8e14 are the encoder's and Con-D's, 1e14
// are training's and 3.2e14 the indexer's.
var round = GPU{Name: "round", Operations: 1e15, Bandwidth: 1.25e12, Memory: 100e9}

func request() Request {
	return Request{
		Pairs: 1e8, Days: 10, Epochs: 10, Group: 5e6, Batch: 100, Space: 4_800, Image: 40_000, GPU: round,
		Model: Model{Name: "base", Encode: 2.2e10, Score: 2.6e10, Train: 1.3e11, Dim: 256, Parameters: 1e8},
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-3*math.Abs(want) {
		t.Errorf("%s is %.6g, want %.6g", what, got, want)
	}
}

// The figures of a plan by hand. A day has 86,400 s: training has 777,600 s, and the first groups are filled in 43,200
// s and closed in as many. A GPU encodes 10,000 pairs/s, scores 5,000 and trains on 1,000.
func TestPlanByHand(t *testing.T) {
	p := must.Get(Make(request()))(t)
	const (
		seen    = 1e9
		filled  = 1e7 / 43_200.0 // ten rounds of two lanes
		trained = seen / 777_600.0
		// 4 x 256 x 2.5e13 operations, 2.5e14 bytes at 1e12/s, 46,566 tiles of 0.4 ms
		closing = 80 + 250 + 18.626
	)
	if p.Lanes != 2 || p.Rounds != 10 || p.Group != 5e6 {
		t.Errorf("%d lanes, %d rounds of %g pairs; want 2, 10, 5e6", p.Lanes, p.Rounds, p.Group)
	}
	want := []Stage{
		{"encoder", 1e4 / 3600.0, 1, 1, filled},
		{"indexer", 20 * closing / 3600, 1, 1, filled},
		{"grouper", 0, 0, 1, trained}, // 6,880 core-seconds of walks and 13,600 of records
		{"discriminator", 2e5 / 3600.0, 1, 1, trained},
		{"trainer", 1e6 / 3600.0, 2, 2, trained},
	}
	for i, s := range p.Stages {
		near(t, s.Name+": GPU-hours", s.GPUHours, want[i].GPUHours)
		near(t, s.Name+": rate", s.Rate, want[i].Rate)
		if s.Name != want[i].Name || s.GPUs != want[i].GPUs || s.Cores != want[i].Cores {
			t.Errorf("%+v, want %+v", s, want[i])
		}
	}
	const again = 2*(342+1029) + 355 // two epochs of batches and features, one of scored
	near(t, "kept", p.Kept, 3*(1e8*1799+1e7*again))
	near(t, "everything", p.Everything, 3*(1e8*1799+seen*1726))
	near(t, "written", p.Written, filled*1799+trained*1726)
	near(t, "reads", p.Reads, 40_000*(filled+3*trained))
	near(t, "indexers' memory", p.IndexerMemory, 1e7*1088)
	near(t, "closing", p.ClosingMemory, 2.5e9)
	near(t, "indexer's GPU", p.IndexerDevice, 5e6*1104+3e9)
	near(t, "groupers' memory", p.GrouperMemory, 1e7*1224)
	near(t, "trainer's weights", p.TrainerWeights, 1.6e9)
	near(t, "exchange", p.Exchange, 4e8*trained/2/100) // 2 (R - 1) / R of the gradient, R = 2
	if p.Brokers != 3 || p.IndexerCores != 3 {         // two groups of 19.24 s x 50^2 in 43,200 s
		t.Errorf("%d brokers and %d cores of indexers, want 3 and 3", p.Brokers, p.IndexerCores)
	}
}

func TestPlanFollowsItsRequest(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Request)
		right  func(Plan) bool
	}{
		"half the days": {func(r *Request) { r.Days = 5 }, func(p Plan) bool { return p.stage("trainer").GPUs == 3 && p.Lanes == 3 }},
		// 777.6 s are training's, so that 1,287 GPUs make 1e9 pairs and 258 score them
		"a hundredth of a day": {func(r *Request) { r.Days, r.Group = 0.01, 1e5 }, func(p Plan) bool { return p.stage("trainer").GPUs == 1287 && p.Lanes == 1287 && p.Rounds == 1 }},
		"a measured rate":      {func(r *Request) { r.TrainRate = 2_000 }, func(p Plan) bool { return p.stage("trainer").GPUs == 1 && p.Exchange == 0 }},
		"exactly two GPUs":     {func(r *Request) { r.TrainRate = 1e9 / 777_600.0 / 2 }, func(p Plan) bool { return p.stage("trainer").GPUs == 2 }},
		"no Con-D": {func(r *Request) { r.Model.Score = 0 }, func(p Plan) bool {
			return p.stage("discriminator").GPUs == 0 && p.stage("discriminator").Cores == 0 && p.ReadImages < 3*1e9/777_600.0
		}},
		"more lanes than pairs want": {func(r *Request) { r.Lanes = 40 }, func(p Plan) bool { return p.Lanes == 40 && p.Rounds == 1 && p.Group == 2.5e6 }},
		// 40,000 pairs/s to score are more GPUs than trainers, and lanes stay a multiple of these
		"a large Con-D": {func(r *Request) { r.Model.Score = 2.6e11 }, func(p Plan) bool { return p.stage("discriminator").GPUs == 3 && p.Lanes == 4 }},
		"many rounds":   {func(r *Request) { r.Group = 5e5 }, func(p Plan) bool { return p.Rounds == 100 && math.Abs(p.Fill-7_776) < 1e-6 }},
		"much storage":  {func(r *Request) { r.Pairs, r.Lanes = 1e10, 2000 }, func(p Plan) bool { return p.Brokers == count(p.Kept, 8e12) && p.Brokers > 3 }},
	} {
		t.Run(name, func(t *testing.T) {
			r := request()
			tt.change(&r)
			if p, err := Make(r); err != nil || !tt.right(p) {
				t.Errorf("%v: %d lanes, %d rounds, %g pairs, %d brokers, %+v", err, p.Lanes, p.Rounds, p.Group, p.Brokers, p.Stages)
			}
		})
	}
}

func TestRequestsWithoutAPlan(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Request)
		words  []string
	}{
		"nothing":             {func(r *Request) { *r = Request{} }, []string{"--pairs is 0", "--days is 0", "--epochs", "--group", "--batch"}},
		"no number":           {func(r *Request) { r.Pairs, r.Days = math.NaN(), math.Inf(1) }, []string{"--pairs is NaN", "--days is +Inf"}},
		"space below batch":   {func(r *Request) { r.Space = 99 }, []string{"--space is 99, want 100 or more"}},
		"too few lanes":       {func(r *Request) { r.Lanes = 1 }, []string{"--lanes is 1, and 2 GPUs of the trainer", "--lanes 2"}},
		"too large for a GPU": {func(r *Request) { r.GPU.Memory = 8e9 }, []string{"takes 8.52 GB", "round has 8", "smaller --group"}},
		"no time to close":    {func(r *Request) { r.Days, r.Lanes = 0.05, 2 }, []string{"closing a group", "smaller --group or more --days"}},
		"too many lanes":      {func(r *Request) { r.Days, r.Group = 0.001, 1e3 }, []string{"at most 10000", "more --days"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := request()
			tt.change(&r)
			_, err := Make(r)
			for _, words := range tt.words {
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Errorf("%v, want %q in it", err, words)
				}
			}
		})
	}
}

// Every assumption says where it comes from, and only what nobody has measured is a prediction.
func TestAssumptionsHaveSources(t *testing.T) {
	for name, tt := range map[string]struct {
		change      func(*Request)
		predictions int
	}{
		"as it is": {func(*Request) {}, 2},
		"measured": {func(r *Request) { r.TrainRate = 500 }, 2},
		"small":    {func(r *Request) { r.Model.Name = "small" }, 2},
	} {
		r, found := request(), 0
		tt.change(&r)
		p := must.Get(Make(r))(t)
		for _, a := range p.Assumptions {
			if a.What == "" || a.Value == "" || a.Source == "" {
				t.Errorf("%s: %+v", name, a)
			}
			if a.Kind == Prediction {
				found++
			}
		}
		if found != tt.predictions {
			t.Errorf("%s: %d predictions, want %d", name, found, tt.predictions)
		}
	}
}

func TestPrintNamesWhatIsPredicted(t *testing.T) {
	p := must.Get(Make(request()))(t)
	var out strings.Builder
	must.Do(t, p.Print(&out))
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, words := range []string{
		"100 M pairs, 10 epochs, preset base, round, 10 days", "lanes 2 10 groups each", "trainer 2 277.8 2 1.29 k", "storage 633 GB",
		"share of it in training 13 % measured", "Every GPU of the trainer sends and receives 2.57 GB/s",
	} {
		if !strings.Contains(text, words) {
			t.Errorf("no %q in\n%s", words, out.String())
		}
	}
}

func TestAmounts(t *testing.T) {
	for want, v := range map[string]float64{"0": 0, "999": 999.4, "1 k": 999.5, "1.5 M": 1.5e6, "2e+03 P": 2e18} {
		if got := amount(v, ""); got != want {
			t.Errorf("%g is %q, want %q", v, got, want)
		}
	}
	if got := amount(12, "B"); got != "12 B" {
		t.Error(got)
	}
}

func TestGPUs(t *testing.T) {
	for _, name := range GPUNames() {
		if g, err := GPUOf(name); err != nil || g.Operations < 1e14 || g.Bandwidth < 1e11 || g.Memory < 1e10 {
			t.Errorf("%+v, %v", g, err)
		}
	}
	if _, err := GPUOf("k80"); err == nil || !strings.Contains(err.Error(), `--gpu is "k80", want one of a100`) {
		t.Error(err)
	}
}
