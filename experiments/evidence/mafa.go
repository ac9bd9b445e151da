package evidence

// taught are the measures of a model in the papers' regime.
var taught = []Column{
	{"AUC of ITM, %", "auc", 1, 2},
	{"false alarms, %", "false_alarms", 1, 1},
	{"missed, %", "misses", 1, 1},
	{"R@1 by ITC, %", "itc_r1", 1, 1},
	{"R@1 re-ranked, %", "itm_r1", 1, 1},
	{"RSUM by ITC", "rsum", 1, 1},
}

// x2 repeats what MAFA says of sampling, of its parts, and of who takes the connection discriminator's (Con-D's) place.
func x2() Experiment {
	sampled := append([]Column{{"false negatives, %", "image", 100, 1}}, taught...)
	judges := append([]Column{{"precision", "precision", 1, 2}, {"recall", "recall", 1, 2}}, taught...)
	e := Experiment{
		ID: "x2", Title: "What MAFA's mini-batches teach", Repeats: "GRIT-VLP Table 1; MAFA Tables 4, 5, 13, 14, 16, figure 2", Seeds: seeds(1, 8),
		Text: "All arms begin with one converged first model and make equal steps on new scenes. Mini-batches are random, or GRIT's with a search " +
			"space of M pairs. Efficient connection mining (ECM) and smoothed ITC (S-ITC) are on or off. False negatives " +
			"are those among the hardest texts of the images, by the vectors that formed the mini-batch. Of the matching head (ITM): " +
			"its AUC on held-out pairs against the hardest mismatches, none of which is true; mismatches that it accepts (false " +
			"alarms); pairs that it rejects (missed). R@1 is the mean of both directions, and re-ranked when the head orders the 16 " +
			"most similar.",
		Small: "Scenes of three objects of eight shapes and eight colours, 9,600 pairs, N = 48, three epochs, 500 pairs held out. " +
			"All seeds share the first model and Con-D, which have learned from other scenes. Con-D scores the two hardest " +
			"candidates. One-hot targets of ITC where it does not say S-ITC; MLM is off, so that Table 14 has two of its three rows less.",
	}
	e.Tables = []Table{
		{Title: "Sampling and connections (MAFA Tables 4 and 13)", Head: "trained on", Columns: sampled, Rows: []Row{
			{"first model", "first", 0},
			{"random", "random", 0},
			{"GRIT, M = 240", "grit", 240},
			{"GRIT, M = 480", "grit", 480},
			{"GRIT, M = 2,400", "grit", 2400},
			{"GRIT + ECM, M = 480", "ecm", 480},
			{"GRIT + ECM, M = 2,400", "ecm", 2400},
			{"GRIT + ECM with the truth, M = 480", "oracle", 480},
			{"GRIT + ECM with the truth, M = 2,400", "oracle", 2400},
		}},
		{Title: "In Con-D's place, M = 480 (MAFA Table 16)", Head: "who connects", Columns: judges, Rows: []Row{
			{"nobody: GRIT", "grit", 480},
			{"a Con-D of 500 steps", "weak", 480},
			{"the first model", "first", 480},
			{"Con-D", "ecm", 480},
			{"a coin, precision 0.5", "coin", 0.5},
			{"a coin, precision 0.25", "coin", 0.25},
			{"the truth", "oracle", 480},
		}},
		{Title: "Parts of MAFA (MAFA Tables 4 and 5)", Head: "trained with", Columns: taught, Rows: []Row{
			{"GRIT, M = 480", "grit", 480},
			{"GRIT + S-ITC, M = 480", "smoothed", 480},
			{"GRIT + ECM, M = 2,400", "ecm", 2400},
			{"GRIT + ECM-E, M = 2,400", "eliminate", 2400},
			{"MAFA: ECM and S-ITC, M = 2,400", "mafa", 2400},
		}},
	}
	e.Figures = x2Figures()
	e.Claims = x2Claims()
	return e
}

