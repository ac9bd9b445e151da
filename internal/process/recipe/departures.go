package recipe

import (
	"fmt"
	"strings"
)

// Departure is a place where a paper, its authors' code and pairstream do not all do the same.
type Departure struct {
	Place   string
	Recipes []string // that it concerns; none: all
	Paper   string
	Code    string // the authors'
	Here    string // as Markdown of docs/papers.md
}

// The recipes of a departure.
var (
	grouped    = []string{"grit-vlp", "mafa", "mafa-printed"}
	connected  = []string{"mafa", "mafa-printed"}
	distilling = []string{"albef", "tcl", "gpn-s", "gpn-s-tcl"}
	global     = []string{"gpn-s", "gpn-s-tcl"}
	apart      = []string{"albef", "tcl", "grit-vlp", "mafa", "gpn-s", "gpn-s-tcl"}
)

// departures lists the departures that no single value of a recipe shows. [Value.Unlike] has those of a value.
var departures = []Departure{
	{"GRIT-VLP eq. 6", grouped, "Kullback-Leibler divergence", "cross-entropy with the pseudo-target", "the code, whose value is higher by the entropy of the pseudo-target. The gradient is the same"},
	{"GRIT-VLP eqs. 1-2", nil, "no stop-gradient", "the key side of both similarity matrices is constant", "the code, [`trainer.similarities`](../trainer/itc.go)"},
	{"GRIT-VLP 2.1 (b)", grouped, "a negative is drawn with the softmax's probability", "the hardest one in pre-training, drawn in fine-tuning for retrieval", "the code; `pairstream finetune` draws as well, and so does training with `ITM_NEGATIVES`=multinomial"},
	{"GRIT-VLP Algorithm 2", grouped, "does not exclude the current pair before the argmax", "diagonals are zeroed first", "eq. 5 and the code: visited pairs are masked"},
	{"GRIT-VLP eq. 5 and 2.1 (b), captions of one image", apart, "may follow each other in a walk, and be each other's negatives", "the same", "kept apart, since they are known positives: in mini-batches, in the targets of ITC, in ITM and among the candidates of Con-D; `SAME_IMAGE_NEGATIVES` (`false`) for the papers"},
	{"GRIT-VLP Algorithm 2", grouped, "a walk begins anywhere", "never at the last pair", "the paper"},
	{"GRIT-VLP Algorithm 2", grouped, "scores without temperature", "with it; softmax underflows at 0.001 and visits pairs twice", "raw similarities, which have the same order and never underflow"},
	{"GRIT-VLP Algorithm 1", grouped, "a queue is grouped when full", "the rest is grouped too; fails when it is a multiple of M", "the rest is grouped too, whatever its size; no pair is left out"},
	{"GRIT-VLP, indices", grouped, "", "float32, exact to 16,777,216", "integers"},
	{"GRIT-VLP phase 4", grouped, "the whole array is shuffled", "each GPU's own list", "each group's, whole"},
	{"GRIT-VLP supplement 2.3", grouped, "the first epoch is grouped", "random unless asked for", "the paper: by the encoder's vectors; `STRATEGY`=random for none"},
	{"GRIT-VLP, learning rate", nil, `"as ALBEF"`, "a cosine of 30 epochs of which 20 are trained; warm-up in 20 updates within epoch 0", "steps, as a stream has no epochs; `LR_SCHEDULE`=reference is the code's table, and stream decays when the crawl is sealed"},
	{"GRIT-VLP, weight decay", nil, "not stated", "spares one-dimensional tensors and biases alone", "the code, [`trainer.decays`](../trainer/schedule.go)"},
	{"GRIT-VLP, MLM", nil, "50 % are masked", "[SEP] can be, [CLS] and padding cannot; of these 80 % [MASK], 10 % any id, 10 % kept", "the code, [`trainer.Vocabulary.MaskTokens`](../trainer/mlm.go)"},
	{"GRIT-VLP eq. 3", nil, "an expectation over pairs", "the mean over 3N pairs", "the code"},
	{"GRIT-VLP 5.1", grouped, "N = 96, M = 960", "N = 128, M = 1920", "N = 96, and MAFA's M = 4800"},
	{"MAFA eqs. 5-6", connected, "smoothed throughout, any α", "from the second epoch on, α = 0.5: its first is at random", "the paper, since the encoder groups the first epoch; `ITC_SOFT_FROM_EPOCH`=1 for the code"},
	{"MAFA appendix E", connected, "class (1,0) is a match", "class 1 is a match", "the code"},
	{"MAFA, thresholds", connected, "Algorithm 1 keeps a pair on a threshold as a negative", "drops it", "neither: exactly 0.5 and exactly 0.8 are ambiguous, so that the second-hardest takes their place"},
	{"MAFA 4.1, re-sampling", connected, `"more certain"`, "the second-hardest, never shown to Con-D", "the code and Algorithm 1"},
	{"MAFA eq. 4", connected, "a mean over pairs", "one mean over all masked words, new pairs masked anew", "the code"},
	{"MAFA 4.2, consistency", grouped, "a convex mix, and an index that takes a column for a row", "adds λ times the term", "the code; `ITC_FORM`=mix and literal"},
	{"MAFA appendix D", connected, `"Top B+1 to Q" and "B+1 to B+Q"`, "", "B+1 to B+Q"},
	{"MAFA, connections", connected, "not mirrored into the other direction's targets", "nor there", "not mirrored"},
	{"MAFA, Con-D", connected, "trained inside Algorithm 1", "loaded; sees the same augmented images; no `bert.` in its names", "loaded; the same images; both names are read"},
	{"MAFA, resuming", connected, "", "a resumed run has random mini-batches from then on", "a resumed run has the mini-batches of an undisturbed one"},
	{"ALBEF, distillation", distilling, "which keys MDNQ has is not stated", "the momentum model's", "the momentum model's, of the batch and then of the queue"},
	{"ALBEF, queue", distilling, "", "begins with random vectors", "begins empty and fills up"},
	{"GPN-S eq. 9", global, "does V2V hold the image itself?", "none", "it does not, nor its other captions; T2V and V2T are as printed"},
	{"GPN-S eq. 10", global, "the sum holds the anchor and not the positive", "none", "`UNI_READING`: infonce (the positive and the other images), printed, with_pos"},
	{"GPN-S eq. 8", global, "none is replaced at E/2", "none", "as the formula: at E/2 the pair of the smallest similarity still is"},
	{"GPN-S eq. 7", global, `a strict ">"`, "none", "strict: 4 of 10 neighbours at p = 0.3"},
	{"GPN-S eq. 7", global, "the noun appears in a text", "none", "it is tagged as a noun there: a light car shows no light; [`nouns.Tagger.Nouns`](../internal/content/nouns/nouns.go)"},
	{"all, the last mini-batch", nil, "", "dropped", "trained on; it weighs as much in its step as a full one"},
	{"GPN-S, 10 occurrences", global, "of the noun or of captions with it?", "none", "captions with it"},
	{"GPN-S, t^r", global, "order of the nouns", "none", "ascending"},
	{"GPN-S 3.4", global, "draws may repeat", "none", "every pair once an epoch: draws are without replacement"},
}

// DeparturesTable returns all departures as Markdown.
func DeparturesTable() string {
	var b strings.Builder
	b.WriteString("| | recipes | paper | authors' code | here |\n|---|---|---|---|---|\n")
	for _, d := range departures {
		names := "all"
		if d.Recipes != nil {
			names = strings.Join(d.Recipes, ", ")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", d.Place, names, d.Paper, d.Code, d.Here)
	}
	return b.String()
}
