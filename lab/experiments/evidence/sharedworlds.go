package evidence

// sharedWorld returns X15 and X16 but for their texts.
func sharedWorld(e Experiment, known bool) Experiment {
	e.Seeds, e.Versions, e.Photographs = seeds(1, 9), 3, true
	arms := []Row{
		{"first model", "first", 0},
		{"random", "random", 0},
		{"random, a third more steps", "random, a third more", 0},
		{"GRIT", "grit", 0},
		{"GRIT, the harder of two candidates, no connection", "two candidates", 0},
		{"GRIT + ECM", "ecm", 0},
		{"GRIT + ECM-E: connections are dropped", "eliminate", 0},
		{"GRIT + ECM, the truth", "oracle", 0},
		{"MAFA: ECM and S-ITC", "mafa", 0},
	}
	e.Tables = []Table{{
		Title: "The matching head (ITM), and retrieval", Head: "trained with", Rows: arms,
		Columns: []Column{
			{"R@1 re-ranked, %", "itm_r1", 1, 1},
			{"AUC, %", "auc", 1, 1},
			{"missed, %", "misses", 1, 1},
			{"false alarms, %", "false_alarms", 1, 1},
			{"R@1 by ITC, %", "itc_r1", 1, 1},
		},
	}}
	of := func(arm, name string) Point { return Point{arm, 0, name} }
	e.Gates = []Claim{{Text: "random mini-batches raise R@1 re-ranked over their start", More: of("random", "itm_r1"), Less: of("first", "itm_r1")}}
	e.Claims = []Claim{
		{Text: "ECM raises R@1 re-ranked over random mini-batches", More: of("ecm", "itm_r1"), Less: of("random", "itm_r1")},
		{Text: "ECM raises the AUC of ITM over random mini-batches", More: of("ecm", "auc"), Less: of("random", "auc")},
		{Text: "ECM misses fewer pairs than GRIT", More: of("grit", "misses"), Less: of("ecm", "misses")},
		{Text: "ECM-E raises R@1 re-ranked over random mini-batches", More: of("eliminate", "itm_r1"), Less: of("random", "itm_r1")},
		{Text: "ECM-E raises R@1 re-ranked over random mini-batches with a third more steps", More: of("eliminate", "itm_r1"), Less: of("random, a third more", "itm_r1")},
		{Text: "GRIT raises R@1 re-ranked over random mini-batches", More: of("grit", "itm_r1"), Less: of("random", "itm_r1")},
		{Text: "ECM raises the AUC of ITM over two candidates without connections", More: of("ecm", "auc"), Less: of("two candidates", "auc")},
		{Text: "MAFA raises R@1 re-ranked over random mini-batches", More: of("mafa", "itm_r1"), Less: of("random", "itm_r1")},
	}
	if known {
		e.Tables = append(e.Tables,
			Table{Title: "Mini-batches", Head: "trained with", Rows: arms[1:], Columns: []Column{{"false negatives, %", "image", 100, 1}}},
			Table{
				Title: "Con-D's connections by threshold", Head: "above", Columns: []Column{{"precision", "precision", 1, 3}, {"recall", "recall", 1, 3}, {"AUC", "auc", 1, 3}},
				Rows: []Row{{"0.50", "Con-D", 0.5}, {"0.80", "Con-D", 0.8}, {"0.90", "Con-D", 0.9}, {"all candidates: the base rate", "all", 0}, {"without a threshold", "Con-D", 0}},
			})
		e.Claims = append(e.Claims, Claim{Text: "the truth raises the AUC of ITM over Con-D", More: of("oracle", "auc"), Less: of("ecm", "auc")})
	}
	e.Doubts = append([]string{"Nine seeds share three first models and three Con-Ds, so their interval may be too narrow. The table by models has wider ones."}, e.Doubts...)
	return e
}

// x15 asks what connections are worth where several hands drew the same things.
func x15() Experiment {
	return sharedWorld(Experiment{
		ID: "x15", Title: "Emoji that several hands drew", Repeats: "MAFA 4.1, Tables 1, 4 and 5; GRIT-VLP 4.1",
		Text: "Five hands drew the same things, and people gave the words. `python lab/worlds/emoji.py --out DIR` makes the folder, which " +
			"`--photographs` names. The same thing by another hand is a false negative, known by its code points. 400 things are held out, not " +
			"pictures, and every caption of a thing is right. Three first models and three Con-Ds learn from the other things, with seeds of " +
			"their own; each pair of them serves one seed. All arms of a seed begin with its first model and read one caption of every " +
			"picture. A third model chooses the mismatches that all are asked about.",
		Small: "17,986 pictures of 3,786 things, 48 pairs a mini-batch, M = 480, three epochs. First models and Con-Ds have made 8,000 steps from nothing. MLM is off. " +
			"20 steps took 1.3 to 2 s of a core, so that nine seeds take about three and a half hours of it.",
		Doubts: []string{
			"A model of a million parameters at 32 pixels sees few details of an emoji. Where the first model is weak, Con-D is weak.",
			"First models and Con-Ds have learned from the pictures that arms read, as in the papers. So Con-D knows them by heart.",
			"Captions of different things share many words (skin tones, clocks), and no one judged whether one is true of another.",
		},
	}, true)
}

// x16 asks what connections are worth on photographs, whose false negatives no one has marked.
func x16() Experiment {
	return sharedWorld(Experiment{
		ID: "x16", Title: "Photographs as they are captioned", Repeats: "MAFA 4.1, Tables 4 and 5; GRIT-VLP 4.1",
		Text: "Two frozen towers look once at all photographs, as in [X9](#x9-photographs-whose-false-negatives-are-known). First models, Con-Ds and " +
			"arms learn from train-*.tar of `--photographs`, each photograph with its own captions. Retrieval is of the photographs of dev-*.tar and " +
			"test-*.tar by the caption that people judged. The false negatives are those of real captions, and no one has counted them: there is " +
			"no arm with the truth. [X13](#x13-photographs-that-people-judged) tells how good such a Con-D is. Three first models and three Con-Ds; " +
			"each pair of them serves one seed. A third model chooses the mismatches that all are asked about.",
		Small: "Flickr8k: 5,854 photographs to learn from with two captions each in an epoch, 1,503 held out, 48 pairs a mini-batch, M = 480, three epochs. MLM is off. " +
			"20 steps took 1.4 to 2 s of a core, so that nine seeds take about two and a half hours of it, 25 minutes for the towers among them.",
		Doubts: []string{
			"Con-D's connections above 0.8 are 23 % right in X13. An effect of connections here is mostly one of wrong ones.",
			"Some captions of other photographs are true of a held-out photograph, and count as mistakes of retrieval.",
			"The towers are small and frozen, and 5,854 photographs are few. More steps do not help: a first model of 4,000 steps in " +
				"place of 600, tried on seed 101, learns them by heart. Its R@1 by ITC on the others is 3.7 %, and re-ranked 2.7 %.",
		},
	}, false)
}
