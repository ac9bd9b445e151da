package capacity

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/schemas"
)

// Validate returns an error for each value of a request that allows no plan, joined.
func (r Request) Validate() error {
	var l invalid.List
	for _, v := range []struct {
		flag  string
		value float64
		least float64
	}{
		{"--pairs", r.Pairs, 1},
		{"--days", r.Days, 1 / day},
		{"--epochs", r.Epochs, 1},
		{"--group", r.Group, 1},
		{"--batch", r.Batch, 2},
		{"--space", r.Space, r.Batch},
		{"--image", r.Image, 0},
		{"--lanes", float64(r.Lanes), 0},
		{"--train-rate", r.TrainRate, 0},
	} {
		l.Refuse(!(v.value >= v.least) || math.IsInf(v.value, 0), "%s is %g, want %g or more", v.flag, v.value, v.least)
	}
	return l.Err()
}

// work holds the seconds that one device needs for a request.
type work struct {
	encode, score, train float64 // GPU-seconds
	walk                 float64 // core-seconds
	seen                 float64 // pairs in all epochs
}

func (r Request) work() work {
	seen := r.Pairs * r.Epochs
	perWalked := walkSeconds / walkPairs / walkPairs * r.Model.Dim / growthDim // for two members of a walk
	return work{
		encode: r.Pairs * r.Model.Encode / (encodeShare * r.GPU.Operations), score: seen * r.Model.Score / (scoreShare * r.GPU.Operations),
		train: seen / r.trainRate(),
		walk:  seen * r.Space * perWalked, seen: seen,
	}
}

// trainRate returns the pairs/s of a GPU in training.
func (r Request) trainRate() float64 {
	if r.TrainRate > 0 {
		return r.TrainRate
	}
	return trainShare * r.GPU.Operations / r.Model.Train
}

// closing returns the seconds in which a GPU closes a group of n pairs: matrix products, passes over them, and kernel
// launches.
func (r Request) closing(n float64) float64 {
	pairs := n * n
	return 4*r.Model.Dim*pairs/(productShare*r.GPU.Operations) + scoreBytes*pairs/(bandwidthShare*r.GPU.Bandwidth) + 2*pairs/tilePairs*tileSeconds
}

// count returns the number of devices that do the given seconds of work in the given time.
func count(seconds, time float64) int { return int(math.Ceil(seconds / time * (1 - 1e-12))) }

// Make returns the plan for a request.
func Make(r Request) (Plan, error) {
	if err := r.Validate(); err != nil {
		return Plan{}, err
	}
	w := r.work()
	trainers := max(1, count(w.train, (1-startShare)*r.Days*day))
	lanes := r.Lanes
	if lanes == 0 {
		lanes = trainers
	}
	for {
		p, err := r.layOut(w, lanes)
		if err != nil {
			return Plan{}, err
		}
		most := Stage{}
		for _, s := range p.Stages {
			if s.GPUs > most.GPUs {
				most = s
			}
		}
		switch {
		case most.GPUs <= lanes:
			p.store()
			p.Assumptions = assumptions(r)
			return p, nil
		case r.Lanes > 0:
			return Plan{}, fmt.Errorf("--lanes is %d, and %d GPUs of the %s need a lane each: give --lanes %d or more, or more --days", r.Lanes, most.GPUs, most.Name, most.GPUs)
		}
		lanes = (most.GPUs + trainers - 1) / trainers * trainers // so that all GPUs of the trainer have the same number of lanes
	}
}

