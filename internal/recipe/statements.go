package recipe

import (
	"fmt"
	"slices"
	"strings"
)

// statements say in words what each variable of a recipe stands for in a paper, in the order of the table.
var statements = []struct{ variable, text string }{
	{"STRATEGY", "how mini-batches are formed"},
	{"GRIT_FEATURES", "features by which GRIT groups"},
	{"SEARCH_SPACE", "search space M of GRIT"},
	{"QUEUE_SIZE", "queue L of GRIT"},
	{"BATCH_SIZE", "pairs in a mini-batch"},
	{"STEP_BATCHES", "mini-batches (GPUs) of a step"},
	{"EPOCHS", "epochs"},
	{"GROUP_SIZE", "pairs among which neighbours and clusters are sought"},
	{"CLUSTERS", "clusters K of a group"},
	{"GNS_CLUSTERS", "clusters c of a mini-batch"},
	{"GNS_PER_CLUSTER", "pairs s of each of these"},
	{"NEIGHBORS_K", "neighbours k of V2T"},
	{"NEIGHBORS_K1", "neighbours of V2V"},
	{"NEIGHBORS_K2", "neighbours of T2V"},
	{"OBJECT_SHARE", "share p of neighbour texts that names an object"},
	{"NOUN_MIN_COUNT", "captions that a noun has at least one more than"},
	{"TEXTS", "which captions are revised to objects"},
	{"CANDIDATES", "candidates of a pair that Con-D scores"},
	{"ECM_HIGH", "probability above which a negative is a connection"},
	{"ECM_LOW", "probability below which it stays a negative"},
	{"ECM_ITC", "connections are positives of ITC"},
	{"ECM_ITM", "connections are positives of ITM"},
	{"ECM_MLM", "connections are further rows of MLM"},
	{"ECM_ELIMINATE", "connections are left out instead (ECM-E)"},
	{"ITC_WEIGHT", "weight of ITC"},
	{"ITC_TARGETS", "targets of ITC"},
	{"ITC_LAMBDA", "weight of the consistency term"},
	{"ITC_FORM", "form of the consistency term"},
	{"ITC_ALPHA", "share of the soft part of ITC's targets"},
	{"ITC_SOFT_FROM_EPOCH", "epoch from which targets are soft"},
	{"ITC_ALPHA_RAMP_STEPS", "steps over which that share rises"},
	{"ITC_TRIPLE", "contrast within a modality and with local features"},
	{"ITM_WEIGHT", "weight of ITM"},
	{"ITM_NEGATIVES", "negatives of ITM"},
	{"MLM_WEIGHT", "weight of MLM"},
	{"MLM_PROBABILITY", "share of words that are hidden"},
	{"MLM_DISTILL", "share of the momentum model's words in MLM"},
	{"UNI_WEIGHT", "weight of the uni-modal loss"},
	{"UNI_READING", "reading of the uni-modal loss"},
	{"MOMENTUM", "a momentum model"},
	{"MOMENTUM_DECAY", "share that it keeps in a step"},
	{"MOMENTUM_QUEUE", "earlier features that are keys"},
	{"DROPOUT", "dropout of the text encoder"},
	{"AUGMENT_MIN_SCALE", "smallest share of the area that a crop keeps"},
	{"AUGMENT_FLIP", "probability of mirroring"},
	{"AUGMENT_COLOR", "how much colours vary in every image"},
	{"AUGMENT_DISTORT", "colours, grey and blur now and then"},
	{"AUGMENT_OPS", "operations of RandAugment"},
	{"AUGMENT_LEVEL", "their level"},
	{"LR_SCHEDULE", "schedule of the learning rate"},
	{"LR", "highest learning rate"},
	{"LR_MIN", "last learning rate"},
	{"LR_WARMUP", "first learning rate"},
	{"LR_WARMUP_STEPS", "steps of warm-up"},
	{"LR_TOTAL_STEPS", "steps until the last learning rate"},
	{"WEIGHT_DECAY", "weight decay of AdamW"},
	{"ADAMW_BETA1", "first moment of AdamW"},
	{"ADAMW_BETA2", "second moment of AdamW"},
	{"ADAMW_EPS", "epsilon of AdamW"},
}

// PapersTable returns every value of every recipe as Markdown: what the paper states and where, the setting, its value, and
// whether it is the paper's. Recipes that agree share a row.
func PapersTable() (string, error) {
	type row struct {
		value Value
		names []string
	}
	rows := map[string][]row{}
	for _, name := range Names() {
		values, err := Of(name, nil)
		if err != nil {
			return "", err
		}
		for _, v := range values {
			all := rows[v.Variable]
			if i := slices.IndexFunc(all, func(r row) bool { return r.value == v }); i >= 0 {
				all[i].names = append(all[i].names, name)
			} else {
				rows[v.Variable] = append(all, row{v, []string{name}})
			}
		}
	}
	var b strings.Builder
	b.WriteString("| statement | section or equation | recipes | setting | value | as in the paper |\n|---|---|---|---|---|---|\n")
	for _, s := range statements {
		for _, r := range rows[s.variable] {
			names, same := strings.Join(r.names, ", "), "yes"
			if len(r.names) == len(Names()) {
				names = "all"
			}
			if r.value.Unlike != "" {
				same = r.value.Unlike
			}
			fmt.Fprintf(&b, "| %s | %s | %s | `%s` | `%s` | %s |\n", s.text, r.value.Place, names, s.variable, r.value.Value, same)
		}
		delete(rows, s.variable)
	}
	for variable := range rows {
		return "", fmt.Errorf("%s is in a recipe and has no statement: add one", variable)
	}
	return b.String(), nil
}
