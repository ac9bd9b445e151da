package model

import (
	"fmt"
	"math"
	"slices"
)

// Calibration maps the difference of a matching head's logits to a probability that is right among Con-D's candidates:
// of pairs with probability 0.8, about 80 % match. It is linear between points, and constant outside them. A larger
// difference never has a lower probability. A nil Calibration means the plain softmax.
type Calibration struct {
	Differences   []float64 `json:"differences"`   // rising
	Probabilities []float64 `json:"probabilities"` // at these, never falling
	BaseRate      float64   `json:"base_rate"`     // share of true pairs among the candidates, declared or counted
	Pairs         int       `json:"pairs"`         // held-out pairs used for the fit
}

// rest is the share of the softmax in a calibrated probability. It keeps the order of pairs where the calibration is
// constant.
const rest = 0.001

// Validate returns an error for a calibration that would change the order of pairs.
func (c *Calibration) Validate() error {
	switch {
	case c == nil:
		return nil
	case len(c.Differences) == 0 || len(c.Differences) != len(c.Probabilities):
		return fmt.Errorf("%d differences with %d probabilities, want one for each, and at least one", len(c.Differences), len(c.Probabilities))
	}
	for i, p := range c.Probabilities {
		d := c.Differences[i]
		switch {
		case !(p >= 0 && p <= 1) || math.IsNaN(d) || math.IsInf(d, 0):
			return fmt.Errorf("probability %g at difference %g, want 0 to 1 at a finite number", p, d)
		case i > 0 && (d <= c.Differences[i-1] || p < c.Probabilities[i-1]):
			return fmt.Errorf("probability %g at difference %g behind %g at %g, want rising ones", p, d, c.Probabilities[i-1], c.Differences[i-1])
		}
	}
	return nil
}

// Probability returns the probability of a match.
func (c *Calibration) Probability(l Logits) float32 {
	if c == nil {
		return l.Probability()
	}
	return float32(c.Of(float64(l.Match) - float64(l.Mismatch)))
}

// Of returns the probability at a difference of logits. That of NaN is NaN.
func (c *Calibration) Of(difference float64) float64 {
	softmax := 1 / (1 + math.Exp(-difference))
	if c == nil || math.IsNaN(difference) {
		return softmax
	}
	return (1-rest)*c.at(difference) + rest*softmax
}

// at interpolates.
func (c *Calibration) at(difference float64) float64 {
	i, _ := slices.BinarySearch(c.Differences, difference) // the first that is not below
	switch i {
	case 0:
		return c.Probabilities[0]
	case len(c.Differences):
		return c.Probabilities[i-1]
	}
	low, high := c.Differences[i-1], c.Differences[i]
	part := (difference - low) / (high - low)
	return (1-part)*c.Probabilities[i-1] + part*c.Probabilities[i]
}

// text returns the form of a calibration that a fingerprint hashes.
func (c *Calibration) text() string {
	text := "calibration"
	for i, d := range c.Differences {
		text += fmt.Sprintf(" %x %x", math.Float64bits(d), math.Float64bits(c.Probabilities[i]))
	}
	return text
}
