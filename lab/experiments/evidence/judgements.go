package evidence

import "fmt"

// JudgedThresholds returns the thresholds of X13.
func JudgedThresholds() []float64 { return []float64{0.5, 0.8, 0.9} }

// RaisedPrecisions returns the precisions of the raised Con-Ds of X13.
func RaisedPrecisions() []float64 { return []float64{0.45, 0.6, 0.8} }

// x13 compares Con-D and the guard with what people judged.
func x13() Experiment {
	e := Experiment{
		ID: "x13", Title: "Photographs that people judged", Repeats: "MAFA 4.1", Seeds: seeds(21, 23), Photographs: true,
		Text: "A first model and a connection discriminator (Con-D) are made as in [X9](#x9-photographs-whose-false-negatives-are-known), " +
			"of the photographs of train-*.tar with all their captions. People judged pairs of a test photograph and a caption of another " +
			"one: three experts from 1 to 4, or a crowd. A caption is true for two experts of 3 and more, or for most of the crowd. The " +
			"judged pairs are the guard's candidates. It is told the test photographs' own captions, edited and reworded ones, and others at " +
			"random, and nothing of what people say. A raised Con-D gives 5 more to the logits of pairs that are true, at the threshold where " +
			"its precision is nearest to the one in the table. The guard decides rightly where connections are on exactly if the precision is above 0.4. " +
			"Of the trained Con-D itself the interval is nearly 0 to 1: it hardly tells edited captions from own ones. The claims about the " +
			"ends of that interval hold, and say nothing. Raised Con-Ds tell them apart.",
		Small: "Flickr8k: 5,854 photographs to learn from, 531 test photographs with 14,229 judged pairs, of which 649 are true. A retrieval " +
			"system had proposed the pairs, so their base rate is not that of GRIT's candidates. The seeds share the test photographs: \"±\" " +
			"is over Con-Ds. The columns counted have the mean ends of Clopper and Pearson's interval over the pairs of a seed.",
	}
	columns := []Column{
		{"precision", "precision", 1, 2},
		{"counted, from", "counted_low", 1, 2},
		{"to", "counted_high", 1, 2},
		{"connections", "confirmed", 1, 0},
		{"the guard's estimate", "estimate", 1, 2},
		{"lower end", "low", 1, 2},
		{"upper end", "high", 1, 2},
		{"decided rightly", "right", 1, 0},
	}
	judged := Table{Title: "Con-D by threshold", Head: "above", Columns: append(columns, Column{"recall", "recall", 1, 2})}
	for _, x := range JudgedThresholds() {
		judged.Rows = append(judged.Rows, Row{fmt.Sprintf("%.2f", x), "Con-D", x})
	}
	raised := Table{Title: "Raised Con-Ds", Head: "about", Columns: append(columns, Column{"threshold", "threshold", 1, 2})}
	for _, x := range RaisedPrecisions() {
		raised.Rows = append(raised.Rows, Row{fmt.Sprintf("%.0f %%", 100*x), "raised", x})
	}
	whole := Table{Title: "Without a threshold", Head: "pairs", Columns: []Column{{"true", "precision", 1, 3}, {"AUC of Con-D", "auc", 1, 3}, {"calibration error, %", "calibration_error", 1, 1}}}
	whole.Rows = []Row{{"all judged pairs", "all", 0}, {"by Con-D", "Con-D", 0}}
	e.Tables = []Table{judged, raised, whole}
	for _, x := range JudgedThresholds() {
		e.Claims = append(e.Claims, Claim{Text: fmt.Sprintf("the upper end of the guard's interval is above the precision of Con-D above %.2f", x), More: Point{"Con-D", x, "high"}, Less: Point{"Con-D", x, "precision"}},
			Claim{Text: fmt.Sprintf("the lower end is below it, above %.2f", x), More: Point{"Con-D", x, "precision"}, Less: Point{"Con-D", x, "low"}})
	}
	for _, x := range RaisedPrecisions() {
		e.Claims = append(e.Claims, Claim{Text: fmt.Sprintf("intervals that exclude something cover the precision of about %.0f %%", 100*x), More: Point{"raised", x, "covered"}, Bound: 0.2},
			Claim{Text: fmt.Sprintf("the guard decides rightly about a Con-D of about %.0f %%", 100*x), More: Point{"raised", x, "right"}, Bound: 0.2})
	}
	e.Doubts = []string{
		"All seeds share the test photographs and what people said of them. Other photographs could give another precision.",
		"A retrieval system proposed the judged pairs. GRIT proposes others, with another base rate, and precision depends on it.",
		"A Con-D of 45 % lies so near to the limit of 0.4 that the guard's interval of some 500 photographs reaches below it. The guard then " +
			"leaves connections off, and counts as wrong: it is cautious by design.",
		"Raised Con-Ds are made of the truth. A Con-D that is better by training may err in other places.",
		"The trained Con-D is of small frozen towers. How good one of the papers' size is, this cannot tell.",
	}
	e.Claims = append(e.Claims, Claim{Text: "precision rises with the threshold, from 0.5 to 0.9", More: Point{"Con-D", 0.9, "precision"}, Less: Point{"Con-D", 0.5, "precision"}})
	return e
}
