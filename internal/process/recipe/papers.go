package recipe

import (
	"fmt"
	"slices"
	"strings"
)

// sizes are the default sizes of an epoch.
var sizes = map[string]string{"LANES": "4", "GROUP_SIZE": "5000000", "BATCH_SIZE": "96", "STEP_BATCHES": "1"}

// layers are the lists that make up each recipe; a later list overrides an earlier one.
var layers = map[string][][]Value{
	"albef":        {backbone, albef},
	"tcl":          {backbone, albef, tcl},
	"grit-vlp":     {backbone, gritVLP},
	"mafa":         {backbone, gritVLP, mafa},
	"mafa-printed": {backbone, gritVLP, mafa, mafaPrinted},
	"gpn-s":        {backbone, albef, gpns},
	"gpn-s-tcl":    {backbone, albef, tcl, gpns, gpnsTCL},
}

// lastBatch is the note on the last, incomplete mini-batch.
const lastBatch = "the last mini-batch of a group's epoch may be short, and then weighs as much in its step as a full one; the authors' loaders drop it"

// backbone is common to all of the papers: "for all other hyper-parameter settings, we follow ALBEF".
var backbone = []Value{
	{Variable: "ITC_WEIGHT", Value: "1", Place: "GRIT-VLP eq. 7"},
	{Variable: "ITM_WEIGHT", Value: "1", Place: "GRIT-VLP eq. 7"},
	{Variable: "MLM_WEIGHT", Value: "1", Place: "GRIT-VLP eq. 7"},
	{Variable: "UNI_WEIGHT", Value: "0", Place: "no uni-modal loss but in GPN-S"},
	{Variable: "DROPOUT", Value: "0.1", Place: "ALBEF, configuration of BERT"},
	{Variable: "WEIGHT_DECAY", Value: "0.02", Place: "ALBEF 3.5"},
	{Variable: "ADAMW", Value: "0.9,0.999,1e-8", Place: "ALBEF, released code"},
	{Variable: "LR_SCHEDULE", Value: "cosine", Place: "ALBEF 3.5", Unlike: "the rate changes with every step; the released code's (LR_SCHEDULE=reference) with every epoch, and within the warm-up every 100 steps"},
	{Variable: "LR", Value: "1e-4", Place: "ALBEF 3.5"},
	{Variable: "LR_MIN", Value: "1e-5", Place: "ALBEF 3.5"},
	{Variable: "LR_WARMUP", Value: "1e-5", Place: "ALBEF, released configuration"},
	{Variable: "LR_WARMUP_STEPS", Value: "2000", Place: "GRIT-VLP and TCL, released configurations: 20 updates of 100 steps"},
	{Variable: "LR_TOTAL_STEPS", epochs: 30, Place: "ALBEF 3.5", Unlike: "a stream has no epochs: steps are counted from the sizes of lanes and groups"},
	{Variable: "AUGMENT_MIN_SCALE", Value: "0.2", Place: "ALBEF 3.5, released code", Unlike: "a crop of more than three times the model's size is first reduced by whole numbers, which saves time"},
	{Variable: "AUGMENT_FLIP", Value: "0.5", Place: "ALBEF, released code"},
	{Variable: "AUGMENT_COLOR", Value: "0", Place: "ALBEF 3.5: no change of colours"},
	{Variable: "AUGMENT_DISTORT", Value: "false", Place: "ALBEF 3.5: no change of colours"},
	{Variable: "AUGMENT_OPS", Value: "2,7", Place: "ALBEF 3.5: RandAugment(2, 7)"},
	{Variable: "ECM_LOSSES", Value: "none", Place: "no connections but in MAFA"},
	{Variable: "CANDIDATES", Value: "0", Place: "no Con-D but in MAFA: the whole mini-batch is searched"},
	{Variable: "TEXTS", Value: "none", Place: "no revised texts but in GPN-S"},
	{Variable: "MOMENTUM_DECAY", Value: "0", Place: "GRIT-VLP 2.1, note 4"},
	{Variable: "MOMENTUM_QUEUE", Value: "0", Place: "GRIT-VLP 2.1, note 4"},
	{Variable: "MLM_DISTILL", Value: "0", Place: "GRIT-VLP 2.1, note 4"},
	{Variable: "ITC_LOSS", Value: "softmax", Place: "TCL alone contrasts within a modality and with local features"},
	{Variable: "SAME_IMAGE_NEGATIVES", Value: "false", Place: "no paper tells captions of one image apart from others", Unlike: "captions of one image stay out of each other's mini-batches where that is possible; elsewhere they share the targets of ITC, and are no negatives of ITM and no candidates of Con-D"},
}

