package grouper

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/schemas"
)

// Source is where the features come from by which GRIT groups the epochs after the first. The first epoch is grouped by
// the encoder's vectors in any case, as in the paper's experiments (supplement 2.3).
type Source string

// The sources of features.
const (
	SourceTraining Source = "training" // the training model's in the epoch before, collected in training order
	SourceEncoder  Source = "encoder"  // the encoder's vectors in every epoch, collected in random order
	SourceCurrent  Source = "current"  // the training model's at the end of the epoch before, collected in random order

	// SourceUnshuffled is SourceTraining without GRIT's two shuffles, for the comparison in GRIT-VLP Table 4, row 5.
	SourceUnshuffled Source = "unshuffled"
)

// TextRule decides which captions are replaced by the objects of their image (GPN-S section 3.3.1).
type TextRule string

// The rules for texts.
const (
	TextCurriculum TextRule = "curriculum" // similarity <= alpha of the epoch, eq. (8)
	TextShare      TextRule = "share"      // the same share of the group, that of the lowest similarity, in every epoch
	TextAll        TextRule = "all"
	TextNone       TextRule = "none"
)

// Options are the settings of a [Lane]. The defaults are those of [Defaults].
type Options struct {
	Seed      uint64   `env:"-"`
	Strategy  Strategy `env:"STRATEGY" envDefault:"grit" desc:"how mini-batches are formed: random, grit (GRIT-VLP), gns (GPN-S), jest (JEST) or b3 (B3); jest:0.5 sets the filter ratio, the share of the pairs that an epoch after the first leaves out, 0.8 without; b3:70 sets p, the ranks of the nearest texts that are left out as likely false negatives, 30 without"`
	Epochs    int      `env:"EPOCHS" envDefault:"20" desc:"E: times that a group is trained on"`
	BatchSize int      `env:"BATCH_SIZE" envDefault:"96" desc:"N: pairs of a mini-batch"`

	Function string `envDefault:"" json:",omitempty"` // of own: module:function

	EpochOrder  EpochOrder `envDefault:"group"` // by lane where EpochGroups is more than 1
	EpochGroups int        `env:"EPOCH_GROUPS" envDefault:"1" desc:"W: groups of a lane that go through their epochs together, epoch by epoch; a seal ends them earlier; 1: all epochs of a group, then the next group"`

	QueueSize       int    `env:"QUEUE_SIZE" envDefault:"48000" desc:"L of grit: pairs collected before they are grouped; 0: the whole group"`
	SearchSpace     int    `env:"SEARCH_SPACE" envDefault:"4800" desc:"M of grit: pairs of a walk; 0: the whole queue. Of b3: pairs among which ranks are counted"`
	StartAsReleased bool   `envDefault:"false"` // never start a walk at the last pair, as GRIT-VLP's released code
	SameImage       bool   `env:"SAME_IMAGE_NEGATIVES" envDefault:"false" desc:"captions of one image are negatives of each other, as in the papers and their code: they may come into one mini-batch, and batches name no partners, so that ITC, ITM and Con-D take them for strangers"`
	Features        Source `env:"GRIT_FEATURES" envDefault:"training" desc:"features that group the epochs after the first: training, made by the steps of the epoch before; current, made anew after it with the weights at its end (GRIT-VLP Remark 2), for one more forward pass; encoder; or unshuffled, as training without the shuffles of grit (GRIT-VLP Table 4, row 5)"`

	Clusters   int `env:"GNS_CLUSTERS" envDefault:"8" desc:"c of gns: clusters that a mini-batch draws from"`
	PerCluster int `env:"GNS_PER_CLUSTER" envDefault:"3" desc:"s of gns: pairs drawn from each of them"`

	Filter float64 `envDefault:"0" json:",omitempty"` // f of jest: the share of a super-batch that is left out; 0: 0.8
	Skip   int     `envDefault:"0" json:",omitempty"` // p of b3: the ranks that are left out; 0: 30

	Candidates int      `env:"CANDIDATES" envDefault:"2" desc:"m: hardest candidates of each pair and direction that Con-D scores; 0: none, and no Con-D is loaded"`
	Texts      TextRule `env:"TEXTS" envDefault:"none" desc:"captions replaced by obj(v): curriculum (GPN-S eq. 8), share:0.3 (that share of the group), all or none. A curriculum ends with the first group; curriculum:30 counts 30 epochs, at least 4, through the groups of a lane"`
	TextShare  float64  `envDefault:"0"` // of the captions, with [TextShare]

	CurriculumEpochs int `envDefault:"0"` // epochs after which a curriculum is over, counted through the groups of a lane; 0: Epochs

	Workers int `envDefault:"1"` // goroutines for similarities; changes no mini-batch
}

// Defaults returns the papers' settings: N = 96 and L = 48,000 of GRIT-VLP, M = 4,800 and m = 2 of MAFA, and c * s =
// N/4 with s = 3 of GPN-S. The number of epochs is MAFA's 20. Captions stay as they are, as in GRIT-VLP and MAFA.
func Defaults() Options {
	return Options{
		Strategy: StrategyGRIT, Epochs: 20, BatchSize: 96, EpochOrder: OrderGroup, EpochGroups: 1,
		QueueSize: 48_000, SearchSpace: 4_800, Features: SourceTraining,
		Clusters: 8, PerCluster: 3,
		Candidates: 2, Texts: TextNone, Workers: 1,
	}
}

