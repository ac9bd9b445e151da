package evidence

import "fmt"

// x10 measures what the papers' recipes cost.
func x10() Experiment {
	e := Experiment{
		ID: "x10", Title: "What the recipes cost", Repeats: "MAFA Table 12", Seeds: seeds(1, 8), Timed: true,
		Text: "Processor time of three epochs from one start, with all losses, of everything that is done for an epoch: mini-batches are " +
			"formed, images read, candidates scored, steps made. ALBEF has a momentum model, and a queue of 128 mini-batches as in its paper. " +
			"The connection discriminator (Con-D) scores two candidates a pair and direction. It looks at images that are not augmented, and " +
			"keeps what it has computed, as a run of pairstream does by default. In the last row it does as in the paper: it looks at the " +
			"augmented images of training, and scores every candidate in every epoch. Its share is its time over that of everything else.",
		Small: "The scenes, first model and Con-D of X2, 960 pairs, N = 48, M = 480, a million parameters or fewer. The paper has hours of " +
			"GPUs; here one thread computes. BLIP is not there. The eight seeds were measured at once, as " +
			"processes of their own on one core.",
	}
	rows := []Row{
		{"random mini-batches", "random", 0},
		{"ALBEF", "albef", 0},
		{"GRIT-VLP", "grit", 0},
		{"MAFA, as pairstream does it", "mafa", 0},
		{"MAFA, as the paper does it", "mafa all", 0},
	}
	cost := []Column{{"ms a pair and epoch", "ms", 1, 3}, {"of these Con-D", "con", 1, 3}, {"Con-D's share, %", "share", 100, 1}}
	epochs := Table{Title: "MAFA as pairstream does it, by epoch", Head: "epoch", Columns: cost}
	for epoch := range 3 {
		epochs.Rows = append(epochs.Rows, Row{fmt.Sprint(epoch + 1), "mafa", float64(epoch + 1)})
	}
	e.Tables = []Table{{Title: "Processor time (MAFA Table 12)", Head: "recipe", Rows: rows, Columns: cost}, epochs}
	ms := func(arm string) Point { return Point{arm, 0, "ms"} }
	const albef, grit, mafa = 190, 150, 186 // minutes of Table 12
	e.Claims = []Claim{
		{Text: "ALBEF takes longer than GRIT-VLP", More: ms("albef"), Less: ms("grit"), Paper: float64(albef) / grit},
		{Text: "MAFA takes longer than GRIT-VLP", More: ms("mafa"), Less: ms("grit"), Paper: float64(mafa) / grit},
		{Text: "ALBEF takes longer than MAFA", More: ms("albef"), Less: ms("mafa"), Paper: float64(albef) / mafa},
		{Text: "MAFA as the paper does it takes longer than as pairstream does it", More: ms("mafa all"), Less: ms("mafa")},
		{Text: "Con-D takes less in the third epoch than in the first", More: Point{"mafa", 1, "con"}, Less: Point{"mafa", 3, "con"}},
	}
	return e
}
