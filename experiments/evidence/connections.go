package evidence

import "fmt"

// x3 compares Con-D with the truth, and with others in its place.
func x3() Experiment {
	e := Experiment{
		ID: "x3", Title: "The connection discriminator against the truth", Repeats: "MAFA 4.1 and Table 16", Seeds: seeds(11, 18),
		Text: "The connection discriminator (Con-D) judges the eight hardest candidates of every pair in an epoch of GRIT's mini-batches. " +
			"Recall is over the candidates that are true. Then a model is trained with Con-D, and with others in its place, from one " +
			"start and with equal steps. The oracle knows what is true. A coin finds as many of the true candidates as Con-D, and " +
			"confirms others at random, until its connections are as precise as the table says. The blind coin knows nothing." + heldOut,
		Small: "Scenes of two circles of eight colours, 8 pairs a mini-batch, M = 24. The paper's oracle is a model that has learned from " +
			"129M pairs. The settings were settled on seed 1, and the coins on seed 101; so seeds 11 to 18 are reported.",
	}
	verdicts := Table{Title: "Connections by threshold", Head: "above", Columns: []Column{{"precision", "precision", 1, 3}, {"recall", "recall", 1, 3}}}
	for _, high := range []float64{0.5, 0.8, 0.9, 0.95} {
		verdicts.Rows = append(verdicts.Rows, Row{fmt.Sprintf("%.2f", high), "Con-D", high})
	}
	verdicts.Rows = append(verdicts.Rows, Row{"all candidates", "all", 0})
	arms := []Row{
		{"first model", "first", 0},
		{"random", "random", 0},
		{"GRIT", "grit", 0},
		{"GRIT + ECM, Con-D", "con-d", 0},
		{"GRIT + ECM, oracle", "oracle", 0},
		{"GRIT + ECM, coin as precise as Con-D", "coin con-d", 0},
		{"GRIT + ECM, coin, precision 0.5", "coin 0.5", 0},
		{"GRIT + ECM, coin, precision 0.25", "coin 0.25", 0},
		{"GRIT + ECM, blind coin", "coin blind", 0},
	}
	e.Tables = []Table{verdicts, {
		Title: "Others in Con-D's place (MAFA Table 16)", Head: "trained with", Rows: arms,
		Columns: append([]Column{{"precision of connections", "precision", 1, 3}, {"recall", "recall", 1, 3}}, retrieved...),
	}}
	e.Figures = []Figure{{
		Name: "x3-error", Title: "ITM error against GRIT without connections", X: "difference, %", Base: "grit", Measure: "itm_error", Arms: arms[3:],
	}}
	itm := func(arm string) Point { return Point{arm, 0, "itm_error"} }
	e.Claims = []Claim{
		{Text: "connections above 0.8 are true more often than candidates are", More: Point{"Con-D", 0.8, "precision"}, Less: Point{"all", 0, "precision"}},
		{Text: "connections of Con-D lower the ITM error of GRIT", More: itm("grit"), Less: itm("con-d")},
		{Text: "connections of an oracle lower the ITM error of GRIT", More: itm("grit"), Less: itm("oracle")},
		{Text: "Con-D leaves a lower ITM error than a blind coin", More: itm("coin blind"), Less: itm("con-d")},
	}
	return e
}
