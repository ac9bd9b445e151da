package inspect

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Checks holds the last check of the guard of connections in each lane; nil where the lane has none.
type Checks []*schemas.Check

// ReadChecks reads the scored batches of each lane up to the final check of the guard.
func ReadChecks(ctx context.Context, log *stream.Log) (Checks, error) {
	all := make(Checks, log.Config().Lanes)
	for lane := range all {
		for b, err := range stream.Values[*schemas.ScoredBatch](ctx, log, schemas.Scored, lane) {
			if err != nil {
				return nil, fmt.Errorf("reading the checks of the guard of connections: %w", err)
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

// Lines returns a line for each lane with the guard's measurement and whether connections are on. If they are off in any
// lane, a last line names the remedy.
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