// albef adds the momentum model and its distillation.
var albef = []Value{
	{Variable: "STRATEGY", Value: "random", Place: "ALBEF 3.5"},
	{Variable: "EPOCHS", Value: "30", Place: "ALBEF 3.5"},
	{Variable: "BATCH_SIZE", Value: "64", Place: "ALBEF 3.5: 512 on 8 GPUs, contrasted and mined on each"},
	{Variable: "STEP_BATCHES", Value: "8", Place: "ALBEF 3.5: 512 on 8 GPUs", Unlike: lastBatch},
	{Variable: "ITC_TARGETS", Value: "distilled", Place: "ALBEF 3.3"},
	{Variable: "ITC_ALPHA", Value: "0.4", Place: "ALBEF 3.5"},
	{Variable: "ITC_ALPHA_RAMP_STEPS", epochs: 1, Place: "ALBEF 3.5", Unlike: "a stream has no epochs: steps are counted from the sizes of lanes and groups"},
	{Variable: "MOMENTUM_DECAY", Value: "0.995", Place: "ALBEF 3.2, 3.5"},
	{Variable: "MOMENTUM_QUEUE", Value: "65536", Place: "ALBEF 3.5", Unlike: "the queue begins empty, not with random features, and fills up; entries of the anchor's own image share its target"},
	{Variable: "MLM_DISTILL", Value: "0.4", Place: "ALBEF 3.3"},
	{Variable: "MLM_PROBABILITY", Value: "0.15", Place: "ALBEF 3.2; GRIT-VLP 2.1 (c)"},
	{Variable: "ITM_NEGATIVES", Value: "multinomial", Place: "ALBEF 3.2; GRIT-VLP 2.1 (b)"},
	{Variable: "LR_WARMUP_STEPS", Value: "1000", Place: "ALBEF 3.5"},
}

// tcl adds the losses within a modality and with local features.
var tcl = []Value{
	{Variable: "ITC_LOSS", Value: "triple", Place: "TCL 3.2 to 3.4"},
	{Variable: "LR_WARMUP_STEPS", Value: "2000", Place: "TCL 4.2"},
	{Variable: "AUGMENT_DISTORT", Value: "true", Place: "TCL, released code: create_dataset"},
}

// gritVLP has grouped mini-batches, consistency and more masks, and no momentum model.
var gritVLP = []Value{
	{Variable: "STRATEGY", Value: "grit", Place: "GRIT-VLP 4.1", Unlike: "a lane collects its own queues, and shuffles the mini-batches of a group, where each GPU of the released code has a part of the whole data; the rest of a queue is grouped too"},
	{Variable: "GRIT_FEATURES", Value: "training", Place: "GRIT-VLP 4.1, phase 1; Table 4 has current (row 4) and unshuffled (row 5)"},
	{Variable: "EPOCHS", Value: "20", Place: "GRIT-VLP 5.1; MAFA 5.1"},
	{Variable: "BATCH_SIZE", Value: "96", Place: "GRIT-VLP 5.1; MAFA 5.1", Unlike: "the papers'; the released code of GRIT-VLP has 128"},
	{Variable: "STEP_BATCHES", Value: "4", Place: "GRIT-VLP 5.1 and MAFA 5.1, released code: 4 GPUs, each with a mini-batch", Unlike: lastBatch},
	{Variable: "SEARCH_SPACE", Value: "960", Place: "GRIT-VLP 5.1", Unlike: "the paper's; the released code has 1920 with mini-batches of 128"},
	{Variable: "QUEUE_SIZE", Value: "48000", Place: "GRIT-VLP 5.1"},
	{Variable: "ITC_TARGETS", Value: "consistency", Place: "GRIT-VLP 4.2, eq. 6"},
	{Variable: "ITC_LAMBDA", Value: "0.2", Place: "GRIT-VLP 4.2"},
	{Variable: "ITC_FORM", Value: "additive", Place: "GRIT-VLP eq. 6, released code"},
	{Variable: "MLM_PROBABILITY", Value: "0.5", Place: "GRIT-VLP 4.2"},
	{Variable: "ITM_NEGATIVES", Value: "hardest", Place: "GRIT-VLP, released code; MAFA Algorithm 1, line 9", Unlike: "GRIT-VLP 2.1 (b) draws it; the released code takes the hardest, as here"},
}

