package evidence

import "fmt"

// x9 repeats MAFA on photographs.
func x9() Experiment {
	e := Experiment{
		ID: "x9", Title: "Photographs whose false negatives are known", Repeats: "MAFA 4.1, Tables 4 and 5", Seeds: seeds(1, 3), Photographs: true,
		Text: "Every caption of a photograph is published with an image of its own: a crop of 85 to 95 %, as JPEG of quality 75 to 95. " +
			"The other captions of the photograph are its false negatives, which the pipeline cannot know by an id. The connection " +
			"discriminator (Con-D) has learned from these pairs, as in the paper, and judges the eight hardest candidates of every " +
			"pair of GRIT's mini-batches. Retrieval is of unseen photographs, and of seen ones by captions that nobody has seen. The " +
			"ITM error is on unseen photographs, the same negatives for all models.",
		Small: "Several hundred photographs of 64 pixels, 24 pairs a mini-batch, M = 96. A caption of another photograph that happens to be " +
			"true counts as false.",
	}
	t := Table{Title: "Con-D's connections by threshold", Head: "above", Columns: []Column{{"precision", "precision", 1, 3}, {"recall", "recall", 1, 3}, {"AUC", "auc", 1, 3}}}
	for _, high := range []float64{0.5, 0.8, 0.9, 0.95} {
		t.Rows = append(t.Rows, Row{fmt.Sprintf("%.2f", high), "Con-D", high})
	}
	t.Rows = append(t.Rows, Row{"all candidates: the base rate", "all", 0}, Row{"without a threshold", "Con-D", 0})
	arms := []Row{{"first model", "first", 0}, {"random", "random", 0}, {"GRIT", "grit", 0}, {"GRIT + S-ITC", "smoothed", 0}, {"MAFA", "mafa", 0}}
	e.Tables = []Table{t, {
		Title: "Retrieval and matching", Head: "trained with", Rows: arms,
		Columns: []Column{{"RSUM, unseen photographs", "unseen", 1, 0}, {"RSUM, seen photographs, unseen captions", "seen", 1, 0}, {"ITM error, %", "itm_error", 1, 1}},
	}}
	e.Figures = []Figure{
		{Name: "x9-seen", Title: "Seen photographs by unseen captions, against random", X: "difference of RSUM", Base: "random", Measure: "seen", Arms: arms[2:]},
		{Name: "x9-unseen", Title: "Unseen photographs, against random", X: "difference of RSUM", Base: "random", Measure: "unseen", Arms: arms[2:]},
	}
	e.Claims = []Claim{
		{Text: "connections above 0.8 are true more often than candidates are", More: Point{"Con-D", 0.8, "precision"}, Less: Point{"all", 0, "precision"}},
		{Text: "Con-D ranks true candidates above others: its AUC is above 0.5", More: Point{"Con-D", 0, "auc"}, Bound: 0.5},
		{Text: "MAFA finds seen photographs better than GRIT does", More: Point{"mafa", 0, "seen"}, Less: Point{"grit", 0, "seen"}},
		{Text: "MAFA finds unseen photographs better than GRIT does", More: Point{"mafa", 0, "unseen"}, Less: Point{"grit", 0, "unseen"}},
		{Text: "GRIT leaves a lower ITM error than random mini-batches", More: Point{"random", 0, "itm_error"}, Less: Point{"grit", 0, "itm_error"}},
		{Text: "MAFA leaves a lower ITM error than GRIT", More: Point{"grit", 0, "itm_error"}, Less: Point{"mafa", 0, "itm_error"}},
	}
	return e
}
