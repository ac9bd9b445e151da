package console

import (
	"context"
	"fmt"
	"time"

	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/schemas"
)

// flowView is the data of the page Flow.
type flowView struct {
	Waiting bool // nothing was read yet
	Notice  string
	Stages  []stageView
	Lanes   []inspect.Lane
	Dead    int64
	Reasons []inspect.DeadCount
	Pairs   int64
	Step    int64
	Sum     string // the state in a sentence
	State   string // its worst: ok, waiting, stalled
	Over    bool   // nothing is left to do: totals are shown instead of rates
	Ended   time.Time
	Time    time.Time
}

// stageView is one stage in the picture.
type stageView struct {
	Name, Does, Unit string
	State            string // done, ok, idle, waiting or stalled
	Why              string
	Rate             float64 // pairs a second
	Rated            bool
	Made             int64   // pairs in all
	Mean             float64 // pairs a second, from the first pair to the stage's last record; 0: not known
	Busy             string  // share of the device's time
	Lag              int64
	LagUnit          string
	Last             *time.Time
}

var does = map[string]struct{ does, lag string }{
	"encoder":       {"makes vectors", "pairs"},
	"indexer":       {"finds neighbours", "pairs"},
	"grouper":       {"forms mini-batches", "groups"},
	"discriminator": {"finds connections", "batches"},
	"trainer":       {"trains", "batches"},
}

// make turns a state into the page's data.
func (f *flow) make(ctx context.Context, s *inspect.Status) *flowView {
	f.seen = append(f.seen, s)
	for len(f.seen) > 2 && s.Time.Sub(f.seen[0].Time) > rateWindow {
		f.seen = f.seen[1:]
	}
	v := &flowView{Lanes: s.Lanes, Reasons: s.DeadLetters, Pairs: pairsOf(s), Time: s.Time, State: "ok"}
	for _, d := range s.DeadLetters {
		v.Dead += d.Count
	}
	if s.Training != nil {
		v.Step = s.Training.Step
	}
	size := f.batchSize(ctx)
	for _, stage := range s.Stages {
		out := stageView{Name: stage.Name, Does: does[stage.Name].does, Lag: stage.Lag, LagUnit: does[stage.Name].lag, Last: stage.LastProgress}
		f.rate(&out, s, stage, size)
		f.judge(&out, s, stage)
		out.Busy = f.busyShare(stage.Name)
		v.Stages = append(v.Stages, out)
	}
	f.explain(v)
	v.sum(s)
	began, err := f.begin(ctx)
	if err != nil {
		f.s.o.Logger.Debug("reading the time of the first pair", keyErr, err)
	}
	v.conclude(s, began, size)
	return v
}

// batchSize is the number of pairs of a mini-batch, for rates in pairs.
func (f *flow) batchSize(ctx context.Context) int64 {
	n, err := f.s.o.Index.BatchSize(ctx)
	if err != nil {
		f.s.o.Logger.Debug("reading the size of mini-batches", keyErr, err)
	}
	return max(n, 1)
}

// made returns the pairs that a stage has handled.
func made(s *inspect.Status, stage inspect.Stage, size int64) int64 {
	switch stage.Name {
	case "encoder":
		return recordsOf(s, schemas.Embeddings)
	case "indexer":
		return taken(s, stage)
	case "grouper":
		return recordsOf(s, schemas.Batches) * size
	case "discriminator":
		return recordsOf(s, schemas.Scored) * size
	}
	return recordsOf(s, schemas.Features) * size
}

func (f *flow) rate(out *stageView, s *inspect.Status, stage inspect.Stage, size int64) {
	if len(f.seen) < 2 {
		return
	}
	first := f.seen[0]
	for _, before := range first.Stages {
		if before.Name == stage.Name {
			out.Rate = max(0, float64(made(s, stage, size)-made(first, before, size))/s.Time.Sub(first.Time).Seconds())
			out.Rated = true
		}
	}
}

// judge decides whether a stage makes progress.
func (f *flow) judge(out *stageView, s *inspect.Status, stage inspect.Stage) {
	now := movement{taken(s, stage), made(s, stage, 1), s.Time}
	before, known := f.moved[stage.Name]
	if known && before.taken == now.taken && before.made == now.made {
		now.at = before.at
	} else if !known && stage.LastProgress != nil {
		now.at = *stage.LastProgress
	}
	f.moved[stage.Name] = now
	out.State = "ok"
	still := s.Time.Sub(now.at)
	for _, lane := range s.Lanes {
		for _, say := range lane.Says {
			if say.Stage == stage.Name {
				out.State, out.Why = "stalled", fmt.Sprintf("lane %d: %s", say.Lane, say.State)
			}
		}
	}
	switch {
	case out.State == "stalled":
	case stage.Lag == 0 && finished(s):
		out.State = "done"
	case stage.Lag == 0:
		out.State = "idle"
	case still > stalledAfter:
		out.State = "stalled"
		out.Why = fmt.Sprintf("%s wait, and it has taken nothing for %s. Is the %s running? See its log.", plural(stage.Lag, does[stage.Name].lag[:len(does[stage.Name].lag)-1], does[stage.Name].lag), span(still), stage.Name)
	}
}

// span writes a length of time as people do.
func span(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}

func finished(s *inspect.Status) bool {
	for _, l := range s.Lanes {
		if l.State != inspect.StateDone {
			return false
		}
	}
	return len(s.Lanes) > 0
}

// explain marks a stalled stage that waits for a later one at work. The grouper waits for the features of an epoch
// before it forms the next.
func (f *flow) explain(v *flowView) {
	for i := range v.Stages {
		if v.Stages[i].State != "stalled" {
			continue
		}
		for j := i + 1; j < len(v.Stages); j++ {
			if later := v.Stages[j]; later.Lag > 0 && later.State == "ok" {
				v.Stages[i].State, v.Stages[i].Why = "waiting", "waits for the "+later.Name
			}
		}
	}
}

func (v *flowView) sum(s *inspect.Status) {
	var stalled []string
	busy := false
	for _, stage := range v.Stages {
		if stage.State == "stalled" {
			stalled = append(stalled, stage.Name)
		}
		busy = busy || stage.Lag > 0 || stage.Rate > 0
	}
	switch {
	case len(stalled) > 0:
		v.State, v.Sum = "stalled", "The "+stalled[0]+" is stalled."
		if len(stalled) > 1 {
			v.Sum = fmt.Sprintf("The %s and %s are stalled.", stalled[0], plural(len(stalled)-1, "more stage", "more stages"))
		}
	case v.Pairs == 0:
		v.State, v.Sum = "idle", "No pairs yet. Publish some: pairstream produce FOLDER"
	case finished(s):
		v.State, v.Sum = "done", "The crawl has ended, and every stage has finished."
	case !busy:
		v.State, v.Sum = "idle", "Every stage has finished the pairs so far. More may come."
	default:
		v.Sum = "Pairs flow."
	}
}

// busyShare returns the device's share of the last interval for a stage, or "" where it is not known.
func (f *flow) busyShare(stage string) string {
	if f.s.o.Busy == nil {
		return ""
	}
	worked, ok := f.s.o.Busy()[stage]
	if !ok {
		return ""
	}
	now := busyAt{worked, time.Now()}
	before, known := f.busy[stage]
	f.busy[stage] = now
	if !known {
		return ""
	}
	return percent(min(1, max(0, (now.worked-before.worked).Seconds()/now.at.Sub(before.at).Seconds())), 1.0)
}