// mafa adds smoothed targets and the connections that Con-D finds.
var mafa = []Value{
	{Variable: "SEARCH_SPACE", Value: "4800", Place: "MAFA 5.1"},
	{Variable: "ITC_TARGETS", Value: "smoothed", Place: "MAFA 4.2, eq. 5"},
	{Variable: "ITC_ALPHA", Value: "0.5", Place: "MAFA 4.2"},
	{Variable: "ITC_SOFT_FROM_EPOCH", Value: "0", Place: "MAFA 4.2, eq. 5: the encoder groups epoch 0, which the released code leaves at random", Unlike: "the paper's; the released code begins with the second epoch, since its first is at random"},
	{Variable: "ECM_LOSSES", Value: "itc,itm,mlm", Place: "MAFA 4.1, Table 14"},
	{Variable: "ECM_ELIMINATE", Value: "false", Place: "MAFA 4.1; Table 5 has ECM-E"},
	{Variable: "ECM_HIGH", Value: "0.8", Place: "MAFA 4.1", Unlike: "a probability of exactly 0.8 is ambiguous here"},
	{Variable: "ECM_LOW", Value: "0.5", Place: "MAFA 4.1", Unlike: "a probability of exactly 0.5 is ambiguous here"},
	{Variable: "CANDIDATES", Value: "2", Place: "MAFA 4.1: the hardest, and the second for an ambiguous one", Unlike: "Con-D scores them before the step; mafa-printed has BATCH_SIZE - 1, among which are exactly the hardest of the step"},
	{Variable: "COND_IMAGES", Value: "plain", Place: "MAFA Algorithm 1: the augmented images of the step", Unlike: "a pair keeps its score from epoch to epoch; mafa-printed has augmented ones"},
	{Variable: "COND_MIN_PRECISION", Value: "0.4", Place: "MAFA has no guard", Unlike: "connections are off where too few are true; mafa-printed has no guard"},
}

// mafaPrinted removes mafa's speed-ups and safeguards.
var mafaPrinted = []Value{
	{Variable: "CANDIDATES", Value: "95", ofBatch: true, Place: "MAFA 4.1: the hardest of the step, and the second for an ambiguous one; all others of the mini-batch are scored"},
	{Variable: "COND_IMAGES", Value: "augmented", Place: "MAFA Algorithm 1: the augmented images of the step"},
	{Variable: "COND_MIN_PRECISION", Value: "0", Place: "MAFA has no guard"},
	{Variable: "SAME_IMAGE_NEGATIVES", Value: "true", Place: "MAFA Algorithm 1: every other pair of the mini-batch is a negative"},
}

// gpns adds global positives and negatives to its backbone.
var gpns = []Value{
	{Variable: "STRATEGY", Value: "gns", Place: "GPN-S 3.4", Unlike: "every pair comes once an epoch, where draws of the paper may repeat"},
	{Variable: "GROUP_SIZE", Value: "5000000", Place: "GPN-S 3.5", Unlike: "a group is the next pairs of a lane, not a random part of a finished set"},
	{Variable: "BATCH_SIZE", Value: "512", Place: "GPN-S 4.1", ofStep: true, Unlike: "contrast and mining see all 512, where each of 8 GPUs may have seen 64; STEP_BATCHES=8 divides it"},
	{Variable: "STEP_BATCHES", Value: "1", Place: "GPN-S 4.1: 512 in all", Unlike: lastBatch},
	{Variable: "CLUSTERS", Value: "1000", Place: "GPN-S 4.1"},
	{Variable: "GNS_CLUSTERS", Value: "40", Place: "GPN-S 4.1", ofStep: true},
	{Variable: "GNS_PER_CLUSTER", Value: "3", Place: "GPN-S 4.1"},
	{Variable: "NEIGHBORS_K", Value: "10", Place: "GPN-S 4.1"},
	{Variable: "NEIGHBORS_K1", Value: "5", Place: "GPN-S 4.1", Unlike: "the image itself is no neighbour of its own, and nor are its other captions"},
	{Variable: "NEIGHBORS_K2", Value: "500", Place: "GPN-S 4.1"},
	{Variable: "OBJECT_SHARE", Value: "0.3", Place: "GPN-S 4.1, eq. 7", Unlike: "a text counts for a noun that is tagged as one there; eq. 7 as printed also counts it where the same word is another part of speech. Of images with more than 64 nouns the most frequent stay, and of fewer than k texts it is a share"},
	{Variable: "NOUN_MIN_COUNT", Value: "10", Place: "GPN-S 3.3.1", Unlike: "the paper's; nouns come from another tagger than spaCy"},
	{Variable: "TEXTS", Value: "curriculum", Place: "GPN-S 3.3.1, eq. 8"},
	{Variable: "UNI_WEIGHT", Value: "1", Place: "GPN-S 3.3.2, eq. 11"},
	{Variable: "UNI_READING", Value: "infonce", Place: "GPN-S eq. 10", Unlike: "eq. 10 as printed leaves the positive out of its sum, and has the anchor in it"},
}