// Normal returns the options as marks hold them: numbers stand beside their words.
func (o Options) Normal() Options {
	if o.EpochGroups > 1 {
		o.EpochOrder = OrderLane
	}
	if word, function, ok := strings.Cut(string(o.Strategy), ":"); ok && Strategy(word) == StrategyOwn {
		o.Strategy, o.Function = StrategyOwn, function
	}
	if word, number, ok := invalid.Numbered(o.Strategy, StrategyJEST); ok && number != 0 {
		o.Strategy, o.Filter = word, number
	}
	if word, number, ok := invalid.Numbered(o.Strategy, StrategyB3); ok && number != 0 && number == math.Trunc(number) {
		o.Strategy, o.Skip = word, int(number)
	}
	if word, number, ok := invalid.Numbered(o.Texts, TextShare); ok {
		o.Texts, o.TextShare = word, number
	}
	if word, number, ok := invalid.Numbered(o.Texts, TextCurriculum); ok && number == math.Trunc(number) {
		o.Texts, o.CurriculumEpochs = word, int(number)
	}
	return o
}

// Validate reports every setting that cannot be used, all at once. It passes over settings of other strategies than the
// chosen one.
func (o Options) Validate() error {
	const batchSize = invalid.Field("BatchSize")
	o = o.Normal()
	var l invalid.List
	chosen := strategies[o.Strategy]
	l.Want(chosen != nil, "%s is %q, want random, grit, gns, jest, jest:F with a filter ratio above 0 and below 1, b3 or b3:P with 1 or more ranks", invalid.Field("Strategy"), o.Strategy)
	invalid.AtLeast(&l, "Epochs", o.Epochs, 1)
	l.Want(o.BatchSize >= 1 && o.BatchSize <= schemas.MaxBatch, "%s (N) is %d, want 1..%d", batchSize, o.BatchSize, schemas.MaxBatch)
	l.Want(o.Candidates >= 0 && o.Candidates < max(o.BatchSize, 1),
		"%s (m) is %d, want 0..%d, one less than %s", invalid.Field("Candidates"), o.Candidates, max(o.BatchSize, 1)-1, batchSize)
	l.Want(slices.Contains([]TextRule{TextCurriculum, TextShare, TextAll, TextNone}, o.Texts),
		"%s is %q, want curriculum, curriculum:N, share:N, all or none", invalid.Field("Texts"), o.Texts)
	if o.Texts == TextShare {
		l.Want(o.TextShare >= 0 && o.TextShare <= 1, "%s is share:%g, want a share of 0..1", invalid.Field("Texts"), o.TextShare)
	}
	l.Want(slices.Contains([]EpochOrder{OrderGroup, OrderLane, ""}, o.EpochOrder), "%s is %q, want group or lane", invalid.Field("EpochOrder"), o.EpochOrder)
	least := 0 // as 1, in marks of earlier groupers
	if o.EpochOrder == OrderLane {
		least = 1
	}
	invalid.AtLeast(&l, "EpochGroups", o.EpochGroups, least)
	o.validateCurriculum(&l)
	invalid.AtLeast(&l, "Workers", o.Workers, 1)
	if chosen != nil {
		chosen.validate(o, &l)
	}
	return l.Err()
}

// validateCurriculum refuses a curriculum that is over before it has taught anything: it replaces captions in the first
// half of its epochs, and all of them in the first.
func (o Options) validateCurriculum(l *invalid.List) {
	const texts = invalid.Field("Texts")
	l.Want(o.CurriculumEpochs >= 0, "%s is %s:%d, want at least %d epochs", texts, TextCurriculum, o.CurriculumEpochs, leastCurriculum)
	if o.Texts == TextCurriculum && o.Epochs >= 1 {
		l.Want(o.curriculumEpochs() >= leastCurriculum,
			"%s is %s over %d epochs, want at least %d: take %s=%[2]s:%[4]d or more, which counts the epochs of all groups of a lane, or %[5]s=%[6]s",
			texts, TextCurriculum, o.curriculumEpochs(), leastCurriculum, texts, TextNone)
	}
}

// leastCurriculum is the shortest curriculum, in epochs: it replaces all captions, then about half of them, then none.
const leastCurriculum = 4

// curriculumEpochs returns E of the curriculum.
func (o Options) curriculumEpochs() int { return cmp.Or(o.CurriculumEpochs, o.Epochs) }

// LargestRecord returns how many bytes the largest batch can have when Con-D has scored it: captions and addresses as
// long as they may be, and one image for all samples.
func (o Options) LargestRecord() int64 {
	const (
		record    = 1 << 10 // fixed overhead
		sample    = schemas.MaxCaptionBytes + 2*schemas.MaxURIBytes + 512
		candidate = 2 * (4 + 4) // both directions, with its probability
		partner   = 4
	)
	n, m := int64(o.BatchSize), int64(o.Candidates)
	return record + n*(sample+m*candidate+(n-1)*partner)
}
