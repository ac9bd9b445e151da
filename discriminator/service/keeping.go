package service

import (
	"encoding/json"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/schemas"
)

// keeping says how much a lane keeps, and of which Con-D. The zero value keeps nothing.
type keeping struct {
	scores int
	bytes  int64
	model  string
	level  float64                    // probability from which a candidate is no negative for the trainer
	gone   func(schemas.ImageID) bool // names the images that are taken back; nil: none is
	asked  *prometheus.CounterVec
}

// register makes the metric.
func (k *keeping) register(instruments *service.Instruments) error {
	k.asked = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pairstream_discriminator_scores_total",
		Help: "Pairs of scored batches with COND_IMAGES=plain, by whether their score was kept or computed, or Con-D's vectors ruled them out.",
	}, []string{"from"})
	return instruments.Register(k.asked)
}

// bound goes on from a mark. Another Con-D or level begins to learn anew.
func (k *keeping) bound(m mark) *discriminator.Bound {
	if m.Bound != nil && m.Bound.Model == k.model && m.Bound.Level == k.level {
		return m.Bound
	}
	return discriminator.NewBound(k.model, k.level)
}

// mark is the state of a lane: that of the guard, and what candidates are ruled out.
type mark struct {
	Guard json.RawMessage      `json:"guard,omitempty"`
	Bound *discriminator.Bound `json:"bound,omitempty"`
}

// readMark reads a state. That of augmented images, and of a discriminator that ruled nothing out, is the guard's alone.
func readMark(raw []byte) (mark, error) {
	var m mark
	if len(raw) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, fmt.Errorf("reading the state %.512q of the discriminator (a newer one may have written it): %w", raw, err)
	}
	if m.Bound == nil {
		return mark{Guard: raw}, nil
	}
	return m, nil
}

// mark returns the state for a mark.
func (s *stage) mark() ([]byte, error) {
	guarded, err := s.guard.mark()
	if err != nil || s.bound == nil {
		return guarded, err
	}
	raw, err := json.Marshal(mark{Guard: guarded, Bound: s.bound})
	if err != nil {
		return nil, fmt.Errorf("writing the state of the discriminator: %w", err)
	}
	return raw, nil
}
