package service

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/crawl/filter"
	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/schemas"
)

// sieve judges pairs by the rules of FILTER, and counts dropped pairs. It is safe for concurrent use.
type sieve struct {
	text     string
	rules    *filter.Rules
	language func(string) string // nil unless a rule uses it
	detect   func() (func(string) string, error)
	dropped  *prometheus.CounterVec
	gone     *forget.Set // forgotten pairs; nil: none
}

// early returns the refusal of a pair that is forgotten, or dropped by a rule on its words; else nil.
func (s *sieve) early(p *schemas.Pair) *schemas.Refusal {
	if s.gone.Crawled(p) {
		return &schemas.Refusal{ID: p.ID, ImageID: p.ImageID, Reason: schemas.MaskForgotten}
	}
	if v := s.judge(filter.Words, p, 0, 0, 0); v.Dropped() {
		return s.refusal(p, v)
	}
	return nil
}

// newSieve reads the rules. Models of languages are those that [defaultModels] finds, unless detect becomes another's.
func newSieve(text string) (*sieve, error) {
	s := &sieve{detect: detector(""), dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pairstream_encoder_filtered_pairs_total",
		Help: "Pairs that a rule of FILTER dropped, again after a restart; outcome error: the rule could not be evaluated.",
	}, []string{"rule", "outcome"})}
	return s.reading(text)
}

// reading returns a sieve with these rules, which counts with this one.
func (s *sieve) reading(text string) (*sieve, error) {
	rules, err := filter.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("FILTER: %w", err)
	}
	other := *s
	other.text, other.rules, other.language = text, rules, nil
	if rules.NeedsLanguage() {
		if other.language, err = s.detect(); err != nil {
			return nil, fmt.Errorf("FILTER: a rule speaks of lang: %w", err)
		}
	}
	for _, name := range rules.Names() {
		s.dropped.WithLabelValues(name, "false")
		s.dropped.WithLabelValues(name, "error")
	}
	return &other, nil
}

// with returns the sieve for the rules of a span, which may be those that it has.
func (s *sieve) with(text string) (*sieve, error) {
	if text == s.text {
		return s, nil
	}
	return s.reading(text)
}

// judge asks the rules of a round about a pair.
func (s *sieve) judge(round filter.Round, p *schemas.Pair, width, height int, similarity float32) filter.Verdict {
	if !s.rules.Needs(round) {
		return filter.Verdict{}
	}
	return s.rules.Judge(round, &filter.Facts{
		Caption: p.Caption, Source: p.Source, Meta: p.Meta, Language: s.language,
		Width: width, Height: height, Similarity: float64(similarity),
	})
}

// judgeSize returns an error that the core takes for final if the image's size is not wanted.
func (s *sieve) judgeSize(p *schemas.Pair, width, height int) error {
	v := s.judge(filter.Size, p, width, height, 0)
	if !v.Dropped() {
		return nil
	}
	return fmt.Errorf("%w: %w", encoder.ErrUnusable, &droppedError{v})
}

// droppedError carries a verdict through the core.
type droppedError struct{ filter.Verdict }

func (e *droppedError) Error() string { return "the pair does not meet rule " + e.Rule }

// refusal counts a drop, and returns the record that stands in the place of the pair's embedding.
func (s *sieve) refusal(p *schemas.Pair, v filter.Verdict) *schemas.Refusal {
	outcome := "false"
	if v.Why != "" {
		outcome = "error"
	}
	s.dropped.WithLabelValues(v.Rule, outcome).Inc()
	return &schemas.Refusal{ID: p.ID, ImageID: p.ImageID, Reason: schemas.MaskFiltered, Rule: v.Rule, Detail: v.Why}
}
