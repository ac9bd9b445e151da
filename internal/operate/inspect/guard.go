package inspect

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Checks holds the last word of the guard of connections in each lane. nil: it said nothing there.
type Checks []*schemas.Check

// ReadChecks reads the scored batches of each lane up to the guard's verdict.
func ReadChecks(ctx context.Context, log *stream.Log) (Checks, error) {
	all := make(Checks, log.Config().Lanes)
	for lane := range all {
		for b, err := range stream.Values[*schemas.ScoredBatch](ctx, log, schemas.Scored, lane) {
			if err != nil {
				return nil, fmt.Errorf("looking for the guard's verdict: %w", err)
			}
			if b.Check == nil {
				break // there is no guard
			}
			all[lane] = b.Check
			if !b.Check.Open {
				break
			}
		}
	}
	return all, nil
}

// Lines says what the guard measured in each lane and what follows. Where connections are off it also says what to do.
func (c Checks) Lines() []string {
	var out []string
	remedy := ""
	for lane, check := range c {
		if check == nil {
			continue
		}
		state := "on"
		if check.Off() {
			state = "off"
			if remedy == "" {
				remedy = check.String()
			}
		}
		if p := check.Precision; p != nil {
			out = append(out, fmt.Sprintf("%.0f %% of the connections of lane %d are true (%.0f to %.0f %%), by %d of the hardest candidates: connections are %s",
				100*p.Value, lane, 100*p.Low, 100*p.High, p.Candidates, state))
			continue
		}
		out = append(out, fmt.Sprintf("AUC %.3f on %d known positives of lane %d: connections are %s", check.AUC, check.Positives, lane, state))
	}
	if remedy != "" {
		out = append(out, remedy)
	}
	return out
}