// gpnsTCL trains TCL longer.
var gpnsTCL = []Value{
	{Variable: "EPOCHS", Value: "50", Place: "GPN-S 4.1: 50 epochs for TCL, rather than 30"},
	{Variable: "LR_TOTAL_STEPS", epochs: 50, Place: "GPN-S 4.1: 50 epochs for TCL, rather than 30", Unlike: "a stream has no epochs: steps are counted from the sizes of lanes and groups"},
}

// statements give the meaning of each recipe variable in the papers, in the order of the table.
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
	{"SAME_IMAGE_NEGATIVES", "captions of one image are negatives of each other"},
	{"CANDIDATES", "candidates of a pair that Con-D scores"},
	{"COND_IMAGES", "images that Con-D looks at"},
	{"COND_MIN_PRECISION", "share of connections that must be true for certain"},
	{"ECM_HIGH", "probability above which a negative is a connection"},
	{"ECM_LOW", "probability below which it stays a negative"},
	{"ECM_LOSSES", "losses that learn from connections"},
	{"ECM_ELIMINATE", "connections are left out instead (ECM-E)"},
	{"ITC_WEIGHT", "weight of ITC"},
	{"ITC_TARGETS", "targets of ITC"},
	{"ITC_LAMBDA", "weight of the consistency term"},
	{"ITC_FORM", "form of the consistency term"},
	{"ITC_ALPHA", "share of the soft part of ITC's targets"},
	{"ITC_SOFT_FROM_EPOCH", "epoch from which targets are soft"},
	{"ITC_ALPHA_RAMP_STEPS", "steps over which that share rises"},
	{"ITC_LOSS", "contrastive loss"},
	{"ITM_WEIGHT", "weight of ITM"},
	{"ITM_NEGATIVES", "negatives of ITM"},
	{"MLM_WEIGHT", "weight of MLM"},
	{"MLM_PROBABILITY", "share of words that are hidden"},
	{"MLM_DISTILL", "share of the momentum model's words in MLM"},
	{"UNI_WEIGHT", "weight of the uni-modal loss"},
	{"UNI_READING", "reading of the uni-modal loss"},
	{"MOMENTUM_DECAY", "share that a momentum model keeps in a step"},
	{"MOMENTUM_QUEUE", "earlier features that are keys"},
	{"DROPOUT", "dropout of the text encoder"},
	{"AUGMENT_MIN_SCALE", "smallest share of the area that a crop keeps"},
	{"AUGMENT_FLIP", "probability of mirroring"},
	{"AUGMENT_COLOR", "how much colours vary in every image"},
	{"AUGMENT_DISTORT", "colours, grey and blur now and then"},
	{"AUGMENT_OPS", "operations of RandAugment, and their strength"},
	{"LR_SCHEDULE", "schedule of the learning rate"},
	{"LR", "highest learning rate"},
	{"LR_MIN", "last learning rate"},
	{"LR_WARMUP", "first learning rate"},
	{"LR_WARMUP_STEPS", "steps of warm-up"},
	{"LR_TOTAL_STEPS", "steps until the last learning rate"},
	{"WEIGHT_DECAY", "weight decay of AdamW"},
	{"ADAMW", "moments and epsilon of AdamW"},
}

// PapersTable returns every value of every recipe as Markdown: the paper's statement and its section, the setting, its
// value, and whether it is the paper's. Recipes that agree share a row.
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
