package evidence

// x7 takes GPN-S apart.
func x7() Experiment {
	e := Experiment{
		ID: "x7", Title: "GPN-S's ways to sample", Repeats: "GPN-S Table 3 and figure 6", Seeds: seeds(1, 8),
		Text: "From one start and with equal steps, on noisy scenes: 20 % of the captions are wrong, 10 % are about nothing. " +
			"Uni-modal positives (eq. 10), texts revised by obj(v) (eq. 8) and mini-batches of clusters (3.4), alone and together. " +
			"A noun of a training text is true when the scene has such an object." + heldOut,
		Small: "Scenes of two objects of twelve shapes, 24 pairs a mini-batch with 2 clusters of 3. Neither backbone has a queue.",
	}
	columns := append([]Column{{"RSUM by ITC", "rsum", 1, 0}}, retrieved...)
	columns = append(columns, Column{"true nouns, %", "precision", 100, 1})
	modules := Table{Title: "Sampling (GPN-S Table 3)", Head: "trained with", Columns: columns, Rows: []Row{{"first model", "first", 0}}}
	for _, backbone := range []Row{{Label: "ALBEF", Arm: "albef"}, {Label: "TCL", Arm: "tcl"}} {
		for _, way := range []Row{{"", "", 0}, {" + uni-modal", " uni", 0}, {" + cross-modal", " cross", 0}, {" + both", " uni cross", 0}, {" + GN-S", " gns", 0}, {" + GPN-S", " full", 0}} {
			modules.Rows = append(modules.Rows, Row{backbone.Label + way.Label, backbone.Arm + way.Arm, 0})
		}
		rsum := func(way string) Point { return Point{backbone.Arm + way, 0, "rsum"} }
		for _, way := range []struct{ arm, text string }{
			{" uni", "uni-modal positives"}, {" cross", "revised texts"}, {" gns", "mini-batches of clusters"}, {" full", "all of GPN-S"},
		} {
			e.Claims = append(e.Claims, Claim{Text: way.text + " raise RSUM of " + backbone.Label, More: rsum(way.arm), Less: rsum("")})
		}
	}
	texts := Table{Title: "Which captions are replaced, ALBEF (GPN-S figure 6)", Head: "replaced", Columns: columns, Rows: []Row{
		{"none", "albef", 0}, {"the least similar 10 %", "albef share", 0}, {"all", "albef all", 0}, {"by the curriculum", "albef cross", 0},
	}}
	e.Tables = []Table{modules, texts}
	e.Figures = []Figure{{
		Name: "x7-sampling", Title: "Sampling against ALBEF alone", X: "difference of RSUM", Base: "albef", Measure: "rsum",
		Arms: modules.Rows[2:7],
	}, {
		Name: "x7-texts", Title: "True nouns against those of captions", X: "difference, %", Factor: 100, Base: "albef", Measure: "precision",
		Arms: texts.Rows[1:],
	}}
	e.Claims = append(e.Claims,
		Claim{Text: "revised texts have more true nouns than captions", More: Point{"albef all", 0, "precision"}, Less: Point{"albef", 0, "precision"}},
		Claim{Text: "the curriculum is better than no replacement, by RSUM", More: Point{"albef cross", 0, "rsum"}, Less: Point{"albef", 0, "rsum"}},
		Claim{Text: "the curriculum is better than the least similar 10 %, by RSUM", More: Point{"albef cross", 0, "rsum"}, Less: Point{"albef share", 0, "rsum"}},
		Claim{Text: "the curriculum is better than replacing all, by RSUM", More: Point{"albef cross", 0, "rsum"}, Less: Point{"albef all", 0, "rsum"}},
	)
	return e
}