// layOut returns the groups and stages of a plan with the given number of lanes.
func (r Request) layOut(w work, lanes int) (Plan, error) {
	p := Plan{Request: r, Lanes: lanes, Group: min(r.Group, r.Pairs/float64(lanes))}
	p.Rounds = max(1, count(r.Pairs, float64(lanes)*p.Group))
	p.Train = (1 - startShare) * r.Days * day
	round := p.Train / float64(p.Rounds)
	p.Fill = min(startShare/2*r.Days*day, round)
	p.Close = p.Fill

	if lanes > mostLanes {
		return p, fmt.Errorf("the stages need %d lanes, and a log has at most %d: give more --days", lanes, mostLanes)
	}
	p.IndexerDevice = p.Group*(4*r.Model.Dim+80) + 3e9
	if p.IndexerDevice > r.GPU.Memory {
		return p, fmt.Errorf("a group of %.3g pairs takes %.3g GB of a GPU, and %s has %.3g: give a smaller --group", p.Group, p.IndexerDevice/1e9, r.GPU.Name, r.GPU.Memory/1e9)
	}
	closing := r.closing(p.Group)
	if closing > p.Close {
		return p, fmt.Errorf("closing a group of %.3g pairs takes %.3g hours, and the plan has %.3g: give a smaller --group or more --days", p.Group, closing/hour, p.Close/hour)
	}
	onCores := closeSeconds * (p.Group / closePairs) * (p.Group / closePairs) * r.Model.Dim / growthDim
	p.IndexerCores = count(onCores*float64(lanes), p.Close)
	share := 1 / float64(p.Rounds)
	filled := r.Pairs * share / p.Fill // pairs/s while a group fills
	trained := w.seen / p.Train
	encoding := Stage{Name: "encoder", GPUHours: w.encode / hour, GPUs: count(w.encode*share, p.Fill), Cores: count(filled*(decodeTime+recordTime), 1), Rate: filled}
	indexing := Stage{
		Name: "indexer", GPUHours: closing * float64(lanes*p.Rounds) / hour, GPUs: count(closing*float64(lanes), p.Close), Cores: 1, Rate: r.Pairs * share / p.Close,
	}
	grouping := Stage{Name: "grouper", Cores: count(w.walk+w.seen*recordTime, p.Train), Rate: trained}
	scoring := Stage{Name: "discriminator", GPUHours: w.score / hour, GPUs: count(w.score, p.Train), Rate: trained}
	if w.score > 0 {
		scoring.Cores = count(w.seen*decodeTime, p.Train)
	}
	training := Stage{Name: "trainer", GPUHours: w.train / hour, GPUs: count(w.train, p.Train), Cores: count(2*w.seen*decodeTime, p.Train), Rate: trained}
	p.Stages = []Stage{encoding, indexing, grouping, scoring, training}
	return p, nil
}

// Bytes returns the bytes of a pair in a topic, including key and headers, with vectors of dim values and positives. It
// returns 0 for topics without pairs.
func Bytes(topic schemas.Topic, dim float64) float64 {
	b := topicBytes[topic]
	return b.fixed + b.value*dim
}

// Once returns the bytes of a pair that are written once.
func Once(dim float64) float64 {
	return Bytes(schemas.Pairs, dim) + Bytes(schemas.Embeddings, dim) + Bytes(schemas.Neighbors, dim)
}

// EveryEpoch returns the bytes of a pair that every epoch writes.
func EveryEpoch(dim float64) float64 {
	return Bytes(schemas.Batches, dim) + Bytes(schemas.Scored, dim) + Bytes(schemas.Features, dim)
}

// store computes storage, traffic and memory.
func (p *Plan) store() {
	r, w := p.Request, p.Request.work()
	dim, open := r.Model.Dim, float64(p.Lanes)*p.Group
	once := r.Pairs * Once(dim)
	again := open * (keptEpochs*EveryEpoch(dim) - (keptEpochs-1)*Bytes(schemas.Scored, dim))
	filled, trained := r.Pairs/float64(p.Rounds)/p.Fill, w.seen/p.Train
	p.Kept, p.Everything = replication*(once+again), replication*(once+w.seen*EveryEpoch(dim))
	p.Written = filled*Once(dim) + trained*EveryEpoch(dim)
	p.Brokers = max(leastBrokers, count(p.Kept, brokerBytes), count(replication*p.Written, brokerWrites))

	images := 2.0 // the image of the sample and that of its positive
	if r.Model.Score > 0 {
		images++
	}
	p.ReadImages = filled + images*trained
	p.Reads = p.ReadImages * r.Image

	p.IndexerMemory, p.ClosingMemory = open*(4*dim+64), p.Group*500
	p.GrouperMemory = open * (4*dim + 200)
	p.TrainerWeights = 4 * floatBytes * r.Model.Parameters
	if n := float64(p.stage("trainer").GPUs); n > 1 {
		steps := trained / n / r.Batch
		p.Exchange = 2 * (n - 1) / n * floatBytes * r.Model.Parameters * steps
	}
}

