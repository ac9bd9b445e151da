package evidence

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

//go:embed primary.json
var primaryClaims []byte

// primaryFile is where it lies in the repository.
const primaryFile = "lab/experiments/evidence/primary.json"

// PrimaryClaims are claims of an experiment that were chosen before it ran. All others are secondary.
type PrimaryClaims struct {
	Written    string   `json:"written"` // date
	Experiment string   `json:"experiment"`
	Claims     []string `json:"claims"` // their texts
}

// Primary returns the primary claims of all experiments.
func Primary() []PrimaryClaims {
	list, err := readPrimary(primaryClaims)
	if err != nil {
		panic(err) // a file of this repository, which a test reads
	}
	return list
}

func readPrimary(raw []byte) (list []PrimaryClaims, err error) {
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("reading %s: %w", primaryFile, err)
	}
	return list, nil
}

// IsPrimary reports whether a claim of an experiment is primary.
func IsPrimary(list []PrimaryClaims, experiment, claim string) bool {
	return slices.ContainsFunc(list, func(p PrimaryClaims) bool { return p.Experiment == experiment && slices.Contains(p.Claims, claim) })
}

// PrimaryAt returns the primary claims that were written down at a source's revision, in a working tree.
func (s Source) PrimaryAt(ctx context.Context, dir string) ([]PrimaryClaims, error) {
	raw, err := git(ctx, dir, "show", s.Revision+":"+primaryFile)
	if err != nil {
		return nil, fmt.Errorf("reading the primary claims of revision %s: %w", s.Revision, err)
	}
	return readPrimary([]byte(raw))
}