// x2Figures returns what grows with the search space, and what each arm gains.
func x2Figures() []Figure {
	return []Figure{
		{Name: "x2-missed", Title: "Pairs that ITM misses, over the search space", X: "M", Y: "missed, %", LogX: true, Lines: []Line{
			{"GRIT", "grit", "misses"}, {"GRIT + ECM", "ecm", "misses"}, {"GRIT + ECM with the truth", "oracle", "misses"},
		}, Comment: "Without connections a larger search space teaches the matching head to reject pairs (MAFA figure 2)."},
		{Name: "x2-auc", Title: "AUC of ITM against random mini-batches", X: "difference, %", Base: "random", Measure: "auc", Arms: []Row{
			{"GRIT, M = 480", "grit", 480},
			{"GRIT + ECM, M = 480", "ecm", 480},
			{"the truth, M = 480", "oracle", 480},
			{"a Con-D of 500 steps, M = 480", "weak", 480},
			{"GRIT, M = 2,400", "grit", 2400},
			{"GRIT + ECM, M = 2,400", "ecm", 2400},
			{"GRIT + ECM-E, M = 2,400", "eliminate", 2400},
		}, Comment: "Connections that are mostly true take back what false negatives cost. Those of a Con-D that has hardly learned ruin the " +
			"matching head. Eliminating is ahead of converting here, with the truth in Con-D's place as well. It shifts the head " +
			"towards refusing: once fine-tuned, as in the paper, they are equal (X4). S-ITC costs retrieval. The first model's " +
			"temperature is 0.008, and smoothed targets then want cosines that lie within 0.04 of one another. X4 begins at " +
			"the papers' 0.07."},
	}
}

// x2Claims returns what the papers say, as differences of arms.
func x2Claims() []Claim {
	grit := func(x float64, name string) Point { return Point{"grit", x, name} }
	ecm := func(x float64, name string) Point { return Point{"ecm", x, name} }
	random := func(name string) Point { return Point{"random", 0, name} }
	return []Claim{
		{Text: "GRIT has more false negatives than random mini-batches, M = 480", More: grit(480, "image"), Less: random("image")},
		{Text: "GRIT raises the AUC of ITM over random mini-batches, M = 480", More: grit(480, "auc"), Less: random("auc")},
		{Text: "GRIT raises R@1 re-ranked over random mini-batches, M = 480", More: grit(480, "itm_r1"), Less: random("itm_r1")},
		{Text: "GRIT raises R@1 by ITC over random mini-batches, M = 480", More: grit(480, "itc_r1"), Less: random("itc_r1")},
		{Text: "GRIT has fewer false alarms than random mini-batches, M = 480", More: random("false_alarms"), Less: grit(480, "false_alarms")},
		{Text: "missed pairs grow with M: 480 against 240", More: grit(480, "misses"), Less: grit(240, "misses")},
		{Text: "missed pairs grow with M: 2,400 against 480", More: grit(2400, "misses"), Less: grit(480, "misses")},
		{Text: "ECM takes missed pairs back, M = 2,400", More: grit(2400, "misses"), Less: ecm(2400, "misses")},
		{Text: "ECM at M = 480 has a higher AUC than GRIT there", More: ecm(480, "auc"), Less: grit(480, "auc")},
		{Text: "ECM at M = 2,400 has a higher AUC than GRIT at its best M", More: ecm(2400, "auc"), Less: grit(480, "auc")},
		{Text: "ECM at M = 2,400 has a higher AUC than random mini-batches", More: ecm(2400, "auc"), Less: random("auc")},
		{Text: "ECM at M = 2,400 has a higher R@1 re-ranked than random mini-batches", More: ecm(2400, "itm_r1"), Less: random("itm_r1")},
		{Text: "converting is better than eliminating, by AUC, M = 2,400", More: ecm(2400, "auc"), Less: Point{"eliminate", 2400, "auc"}},
		{Text: "converting misses fewer pairs than eliminating, M = 2,400", More: Point{"eliminate", 2400, "misses"}, Less: ecm(2400, "misses")},
		{Text: "a weak Con-D is worse than none, by AUC, M = 480", More: grit(480, "auc"), Less: Point{"weak", 480, "auc"}},
		{Text: "a weak Con-D is worse than a trained one, by AUC, M = 480", More: ecm(480, "auc"), Less: Point{"weak", 480, "auc"}},
		{Text: "the truth in Con-D's place is better than Con-D, by AUC, M = 480", More: Point{"oracle", 480, "auc"}, Less: ecm(480, "auc")},
		{Text: "S-ITC raises R@1 by ITC of GRIT, M = 480", More: Point{"smoothed", 480, "itc_r1"}, Less: grit(480, "itc_r1")},
		{Text: "MAFA has a higher AUC than random mini-batches", More: Point{"mafa", 2400, "auc"}, Less: random("auc")},
	}
}
