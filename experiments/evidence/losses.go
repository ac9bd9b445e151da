package evidence

var retrieved = []Column{{"ITM error, %", "itm_error", 1, 1}, {"TR@1, %", "tr_r1", 1, 1}, {"IR@1, %", "ir_r1", 1, 1}}

const (
	heldOut = " The ITM error is on negatives that are not true of the picture, the same ones for all models. In retrieval " +
		"every true caption counts, whoever wrote it."
	smallScenes = "Scenes of two objects, 8 pairs a mini-batch, M = 24, a first model of 1,200 steps."
)

// x4 compares soft targets.
func x4() Experiment {
	e := Experiment{
		ID: "x4", Title: "Soft targets of ITC", Repeats: "MAFA Table 6", Seeds: seeds(1, 8),
		Text: "From one start and with equal steps: the targets of ITC, on random and on GRIT's mini-batches." + heldOut,
		Small: smallScenes + " Distillation has no queue. With N = 8 the smoothed target of the own text is 9 times that of " +
			"another; with the paper's N = 96 it is 97 times. The labels of Table 2 are not measured yet.",
	}
	t := Table{Title: "Held-out pairs", Head: "trained with", Columns: retrieved, Rows: []Row{{"first model", "first", 0}}}
	for _, sampling := range []Row{{Label: "random", Arm: "random"}, {Label: "GRIT", Arm: "grit"}} {
		for _, targets := range []string{"onehot", "consistency", "smoothed", "distilled"} {
			t.Rows = append(t.Rows, Row{sampling.Label + ", " + targets, sampling.Arm + " " + targets, 0})
		}
	}
	e.Tables = []Table{t}
	e.Figures = []Figure{
		{Name: "x4-random", Title: "Random mini-batches: image retrieval against one-hot targets", X: "difference of IR@1, %", Base: "random onehot", Measure: "ir_r1", Arms: t.Rows[2:5]},
		{Name: "x4-grit", Title: "GRIT's mini-batches: image retrieval against one-hot targets", X: "difference of IR@1, %", Base: "grit onehot", Measure: "ir_r1", Arms: t.Rows[6:9]},
	}
	for _, way := range []struct{ name, text string }{{"tr_r1", "text"}, {"ir_r1", "image"}} {
		e.Claims = append(e.Claims,
			Claim{Text: "S-ITC hurts " + way.text + " retrieval on random mini-batches", More: Point{"random onehot", 0, way.name}, Less: Point{"random smoothed", 0, way.name}},
			Claim{Text: "S-ITC helps " + way.text + " retrieval on GRIT's mini-batches", More: Point{"grit smoothed", 0, way.name}, Less: Point{"grit onehot", 0, way.name}},
		)
	}
	return e
}
