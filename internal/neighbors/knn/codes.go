package knn

import (
	"fmt"
	"math"
)

// Codes are rows of 8-bit integers. Row i represents its Dim values times Scales[i].
type Codes struct {
	Values []int8
	Scales []float32
	Dim    int
}

// Rows returns the number of rows.
func (c Codes) Rows() int { return len(c.Scales) }

// Part returns the rows [from, to).
func (c Codes) Part(from, to int) Codes {
	return Codes{Values: c.Values[from*c.Dim : to*c.Dim], Scales: c.Scales[from:to], Dim: c.Dim}
}

// Row appends the vector that row i represents.
func (c Codes) Row(i int, dst []float32) []float32 {
	for _, code := range c.Values[i*c.Dim : (i+1)*c.Dim] {
		dst = append(dst, float32(code)*c.Scales[i])
	}
	return dst
}

// The largest code of a row, and of a query. A product of 4,096 dimensions stays below 2^31.
const (
	mostCode  = math.MaxInt8
	mostQuery = 4095
	mostWidth = 4096
)

// EncodeRow rounds a row to codes (nearest, ties to even), and returns its scale. It computes the same on every
// machine.
func EncodeRow(row []float32, into []int8) (scale float32) { return encode(row, into, mostCode) }

// EncodeQuery rounds a query to integers of more bits, and returns their scale.
func EncodeQuery(row []float32, into []int16) (scale float32) { return encode(row, into, mostQuery) }

func encode[T int8 | int16](row []float32, into []T, mostInto float64) (scale float32) {
	most := largest(row)
	if most == 0 {
		clear(into)
		return 0
	}
	for i, x := range row {
		into[i] = T(math.RoundToEven(float64(x) * mostInto / most))
	}
	return float32(most / mostInto)
}

// AppendUnit appends a vector scaled to norm 1.
func AppendUnit(dst []float32, x []float64) []float32 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	for _, v := range x {
		if sum > 0 {
			v /= math.Sqrt(sum)
		}
		dst = append(dst, float32(v))
	}
	return dst
}

func largest(row []float32) float64 {
	most := 0.0
	for _, x := range row {
		most = max(most, math.Abs(float64(x)))
	}
	return most
}

// CodeHit is a row of a scan whose score reached the bound of a query. The score times the query's scale approximates
// the inner product of the two vectors.
type CodeHit struct {
	Query, Row int32
	Score      float32
}

// CodeScanner compares queries with rows of 8 bits. Products are exact integers, and a score is a product times the
// row's scale in float32. So every implementation finds the same rows.
type CodeScanner interface {
	// ScanCodes lists the rows whose scores reach the least of a query, in any order, in the memory of hits. Queries
	// are stored consecutively.
	ScanCodes(c Codes, queries []int16, least []float32, hits []CodeHit) ([]CodeHit, error)
}

// CheckScan verifies the arguments of a scan.
func (c Codes) CheckScan(queries []int16, least []float32) error {
	if c.Dim < 1 || c.Dim > mostWidth || len(c.Values) != c.Rows()*c.Dim || len(queries) != len(least)*c.Dim || c.Rows() > math.MaxInt32 {
		return fmt.Errorf("scanning %d x %d codes of %d values for %d queries of %d values", c.Rows(), c.Dim, len(c.Values), len(least), len(queries))
	}
	return nil
}
