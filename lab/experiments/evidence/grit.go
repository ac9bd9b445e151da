package evidence

import "fmt"

// x1 counts false negatives.
func x1() Experiment {
	grit, random := "GRIT", "random"
	e := Experiment{
		ID: "x1", Title: "False negatives by sampling", Repeats: "MAFA Table 1, Table 9, figures 2 and 5", Seeds: seeds(1, 8),
		Text: "Every pair of a mini-batch gets its hardest negative text and its hardest negative image, as ITM does. A frozen " +
			"encoder's similarities choose them. The generator knows which of these are true of one another: they are false " +
			"negatives. In the noisy data 15 % of the captions are wrong and 5 % are about nothing in the picture.",
		Small: "One first model of a million parameters or fewer stands for the model in training. It is the same for all seeds, " +
			"so the intervals cover scenes and draws, and not the model. The paper's judge of truth is a model; ours is exact.",
		Figures: []Figure{
			{
				Name: "x1-space", Title: "False negatives over the search space, N = 96", X: "M", Y: "false negatives, %", LogX: true, Factor: 100,
				Lines:   []Line{{"by image", grit + " clean", "image"}, {"by text", grit + " clean", "text"}, {"by image, noisy", grit + " noisy", "image"}, {"by text, noisy", grit + " noisy", "text"}},
				Comment: "At M = 96 the sampling is random (MAFA figure 2).",
			},
			{
				Name: "x1-batch", Title: "False negatives over the mini-batch, random", X: "N", Y: "false negatives, %", LogX: true, Factor: 100,
				Lines:   []Line{{"by image", random + " clean", "image"}, {"by text", random + " clean", "text"}, {"by image, noisy", random + " noisy", "image"}, {"by text, noisy", random + " noisy", "text"}},
				Comment: "MAFA figure 5 has the mean of both directions.",
			},
		},
	}
	columns := []Column{{"by image, %", "image", 100, 2}, {"by text, %", "text", 100, 2}, {"of all negative pairs, %", "pairs", 100, 3}}
	main := Table{Title: "False negatives of ITM, N = 96 (MAFA Tables 1 and 9)", Head: "sampling", Columns: columns}
	for _, data := range []string{"clean", "noisy"} {
		main.Rows = append(main.Rows, Row{"random, " + data, random + " " + data, 96}, Row{"GRIT, M = 4,800, " + data, grit + " " + data, 4800})
	}
	space := Table{Title: "GRIT over M, N = 96, clean (MAFA figure 2)", Head: "M", Columns: columns}
	for _, m := range []float64{96, 480, 960, 1920, 4800, 9600} {
		space.Rows = append(space.Rows, Row{fmt.Sprintf("%.0f", m), grit + " clean", m})
	}
	batch := Table{Title: "Random over N, clean (MAFA figure 5)", Head: "N", Columns: columns}
	for _, n := range []float64{24, 48, 96, 192, 384} {
		batch.Rows = append(batch.Rows, Row{fmt.Sprintf("%.0f", n), random + " clean", n})
	}
	e.Tables = []Table{main, space, batch}
	for _, by := range []string{"image", "text"} {
		e.Claims = append(e.Claims,
			Claim{Text: "clean data have more than noisy data by " + by + " (GRIT)", More: Point{grit + " clean", 4800, by}, Less: Point{grit + " noisy", 4800, by}})
	}
	return e
}

// x5 compares samplings.
func x5() Experiment {
	point := func(arm, measure string) Point { return Point{arm, 0, measure} }
	first := Row{"first model", "first", 0}
	alone := []Row{{"random", "itc", 0}, {"random, queue", "itc queue", 0}, {"GRIT", "itc grit", 0}, {"GRIT, consistency", "itc consistency", 0}}
	all := []Row{{"random", "random", 0}, {"GRIT", "grit", 0}}
	columns := append([]Column{{"RSUM by ITC", "rsum", 1, 0}}, retrieved[1:]...)
	return Experiment{
		ID: "x5", Title: "GRIT against random mini-batches", Repeats: "GRIT-VLP Tables 1 and 5", Seeds: seeds(1, 8),
		Text: "A first model is trained further with equal steps, on random mini-batches or on GRIT's. All see every pair equally " +
			"often." + heldOut,
		Small: "Scenes of one object of twelve shapes, a first model of 600 steps, 8 pairs a mini-batch, M = 24, a queue of 1,024. " +
			"TCL is not run yet.",
		Tables: []Table{
			{Title: "ITC alone (GRIT-VLP Table 5)", Head: "trained on", Rows: append([]Row{first}, alone...), Columns: columns},
			{Title: "All losses", Head: "trained on", Rows: append([]Row{first}, all...), Columns: append([]Column{retrieved[0]}, columns...)},
		},
		Figures: []Figure{{Name: "x5-itc", Title: "ITC alone: against random mini-batches", X: "difference of RSUM", Base: "itc", Measure: "rsum", Arms: alone[1:]}},
		Claims: []Claim{
			{Text: "GRIT raises RSUM of ITC alone", More: point("itc grit", "rsum"), Less: point("itc", "rsum")},
			{Text: "GRIT raises it more than a queue does", More: point("itc grit", "rsum"), Less: point("itc queue", "rsum")},
			{Text: "consistency raises it further", More: point("itc consistency", "rsum"), Less: point("itc grit", "rsum")},
			{Text: "GRIT raises RSUM with all losses", More: point("grit", "rsum"), Less: point("random", "rsum")},
			{Text: "GRIT lowers the ITM error", More: point("random", "itm_error"), Less: point("grit", "itm_error")},
		},
	}
}

