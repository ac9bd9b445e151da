package compare

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// batch has two samples with two candidates each way, scored with these probabilities.
func batch(epoch int32, strategy string, high float64, probabilities ...float32) *schemas.ScoredBatch {
	b := &schemas.ScoredBatch{Batch: schemas.Batch{Epoch: epoch, Strategy: strategy, M: 2}, High: high}
	b.I2T, b.T2I = schemas.Int32s{1, 0, 1, -1}, schemas.Int32s{0, -1, 1, 0}
	b.ProbI2T, b.ProbT2I = probabilities[:4], probabilities[4:]
	return b
}

// TestRecorderCountsAsTheTrainerDoes: a probability at a threshold lies between the two, and a batch's own threshold
// goes first.
func TestRecorderCountsAsTheTrainerDoes(t *testing.T) {
	r := NewRecorder(Thresholds{High: 0.75, Low: 0.5})
	p := []float32{0.875, 0.75, 0.5, 1, 0.25, 1, 0, 0.625} // those of -1 do not count
	r.Batch(batch(1, "grit", 0, p...))
	r.Batch(batch(0, "random", 0, p...))
	r.Batch(batch(1, "grit", 0.375, p...))
	got := r.Course(Pairs{Published: 7})
	want := []Mined{
		{Epoch: 0, Strategy: "random", Batches: 1, Candidates: 6, Connections: 1, Ambiguous: 3},
		{Epoch: 1, Strategy: "grit", Batches: 2, Candidates: 12, Connections: 1 + 4, Ambiguous: 3},
	}
	if !reflect.DeepEqual(got.Mined, want) || got.Pairs.Published != 7 {
		t.Errorf("mined %+v, want %+v", got.Mined, want)
	}
}

// TestCourseOfRepeatedSteps: a trainer that was killed repeats steps. The last report of each counts.
func TestCourseOfRepeatedSteps(t *testing.T) {
	r := NewRecorder(Thresholds{})
	step := func(step int64, loss float64) {
		r.Progress(&schemas.Progress{Kind: schemas.ProgressStep, Step: step, Values: schemas.Measures{"loss": loss, "candidates": 8, "connections": 2}})
	}
	eval := func(step int64, recall float64) {
		r.Progress(&schemas.Progress{Kind: schemas.ProgressEval, Step: step, Values: schemas.Measures{"recall": recall}})
	}
	eval(0, 10)
	for i := range 20 {
		step(int64(10*i), float64(100-i))
	}
	eval(100, 30)
	step(190, 7)
	eval(100, 31)
	r.Progress(&schemas.Progress{Kind: schemas.ProgressCheckpoint, Step: 200, Checkpoint: "/c"})
	r.Skip()
	c := r.Course(Pairs{})
	if c.Steps != 190 || c.Unread != 1 || c.Last["loss"] != (82+7)/2.0 {
		t.Errorf("%d steps, %d unread, a last loss of %g; want 190, 1 and the mean of 82 and 7", c.Steps, c.Unread, c.Last["loss"])
	}
	if want := []Evaluation{{0, map[string]float64{"recall": 10}}, {100, map[string]float64{"recall": 31}}}; !reflect.DeepEqual(c.Evaluations, want) {
		t.Errorf("evaluations %v, want %v", c.Evaluations, want)
	}
	var names []string
	for _, curve := range c.Curves {
		names = append(names, fmt.Sprintf("%s %d", curve.Name, len(curve.Steps)))
		if last := curve.Values[len(curve.Values)-1]; curve.Name == "loss" && last != 7 {
			t.Errorf("the curve of the loss ends at %g, want 7", last)
		}
	}
	if want := []string{"loss 20", "connections_share 20", "recall 2"}; !slices.Equal(names, want) {
		t.Errorf("curves %q, want %q", names, want)
	}
}

// TestThinKeepsTheEnd: the mean of every point is that of the curve, and the last step stays.
func TestThinKeepsTheEnd(t *testing.T) {
	for _, n := range []int{1, 5, 6, 11, 1000} {
		points := make(map[int64]float64)
		for i := range n {
			points[int64(i)] = 1
		}
		c := thin("loss", points, 5)
		if len(c.Steps) > 5 || c.Steps[len(c.Steps)-1] != int64(n-1) || slices.ContainsFunc(c.Values, func(v float64) bool { return v != 1 }) {
			t.Errorf("%d points become %v", n, c)
		}
	}
	if got := round(math.Pi); got != 3.14159 {
		t.Errorf("rounded to %v", got)
	}
}

func TestLay(t *testing.T) {
	one := []Curve{{"loss", []int64{0, 10}, []float64{3, 2}}}
	two := []Curve{{"recall", []int64{5}, []float64{40}}, {"loss", []int64{10, 20}, []float64{1, 0.5}}}
	got := Lay([]string{"one", "two"}, [][]Curve{one, two})
	if len(got) != 2 || got[0].Name != "loss" || got[1].Name != "recall" || !slices.Equal(got[0].X, []int64{0, 10, 20}) {
		t.Fatalf("overlays %+v", got)
	}
	show := func(row []*float64) (s string) {
		for _, v := range row {
			if v == nil {
				s += " -"
				continue
			}
			s += fmt.Sprintf(" %g", *v)
		}
		return s
	}
	if a, b, last := show(got[0].Y[0]), show(got[0].Y[1]), show(got[1].Last()); a != " 3 2 -" || b != " - 1 0.5" || last != " - 40" {
		t.Errorf("rows%s and%s, last recalls%s", a, b, last)
	}
}

