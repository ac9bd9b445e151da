package evidence

import "fmt"

// x8 measures what GPN-S takes from neighbours and clusters.
func x8() Experiment {
	e := Experiment{
		ID: "x8", Title: "Neighbours and clusters against the truth", Repeats: "GPN-S 3.2 to 3.4", Seeds: seeds(1, 8),
		Text: "Nothing is trained here. The indexer computes obj(v), SE and the clusters of noisy scenes: 20 % of the captions are wrong, " +
			"30 % are about nothing. A noun is true when the scene has such an object, or an object of that colour, as the tagger takes " +
			"names of colours for nouns. Words of the sentence around, such as \"picture\", are not counted. An image of SE is true when the " +
			"caption of the anchor's image fits it. Pairs of one cluster are false negatives when the caption of one fits the other.",
		Small: "Groups of 9,600 pairs in the place of 5,000,000, so a k2 of 500 is a larger share. The scenes and the first model are " +
			"those of X2; the model has learned from other scenes, whose captions are true.",
	}
	nouns := []Column{{"precision", "precision", 1, 3}, {"recall", "recall", 1, 3}, {"nouns an image", "size", 1, 2}}
	obj := Table{Title: "obj(v) over k and p (eq. 7)", Head: "nouns of", Columns: nouns, Rows: []Row{{"the captions", "captions", 0}}}
	for _, k := range []float64{5, 10, 20, 50} {
		obj.Rows = append(obj.Rows, Row{fmt.Sprintf("obj(v), k = %.0f, p = 0.3", k), "obj k", k})
	}
	for _, p := range []float64{0.1, 0.2, 0.3, 0.5, 0.7} {
		obj.Rows = append(obj.Rows, Row{fmt.Sprintf("obj(v), k = 10, p = %.1f", p), "obj p", p})
	}
	se := Table{Title: "SE over k1 and k2 (eq. 9)", Head: "images", Columns: []Column{
		{"fit the caption, %", "fits", 100, 1}, {"share an object, %", "shares", 100, 1}, {"recall of fitting ones, %", "recall", 100, 1}, {"images", "size", 1, 2},
	}, Rows: []Row{{"at random", "any", 0}}}
	for _, k1 := range []float64{3, 5, 10, 20} {
		se.Rows = append(se.Rows, Row{fmt.Sprintf("SE, k1 = %.0f, k2 = 500", k1), "SE k1", k1})
	}
	for _, k2 := range []float64{20, 100, 500, 2000} {
		se.Rows = append(se.Rows, Row{fmt.Sprintf("SE, k1 = 5, k2 = %.0f", k2), "SE k2", k2})
	}
	clusters := Table{
		Title: "Pairs of one cluster over K (3.4)", Head: "pairs", Columns: []Column{{"false negatives, %", "false_negatives", 100, 3}},
		Rows: []Row{{"at random", "any", 0}},
	}
	for _, k := range []float64{64, 200, 600, 1600} {
		clusters.Rows = append(clusters.Rows, Row{fmt.Sprintf("K = %.0f", k), "clusters", k})
	}
	e.Tables = []Table{obj, se, clusters}
	e.Figures = []Figure{
		{Name: "x8-objects", Title: "obj(v) over p, k = 10", X: "p", Y: "share", Lines: []Line{{"precision", "obj p", "precision"}, {"recall", "obj p", "recall"}}},
		{Name: "x8-clusters", Title: "False negatives among pairs of one cluster", X: "K", Y: "false negatives, %", LogX: true, Factor: 100, Lines: []Line{{"one cluster", "clusters", "false_negatives"}}},
	}
	paper := Point{"obj k", 10, "precision"}
	e.Claims = []Claim{
		{Text: "obj(v) is more precise than the captions (k = 10, p = 0.3)", More: paper, Less: Point{"captions", 0, "precision"}},
		{Text: "obj(v) is more precise at p = 0.5 than at 0.1", More: Point{"obj p", 0.5, "precision"}, Less: Point{"obj p", 0.1, "precision"}},
		{Text: "images of SE fit the caption more often than others (k1 = 5, k2 = 500)", More: Point{"SE k1", 5, "fits"}, Less: Point{"any", 0, "fits"}},
		{Text: "images of SE fit more often at k2 = 100 than at 2,000", More: Point{"SE k2", 100, "fits"}, Less: Point{"SE k2", 2000, "fits"}},
		{Text: "pairs of one cluster are false negatives more often than others (K = 600)", More: Point{"clusters", 600, "false_negatives"}, Less: Point{"any", 0, "false_negatives"}},
		{Text: "smaller clusters have more false negatives (K = 1,600 against 64)", More: Point{"clusters", 1600, "false_negatives"}, Less: Point{"clusters", 64, "false_negatives"}},
	}
	return e
}
