package capacity

import (
	"fmt"
	"strconv"

	"github.com/pairstream/pairstream/schemas"
)

// Kinds of sources.
const (
	Measured   = "measured"   // by this project, with the named command
	Counted    = "counted"    // from shapes of models or of records
	Vendor     = "vendor"     // from a data sheet
	Prediction = "prediction" // not measured; the first run on a GPU confirms or refutes it
	Chosen     = "chosen"     // a decision; other clusters may need another
)

// Assumption is a figure of a plan, with its source.
type Assumption struct {
	What, Value, Kind, Source string
}

// Figures of processors, of an AMD EPYC (Zen 5).
const (
	closeSeconds = 19.24 // core-seconds to close a group of closePairs, with vectors of growthDim values
	closePairs   = 100_000
	walkSeconds  = 0.0516 // core-seconds of a walk over walkPairs, with vectors of growthDim values
	walkPairs    = 6_000
	growthDim    = 256
	decodeTime   = 0.571e-3 // core-seconds to decode and resize an image
	recordTime   = 13.6e-6  // core-seconds of a pair in the log, through all stages
)

// Shares of the figures in a GPU's data sheet. The first three are measured on an H100, the others are predicted.
const (
	encodeShare    = 0.22
	scoreShare     = 0.13
	trainShare     = 0.13
	productShare   = 0.32 // of large matrix products, in the indexer
	bandwidthShare = 0.80
	tilePairs      = 1 << 30 // pairs of a tile of scores: 16,384 x 65,536
	tileSeconds    = 50 * 8e-6
	scoreBytes     = 10 // moved for each two members of a group
)

// topicBytes holds the bytes of a pair in a topic, and the bytes for each dimension of its vectors v and t together.
var topicBytes = map[schemas.Topic]struct{ fixed, value float64 }{
	schemas.Pairs:      {400, 0},
	schemas.Embeddings: {275, 4},
	schemas.Neighbors:  {100, 0},
	schemas.Batches:    {342, 0}, // with a positive in every sample
	schemas.Scored:     {355, 0},
	schemas.Features:   {5, 4},
}

// measuredPreset is the preset for which the shares were measured.
const measuredPreset = "base"

// Choices.
const (
	startShare   = 0.10 // of the days before training begins
	replication  = 3
	brokerBytes  = 8e12
	brokerWrites = 200e6
	leastBrokers = 3
	keptEpochs   = 2 // of batches and features; of scored one
)

const (
	day        = 86_400.0
	hour       = 3_600.0
	floatBytes = 4
	mostLanes  = 10_000 // LANES
)

// assumptions lists the assumptions of the plan of a request.
func assumptions(r Request) []Assumption {
	out := []Assumption{
		{"operations of a pair in the encoder", fmt.Sprintf("%.3g", r.Model.Encode), Counted, "shapes of preset " + r.Model.Name},
		{"operations of Con-D, per pair and epoch", fmt.Sprintf("%.3g", r.Model.Score), Counted, "the same; an upper bound, with every image encoded in every epoch"},
		{"operations of a training step, per pair", fmt.Sprintf("%.3g", r.Model.Train), Counted, "the same; without a momentum encoder"},
		{"a GPU's products in bfloat16", fmt.Sprintf("%.3g/s", r.GPU.Operations), Vendor, "data sheet of " + r.GPU.Name + ", dense"},
		{"a GPU's memory", fmt.Sprintf("%.3g GB, %.3g TB/s", r.GPU.Memory/1e9, r.GPU.Bandwidth/1e12), Vendor, "data sheet of " + r.GPU.Name},
		{"share of it in the encoder", percent(encodeShare), Measured, "make bench-gpu, 6,138 images/s of a ViT-B/16 on an H100"},
		{"share of it in Con-D", percent(scoreShare), Measured, "make bench-gpu, 2,311 pairs/s on an H100"},
		{"share of it in the indexer's products", percent(productShare), Prediction, "docs/scaling.md, a group of five million pairs"},
	}
	if r.Model.Name != measuredPreset {
		out = append(out, Assumption{"the same of smaller presets", "less", Measured, "two cores do half of base's operations a second for small, and a third for tiny (docs/scaling.md): give --train-rate"})
	}
	if r.TrainRate > 0 {
		out = append(out, Assumption{"training on a GPU", fmt.Sprintf("%.4g pairs/s", r.TrainRate), Measured, "--train-rate"})
	} else {
		out = append(out, Assumption{"share of it in training", percent(trainShare), Measured, "make bench-gpu, 756 pairs/s on an H100; --train-rate takes another"})
	}
	return append(out,
		Assumption{"share of a GPU's bandwidth in the indexer", percent(bandwidthShare), Prediction, "10 bytes for each two members; docs/scaling.md, a group of five million pairs"},
		Assumption{"closing a group of 100,000 on processors", fmt.Sprintf("%.4g core-seconds, quadratic", closeSeconds), Measured, "make bench ARGS=--only=growth-group"},
		Assumption{"a walk over 6,000 pairs", fmt.Sprintf("%.3g core-seconds, quadratic", walkSeconds), Measured, "make bench ARGS=--only=growth-walk"},
		Assumption{"decoding and resizing an image", fmt.Sprintf("%.4g core-ms", decodeTime*1e3), Measured, "make bench ARGS=--only=decode-224: JPEGs of 33 KB"},
		Assumption{"a pair's way through the log", fmt.Sprintf("%.3g core-µs", recordTime*1e6), Measured, "make bench ARGS=--only=plumbing: all stages, with the embedded broker"},
		Assumption{"bytes of a pair in the log, once", fmt.Sprintf("%.0f", Once(r.Model.Dim)), Measured, "make simulate, bytes; 500 of them, pairs and neighbours, counted"},
		Assumption{"bytes of a pair in the log, every epoch", fmt.Sprintf("%.0f", EveryEpoch(r.Model.Dim)), Measured, "make simulate, bytes; a positive in every sample"},
		Assumption{"an image in the bucket", fmt.Sprintf("%.3g KB", r.Image/1e3), Chosen, "--image; the default is docs/scaling.md's mean"},
		Assumption{"until training begins", percent(startShare) + " of the days", Chosen, "half fills the first groups, half closes them"},
		Assumption{"copies of a record", strconv.Itoa(replication), Chosen, "replication of Kafka's topics"},
		Assumption{"a broker", fmt.Sprintf("%.0f TB, %.0f MB/s of writes", brokerBytes/1e12, brokerWrites/1e6), Chosen, "at least three"},
	)
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