// x6 varies ALBEF-Base.
func x6() Experiment {
	point := func(arm, measure string) Point { return Point{arm, 0, measure} }
	at := func(arm string, x float64) Point { return Point{arm, x, "uov"} }
	first := Row{"first model", "first", 0}
	e := Experiment{
		ID: "x6", Title: "Hard negatives and hidden words", Repeats: "GRIT-VLP Tables 1, 2, figure 4", Seeds: seeds(1, 8),
		Text: "ALBEF without a momentum encoder, on random mini-batches, from one start and with equal steps. ITM takes random or hard " +
			"negatives, with ITC or without it. MLM hides 15 to 75 % of the words. The matching head ranks the 16 most similar. " +
			"Usage of vision (UoV) is the accuracy with the image less that without it, of hidden colours and numbers. The words " +
			"hidden for it are the same for all models." + heldOut,
		Small: "Scenes of one to four objects of six shapes, 24 pairs a mini-batch, a first model of 1,200 steps that has all losses " +
			"and hides 15 %. Without ITC hard negatives come of similarities that are not trained any more, where the paper takes those " +
			"of another model.",
	}
	tasks := []Row{{"MLM + ITM random", "itm random", 0}, {"MLM + ITM random + ITC", "itm random itc", 0}, {"MLM + ITM hard", "itm hard", 0}, {"MLM + ITM hard + ITC: ALBEF-Base", "base 15", 0}}
	masks := []Row{}
	for _, share := range []int{15, 35, 50, 75} {
		masks = append(masks, Row{fmt.Sprintf("%d %%", share), fmt.Sprintf("base %d", share), 0})
	}
	rsum := Column{"RSUM by ITM", "itm_rsum", 1, 0}
	e.Tables = []Table{
		{Title: "Tasks, 15 % hidden (GRIT-VLP Table 1)", Head: "trained with", Rows: append([]Row{first}, tasks...), Columns: []Column{retrieved[0], rsum}},
		{Title: "Words hidden in training (GRIT-VLP Table 2)", Head: "hidden", Rows: masks, Columns: append([]Column{rsum, {"RSUM by ITC", "rsum", 1, 0}}, retrieved...)},
	}
	words := Table{Title: "Hidden colours and numbers, half of the words hidden", Head: "hidden in training", Columns: []Column{{"told with the image, %", "words", 1, 1}, {"UoV, %", "uov", 1, 1}}}
	figure := Figure{Name: "x6-uov", Title: "Usage of vision", X: "words hidden in the test, %", Y: "UoV of colours and numbers, %"}
	for _, m := range masks {
		words.Rows = append(words.Rows, Row{m.Label, m.Arm, 50})
		figure.Lines = append(figure.Lines, Line{m.Label + " in training", m.Arm, "uov"})
	}
	e.Tables, e.Figures = append(e.Tables, words), []Figure{figure}
	e.Claims = []Claim{
		{Text: "without ITC, hard negatives lower the ITM error", More: point("itm random", "itm_error"), Less: point("itm hard", "itm_error")},
		{Text: "hard negatives help more than ITC does, by ITM error", More: point("itm random itc", "itm_error"), Less: point("itm hard", "itm_error")},
		{Text: "hard negatives help more than ITC does, by RSUM of ITM", More: point("itm hard", "itm_rsum"), Less: point("itm random itc", "itm_rsum")},
		{Text: "hiding 50 % raises RSUM of ITM over 15 %", More: point("base 50", "itm_rsum"), Less: point("base 15", "itm_rsum")},
		{Text: "hiding 50 % raises the UoV over 15 %, half of the words hidden", More: at("base 50", 50), Less: at("base 15", 50)},
		{Text: "hiding 50 % raises the UoV over 15 %, 75 % hidden", More: at("base 50", 75), Less: at("base 15", 75)},
		{Text: "hiding 75 % raises it over 50 %, 75 % hidden", More: at("base 75", 75), Less: at("base 50", 75)},
		{Text: "hiding 75 % lowers RSUM of ITM under that of 50 %", More: point("base 50", "itm_rsum"), Less: point("base 75", "itm_rsum")},
	}
	return e
}