func (p *Plan) stage(name string) Stage {
	for _, s := range p.Stages {
		if s.Name == name {
			return s
		}
	}
	return Stage{}
}

// Print writes the plan for people: stages, log, bucket and memory, and the assumptions.
func (p *Plan) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	r := p.Request
	fmt.Fprintf(w, "%s pairs, %.0f epochs, preset %s, %s, %.4g days\n\n", amount(r.Pairs, ""), r.Epochs, r.Model.Name, r.GPU.Name, r.Days)
	fmt.Fprintf(w, "lanes\t%d\t%d groups each, one after the other, of %s pairs\n", p.Lanes, p.Rounds, amount(p.Group, ""))
	fmt.Fprintf(w, "time\t%.3g days\tuntil training begins, then %.3g days of training\n", (p.Fill+p.Close)/day, p.Train/day)
	fmt.Fprint(w, "\nstage\tGPUs\tGPU-hours\tcores\tpairs/s\n")
	for _, s := range p.Stages {
		if s.GPUs+s.Cores > 0 {
			fmt.Fprintf(w, "%s\t%d\t%.1f\t%d\t%s\n", s.Name, s.GPUs, s.GPUHours, s.Cores, amount(s.Rate, ""))
		}
	}
	fmt.Fprintf(w, "Processors instead of the indexers' GPUs: %d cores.\n", p.IndexerCores)
	fmt.Fprint(w, "\nlog and bucket\n")
	for _, row := range [][3]string{
		{"brokers", strconv.Itoa(p.Brokers), "with every record three times"},
		{"storage", amount(p.Kept, "B"), "if records that are not needed are deleted, else " + amount(p.Everything, "B")},
		{"writes", amount(p.Written, "B/s"), "by the stages, before replication"},
		{"bucket", amount(p.Reads, "B/s"), amount(p.ReadImages, "") + " reads a second, without caches and copies"},
	} {
		fmt.Fprintln(w, strings.Join(row[:], "\t"))
	}
	fmt.Fprint(w, "\nmemory\n")
	fmt.Fprintf(w, "indexers\t%s\tof all open groups, and %s for each that closes; %s on its GPU\n", amount(p.IndexerMemory, "B"), amount(p.ClosingMemory, "B"), amount(p.IndexerDevice, "B"))
	fmt.Fprintf(w, "groupers\t%s\tof all open groups\n", amount(p.GrouperMemory, "B"))
	fmt.Fprintf(w, "a trainer\t%s\tof weights, gradients and moments on its GPU; the activations of a step add to it\n", amount(p.TrainerWeights, "B"))
	if p.Exchange > 0 {
		fmt.Fprintf(w, "\nEvery GPU of the trainer sends and receives %s, rank 0 no more than others. The built-in\n"+
			"trainer's ranks do so over NCCL (RANK_EXCHANGE=nccl), which was seen among ranks of one GPU.\n", amount(p.Exchange, "B/s"))
	}
	fmt.Fprint(w, "\nLines marked \"prediction\" are to be confirmed by the first group that is closed on a GPU.\n\nassumption\tvalue\tkind\tsource\n")
	for _, a := range p.Assumptions {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", a.What, a.Value, a.Kind, a.Source)
	}
	return w.Flush()
}

// amount returns a number with three digits and an SI prefix.
func amount(v float64, unit string) string {
	prefixes := []string{"", "k", "M", "G", "T", "P"}
	i := 0
	for ; v >= 999.5 && i < len(prefixes)-1; i++ {
		v /= 1000
	}
	if text := fmt.Sprintf("%.3g %s%s", v, prefixes[i], unit); prefixes[i]+unit != "" {
		return text
	}
	return fmt.Sprintf("%.3g", v)
}
