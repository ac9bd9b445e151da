package evidence

// World returns the experiment on a folder of tars of the user's own.
func World() Experiment {
	arms := []Row{
		{"first model", "first", 0},
		{"random", "random", 0},
		{"GRIT", "grit", 0},
		{"GRIT, two candidates, no connections", "grit, two candidates", 0},
		{"GRIT + ECM", "ecm", 0},
		{"GRIT + ECM-E", "eliminate", 0},
		{"GRIT + ECM, a coin of precision 0.5", "coin", 0},
		{"GRIT + ECM with the truth", "oracle", 0},
		{"GRIT + S-ITC", "smoothed", 0},
		{"MAFA: ECM and S-ITC", "mafa", 0},
	}
	connections := Table{Title: "Con-D's connections by threshold", Head: "above", Columns: []Column{{"precision", "precision", 1, 3}, {"recall", "recall", 1, 3}, {"AUC", "auc", 1, 3}}}
	connections.Rows = append(connections.Rows, Row{"0.80", "Con-D", 0.8}, Row{"all candidates: the base rate", "all", 0}, Row{"without a threshold", "Con-D", 0})
	e := Experiment{
		ID: "world", Title: "Arms of MAFA on a world of tars", Seeds: seeds(1, 3),
		Tables: []Table{connections, {
			Title: "ITM on hard mismatches of things that were kept back, and retrieval", Head: "trained with", Rows: arms,
			Columns: append([]Column{{"false negatives, %", "image", 100, 1}}, taught[:5]...),
		}},
	}
	of := func(arm, name string) Point { return Point{arm, 0, name} }
	for _, m := range []struct{ name, text string }{{"auc", "AUC of ITM"}, {"itm_r1", "R@1 re-ranked"}} {
		e.Gates = append(e.Gates, Claim{Text: "random mini-batches raise " + m.text + " over their start", More: of("random", m.name), Less: of("first", m.name)})
		e.Claims = append(e.Claims,
			Claim{Text: "GRIT raises " + m.text + " over random mini-batches", More: of("grit", m.name), Less: of("random", m.name)},
			Claim{Text: "ECM raises " + m.text + " over GRIT with two candidates", More: of("ecm", m.name), Less: of("grit, two candidates", m.name)},
			Claim{Text: "ECM raises " + m.text + " over random mini-batches", More: of("ecm", m.name), Less: of("random", m.name)},
			Claim{Text: "ECM-E raises " + m.text + " over random mini-batches", More: of("eliminate", m.name), Less: of("random", m.name)},
			Claim{Text: "ECM raises " + m.text + " over a coin of precision 0.5", More: of("ecm", m.name), Less: of("coin", m.name)},
			Claim{Text: "MAFA raises " + m.text + " over random mini-batches", More: of("mafa", m.name), Less: of("random", m.name)})
	}
	return e
}
