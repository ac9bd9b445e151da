package evidence

import "fmt"

// Versions returns which of n first models and which of n connection discriminators (Con-D) serve a seed, from 0. Each
// pair of them serves one of n * n seeds in a row.
func Versions(seed uint64, n int) (first, cond uint64) {
	m := uint64(max(n, 1))
	first = seed % m
	return first, (first + seed/m) % m
}

// ByModels returns a table with the difference of each claim for every pair of a first model and a Con-D, of which
// there are n each. The last columns have intervals of the means by first model, and by Con-D: they take the models for
// the sample, in place of the seeds. It returns nil unless the result has a difference.
func (r *Result) ByModels(claims []Claim, n int) [][]string {
	head := []string{"difference"}
	for pair := range n * n {
		head = append(head, fmt.Sprintf("%d%c", pair/n+1, 'A'+pair%n))
	}
	cells := [][]string{append(head, "above 0", "over first models", "over Con-Ds")}
	for _, c := range claims {
		if kinds[c.More.Name] == difference {
			if line := r.effects(c, n); line != nil {
				cells = append(cells, line)
			}
		}
	}
	if len(cells) == 1 {
		return nil
	}
	return cells
}

// effects returns the line of a claim in the table of [Result.ByModels], or nil if no seed has its measures.
func (r *Result) effects(c Claim, n int) []string {
	pairs, firsts, conds := make([][]float64, n*n), make([][]float64, n), make([][]float64, n)
	var all []float64
	for _, run := range r.Runs {
		more, less, ok := c.sides(run)
		if !ok {
			continue
		}
		d := more - less
		first, cond := Versions(run.Seed, n)
		at := int(first)*n + int(cond)
		pairs[at], firsts[first], conds[cond] = append(pairs[at], d), append(firsts[first], d), append(conds[cond], d)
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil
	}
	places := decimals(NewInterval(all))
	line, above, met := []string{c.Text}, 0, 0
	for _, values := range pairs {
		if len(values) == 0 {
			line = append(line, "-")
			continue
		}
		met++
		mean := NewInterval(values).Mean
		if mean > 0 {
			above++
		}
		line = append(line, fmt.Sprintf("%+.*f", places, mean))
	}
	return append(line, fmt.Sprintf("%d of %d", above, met), ofMeans(firsts).Format(1, places), ofMeans(conds).Format(1, places))
}

// ofMeans returns the interval of the means of the groups that have values.
func ofMeans(groups [][]float64) Interval {
	var means []float64
	for _, values := range groups {
		if len(values) > 0 {
			means = append(means, NewInterval(values).Mean)
		}
	}
	return NewInterval(means)
}
