package model

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/safetensors"
)

// These are further keys in the metadata of a weights file. Files without them are as they were before there were such keys.
const (
	calibrationKey = "pairstream.calibration" // JSON of Calibration
	cardKey        = "pairstream.card"        // JSON of whoever trained the weights
)

// Calibration turns the logits of a matching head into probabilities that hold among the candidates that Con-D is asked about:
// of pairs with probability 0.8, about 80 % match. Temperature divides the difference of the logits, and Offset is added.
// The order of pairs stays as it is. A nil Calibration leaves the softmax as it is.
type Calibration struct {
	Temperature float64 `json:"temperature"`
	Offset      float64 `json:"offset"`
	BaseRate    float64 `json:"base_rate"` // share of true pairs among the candidates, as it was declared
	Pairs       int     `json:"pairs"`     // held-out pairs from which it was fitted, true ones and others
}

// Validate returns an error for a calibration that would not keep the order of pairs.
func (c *Calibration) Validate() error {
	if c == nil || finitePositive(c.Temperature) && !math.IsNaN(c.Offset) && !math.IsInf(c.Offset, 0) {
		return nil
	}
	return fmt.Errorf("calibration has temperature %g and offset %g, want a temperature above 0 and finite numbers", c.Temperature, c.Offset)
}

func finitePositive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

// Probability returns the probability of a match.
func (c *Calibration) Probability(l Logits) float32 {
	if c == nil {
		return l.Probability()
	}
	return float32(1 / (1 + math.Exp(-c.Score(float64(l.Match)-float64(l.Mismatch)))))
}

// Score returns the calibrated logit of a difference of logits.
func (c *Calibration) Score(difference float64) float64 {
	if c == nil {
		return difference
	}
	return difference/c.Temperature + c.Offset
}

// text returns what a fingerprint hashes of a calibration.
func (c *Calibration) text() string {
	return fmt.Sprintf("calibration %x %x", math.Float64bits(c.Temperature), math.Float64bits(c.Offset))
}

// readAbout takes calibration and card out of a file's metadata.
func (m *Model) readAbout(f *safetensors.File) error {
	m.Card = f.Metadata[cardKey]
	text, ok := f.Metadata[calibrationKey]
	if !ok {
		return nil
	}
	c := new(Calibration)
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return fmt.Errorf("decoding metadata %s: %w", calibrationKey, err)
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("reading metadata %s: %w", calibrationKey, err)
	}
	m.Calibration = c
	return nil
}

// writeAbout adds calibration and card to a file's metadata, if there are any.
func (m *Model) writeAbout(metadata map[string]string) error {
	if m.Card != "" {
		metadata[cardKey] = m.Card
	}
	if m.Calibration == nil {
		return nil
	}
	text, err := json.Marshal(m.Calibration)
	if err != nil {
		return fmt.Errorf("encoding the calibration: %w", err)
	}
	metadata[calibrationKey] = string(text)
	return nil
}
