package trainer

import "slices"

// MeanSortedLabels sorts the soft labels of every anchor in descending order and averages them over the anchors (MAFA
// appendix D, steps 1 to 3). labels holds one row of the given number of columns per anchor and is left as it is.
func MeanSortedLabels(labels []float64, columns int) []float64 {
	mean := make([]float64, columns)
	rows := len(labels) / columns
	for r := range rows {
		row := slices.Clone(labels[r*columns : (r+1)*columns])
		slices.Sort(row)
		for i, v := range row {
			mean[columns-1-i] += v / float64(rows)
		}
	}
	return mean
}

// SoftLabelGroups sums the labels that [MeanSortedLabels] gives over ranks 1..5, 6..batch and beyond, the queue's (MAFA
// appendix D, steps 4 and 5; Table 2).
func SoftLabelGroups(sorted []float64, batch int) [3]float64 {
	var groups [3]float64
	for rank, v := range sorted {
		switch {
		case rank < 5:
			groups[0] += v
		case rank < batch:
			groups[1] += v
		default:
			groups[2] += v
		}
	}
	return groups
}
