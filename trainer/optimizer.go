package trainer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// AdamWOptions sets the optimiser, as ALBEF does for all papers.
type AdamWOptions struct {
	Moments `env:"ADAMW" envDefault:"0.9,0.999,1e-8" desc:"AdamW's decays of the first and the second moment, and its epsilon"`
	// WeightDecay is decoupled; 0.02. It spares tensors of one dimension and names that end in "bias".
	WeightDecay float64 `env:"WEIGHT_DECAY" envDefault:"0.02" desc:"AdamW's decoupled weight decay"`
}

// Moments are AdamW's decay factors of the two moments, and the summand to the root of the second.
type Moments struct{ Beta1, Beta2, Eps float64 }

// UnmarshalText reads three numbers that commas separate.
func (m *Moments) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ",")
	var numbers [3]float64
	for i, part := range parts {
		n, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || len(parts) != len(numbers) {
			return errors.New("want three numbers, comma separated, such as 0.9,0.999,1e-8")
		}
		numbers[i] = n
	}
	*m = Moments{numbers[0], numbers[1], numbers[2]}
	return nil
}

// String returns what UnmarshalText reads.
func (m Moments) String() string { return fmt.Sprintf("%g,%g,%g", m.Beta1, m.Beta2, m.Eps) }

func (m Moments) valid() bool {
	return m.Beta1 >= 0 && m.Beta1 < 1 && m.Beta2 >= 0 && m.Beta2 < 1 && m.Eps > 0
}
