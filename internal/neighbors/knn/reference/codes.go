package reference

import "github.com/pairstream/pairstream/internal/neighbors/knn"

var _ knn.CodeScanner = Engine{}

// ScanCodes implements [knn.CodeScanner].
func (Engine) ScanCodes(c knn.Codes, queries []int16, least []float32, hits []knn.CodeHit) ([]knn.CodeHit, error) {
	if err := c.CheckScan(queries, least); err != nil {
		return nil, err
	}
	hits = hits[:0]
	for i := range c.Rows() {
		row := c.Values[i*c.Dim : (i+1)*c.Dim]
		for q, bound := range least {
			product := int32(0)
			for j, x := range queries[q*c.Dim : (q+1)*c.Dim] {
				product += int32(x) * int32(row[j])
			}
			if score := float32(product) * c.Scales[i]; score >= bound {
				hits = append(hits, knn.CodeHit{Query: int32(q), Row: int32(i), Score: score})
			}
		}
	}
	return hits, nil
}
