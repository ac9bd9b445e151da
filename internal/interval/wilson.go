// Package interval holds the intervals of counted shares.
package interval

import "math"

const z = 1.959963984540054 // of 95 %

// Wilson returns the 95 % interval of a share of which part of whole were counted. Of nothing it is 0 to 1.
func Wilson(part, whole int) (low, high float64) {
	if whole == 0 {
		return 0, 1
	}
	n, share := float64(whole), float64(part)/float64(whole)
	center := (share + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	return max(0, center-half), min(1, center+half)
}
