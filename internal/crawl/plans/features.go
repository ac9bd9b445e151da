package plans

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/schemas"
)

// Features are vectors of an epoch by a model that was trained elsewhere. They take 4 bytes of memory per value and
// pair, and about 100 for its name.
type Features struct {
	SHA256 string // of the file
	path   string
	column string // column that names the rows: pair or key
	dim    int
	rows   map[string]int
	v, t   schemas.Float16s
}

// ReadFeatures reads a Parquet file with the columns key, image and text. If it has a column pair, with ids, these name
// the rows. Vectors are normalized to length 1, unless that is their length already to the precision of float16.
func ReadFeatures(ctx context.Context, path string) (*Features, error) {
	src, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	h := sha256.New()
	size, err := io.Copy(h, src)
	if err != nil {
		return nil, err
	}
	f := &Features{SHA256: hex.EncodeToString(h.Sum(nil)), path: path, rows: map[string]int{}}
	columns := table.VectorColumns{Names: []string{"pair", "key"}, Image: "image", Text: "text"}
	if err := table.Vectors(ctx, src, size, columns, f.add); err != nil {
		return nil, fmt.Errorf("reading features from %s: %w", path, err)
	}
	return f, nil
}

func (f *Features) add(column, name string, image, text []float32) error {
	if f.column, f.dim = column, max(f.dim, len(image)); len(image) != f.dim || len(text) != f.dim || f.dim == 0 || f.dim > schemas.MaxDim {
		return fmt.Errorf("%s %q has vectors of %d and %d values, want %d of both, 1..%d", column, name, len(image), len(text), f.dim, schemas.MaxDim)
	}
	if _, twice := f.rows[name]; twice {
		return fmt.Errorf("%s %q is there twice: where an image has several captions, name the rows by a column pair, with the ids of the plan", column, name)
	}
	f.rows[name] = len(f.rows)
	for _, way := range []struct {
		what   string
		values []float32
		to     *schemas.Float16s
	}{{"image", image, &f.v}, {"text", text, &f.t}} {
		if !unit(way.values) {
			return fmt.Errorf("the %s of %s %q has no direction: its values are zeros, infinite or not numbers", way.what, column, name)
		}
		*way.to = append(*way.to, schemas.NewFloat16s(way.values)...)
	}
	return nil
}

// unit normalizes a vector to length 1. A vector rounded from a unit vector stays unchanged, to keep its bits.
func unit(values []float32) bool {
	sum := 0.0
	for _, x := range values {
		sum += float64(x) * float64(x)
	}
	length := math.Sqrt(sum)
	if !(length > 0) || math.IsInf(length, 0) {
		return false
	}
	if math.Abs(length-1) > 1.0/2048 {
		for i, x := range values {
			values[i] = float32(float64(x) / length)
		}
	}
	return true
}

// Block returns the features of a mini-batch in the form that a trainer publishes, without masked samples.
func (f *Features) Block(b *schemas.ScoredBatch, keys Keys, step int64) (*schemas.FeatureBlock, error) {
	masked := map[int32]bool{}
	for _, m := range b.Masked {
		masked[m.Sample] = masked[m.Sample] || !m.Positive
	}
	block := &schemas.FeatureBlock{Group: b.Group, Epoch: b.Epoch, Sequence: b.Sequence, Dim: int32(f.dim), Step: step}
	for i, s := range b.Samples {
		if masked[int32(i)] {
			continue
		}
		name := s.ID.String()
		if f.column == "key" {
			name = keys(Place{s.Image.URI, s.Image.Offset})
		}
		row, ok := f.rows[name]
		if !ok {
			return nil, fmt.Errorf("%s has no features of %s %q, which is in mini-batch %d of epoch %d: want those of every sample", f.path, f.column, name, b.Sequence, b.Epoch)
		}
		block.Positions = append(block.Positions, s.Position)
		block.V = append(block.V, f.v[2*f.dim*row:2*f.dim*(row+1)]...)
		block.T = append(block.T, f.t[2*f.dim*row:2*f.dim*(row+1)]...)
	}
	return block, nil
}
