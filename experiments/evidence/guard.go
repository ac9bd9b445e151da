package evidence

// x11 compares what the guard of connections says with the truth.
func x11() Experiment {
	e := Experiment{
		ID: "x11", Title: "The guard of connections against the truth", Repeats: "MAFA 4.1", Seeds: seeds(11, 34),
		Text: "The guard measures a connection discriminator (Con-D) on the first mini-batches of a group, and knows nothing of the truth. " +
			"It estimates how much is true of the connections above 0.8, with an interval. The truth is that of all candidates of the " +
			"group, the two hardest of every pair and direction in GRIT's mini-batches. The guard leaves connections on where the lower end is " +
			"above COND_MIN_PRECISION. " +
			"[X2](#x2-what-mafas-mini-batches-teach) trains with the same three Con-Ds: the trained one helps, and the two others harm.",
		Small: "Groups of 2,400 pairs, N = 48, M = 480. Scenes and the trained Con-D are those of X2 and the demo. In these captions every " +
			"object is named, so that contradictions are frequent.",
	}
	rows := []Row{{"Con-D", "con-d", 0}, {"the first model", "first", 0}, {"a Con-D of 500 steps", "weak", 0}}
	e.Tables = []Table{{
		Title: "Precision of connections", Head: "who connects", Rows: rows,
		Columns: []Column{
			{"precision", "precision", 1, 2},
			{"estimate", "estimate", 1, 2},
			{"lower end", "low", 1, 2},
			{"upper end", "high", 1, 2},
			{"groups whose interval covers it, %", "covered", 100, 0},
			{"groups with connections on, %", "on", 100, 0},
		},
	}, {
		Title: "What is asked", Head: "who connects", Rows: rows,
		Columns: []Column{
			{"recall", "recall", 1, 2},
			{"base rate", "base", 1, 3},
			{"its estimate", "estimated_base", 1, 3},
			{"known positives", "positives", 1, 0},
			{"hard negatives", "negatives", 1, 0},
			{"AUC between them", "auc", 1, 3},
		},
	}}
	for _, r := range rows {
		e.Claims = append(e.Claims, Claim{Text: "the interval covers the precision in 90 % of the groups: " + r.Label, More: Point{r.Arm, 0, "covered"}, Bound: 0.9})
	}
	e.Claims = append(e.Claims,
		Claim{Text: "connections stay on with the trained Con-D", More: Point{"con-d", 0, "on"}, Bound: 0.9},
		Claim{Text: "connections are off with a Con-D of 500 steps", More: Point{"weak", 0, "off"}, Bound: 0.9},
		Claim{Text: "connections are off with the first model in its place", More: Point{"first", 0, "off"}, Bound: 0.9},
	)
	return e
}