func example() []Run {
	course := &Course{
		Pairs: Pairs{Published: 6000, Grouped: 5900, Refused: map[string]int64{"missing": 3, "unusable": 1}}, Mined: []Mined{{Batches: 40, Candidates: 2000, Connections: 50, Ambiguous: 100}},
		Steps: 390, Last: map[string]float64{"loss": 2.5, "loss_uni": 0}, Evaluations: []Evaluation{{0, map[string]float64{"auc": 90}}, {400, map[string]float64{"auc": 97.25, "images": 100, "false_negatives": 8.75}}},
		Curves: []Curve{{"loss", []int64{0, 10}, []float64{3, 2}}},
	}
	other := *course
	other.Mined, other.Evaluations, other.Unread = []Mined{{Batches: 40}}, nil, 2
	return []Run{
		{
			Name: "grit", Facts: []Fact{{"seed", "7"}, {"namespace", ""}}, Settings: map[string]string{"SEED": "7", "STRATEGY": "grit", "SPOOL_DIR": "", "CHECKPOINT_DIR": "/" + strings.Repeat("long/", 20) + "c"},
			Models: []Fact{{"embeddings", "a1"}, {"embeddings", "a2"}}, Topics: []Topic{{"pairs", 6000, "x"}, {"batches", 41, "y"}}, Course: course,
		},
		{
			Name: "random", Facts: []Fact{{"seed", "7"}}, Settings: map[string]string{"SEED": "7", "STRATEGY": "random", "SPOOL_DIR": "/s", "NEW": "1", "CHECKPOINT_DIR": "/c"},
			Models: []Fact{{"embeddings", "a1"}, {"scored", "b"}}, Topics: []Topic{{"pairs", 6000, "x"}, {"batches", 41, "z"}}, Course: &other,
		},
		{Name: "old", Topics: []Topic{{"pairs", 5000, "w"}}},
	}
}

func TestPrint(t *testing.T) {
	c := must.Get(Of(example()))(t)
	var out bytes.Buffer
	must.Do(t, c.Print(&out))
	want := `RUNS    grit  random  old
  seed  7     7       –

SETTINGS THAT DIFFER  grit                                      random  old
  CHECKPOINT_DIR      …ng/long/long/long/long/long/long/long/c  /c      –
  NEW                 –                                         1       –
  SEED                7                                         7       –
  SPOOL_DIR           empty                                     /s      –
  STRATEGY            grit                                      random  –
  (Equal settings: 0)

MODELS        grit    random  old
  embeddings  a1, a2  a1      –
  scored      –       b       –
  (The fingerprints of the models whose results are in the records)

RECORDS    grit   random          old
  pairs    6,000  6,000, equal    5,000, other ones
  batches  41     41, other ones  –
  (By the digests of every lane, beside those of the first run)

FIGURES               grit         random  old
  evaluated at step   400          –       –
  false negatives, %  8.8          –       –
  AUC of ITM, %       97.2         –       –
  images              100          –       –
  mini-batches        40           40      –
  candidates          2,000        0       –
  connections         50 (2.5 %)   –       –
  passed over         100 (5.0 %)  –       –
  last reported step  390          390     –
  Loss                2.500        2.500   –
  records of pairs    6,000        6,000   –
  in groups           5,900        5,900   –
  refused             4            4       –
  (Losses are means over the last tenth of the reports. random: 2 records were of a newer version and are not counted. No figures of old: the manifest is of an older version; write it anew with ` + "`pairstream run-manifest`" + `)
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
	for _, n := range []int{0, 1, 9} {
		if _, err := Of(make([]Run, n)); !errors.Is(err, ErrCount) {
			t.Errorf("%d runs: error %v", n, err)
		}
	}
}

func TestNames(t *testing.T) {
	if got := Names([]string{"a/run.json", "b/other.json"}); !slices.Equal(got, []string{"run", "other"}) {
		t.Errorf("names %q", got)
	}
	if got := Names([]string{"a/run.json", "b/run.json"}); !slices.Equal(got, []string{"a/run.json", "b/run.json"}) {
		t.Errorf("names of files that are called the same: %q", got)
	}
}

// TestStrangersRuns has a manifest with curves of too few and of too many values, and texts that steer a terminal.
func TestStrangersRuns(t *testing.T) {
	const evil = "\x1b[2J\u202eevil\r\nx"
	course := func(values ...float64) *Course {
		return &Course{Curves: []Curve{{"loss", []int64{1, 2, 3}, values}}, Evaluations: []Evaluation{{1, map[string]float64{evil: 1}}}, Unread: 1}
	}
	run := func(c *Course) Run {
		return Run{
			Name: evil, Facts: []Fact{{evil, evil}}, Settings: map[string]string{evil: evil + fmt.Sprint(c.Curves), "URL": "http://a:hunter2@h/" + strconv.Itoa(len(c.Curves[0].Values))},
			Models: []Fact{{evil, evil}}, Topics: []Topic{{Name: evil}}, Course: c,
		}
	}
	few, many := course(1), course(1, 2, 3, 4)
	c := must.Get(Of([]Run{run(few), run(many)}))(t)
	if got := c.Curves[0]; len(got.X) != 3 || got.Y[0][0] == nil || got.Y[0][1] != nil || *got.Y[1][2] != 3 {
		t.Errorf("curves %+v", got)
	}
	var out bytes.Buffer
	must.Do(t, c.Print(&out))
	if strings.ContainsAny(out.String(), "\x1b\u202e\r") || strings.Contains(out.String(), "hunter2") || !strings.Contains(out.String(), "\ufffd[2J\ufffdevil") {
		t.Errorf("it prints %q", out.String())
	}
	for _, c := range []*Course{few, many} {
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), `curve "loss" has 3 steps and `) {
			t.Errorf("error %v", err)
		}
	}
	if err := course(1, 2, 3).Check(); err != nil {
		t.Error(err)
	}
}
