package batches

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/base/ownedfolder"
	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/crawl/portion"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/weights"
)

// Blended is a part of a blend in its manifest.
type Blended struct {
	Plan   string  `json:"plan"`
	Weight float64 `json:"weight"`
	SHA256 string  `json:"sha256"` // of its plan.json
}

// parseBlend reads plans and weights, such as a/:0.7,b/:0.3.
func parseBlend(text string) (parts []Blended, err error) {
	for part := range strings.SplitSeq(text, ",") {
		at := strings.LastIndex(part, ":")
		weight, err := 0.0, errors.New("it has no weight")
		if at > 0 {
			weight, err = strconv.ParseFloat(part[at+1:], 64)
		}
		if err != nil || !(weight > 0) || math.IsInf(weight, 0) {
			return nil, fmt.Errorf("--blend is %q, and %q is no plan with a weight above 0: want such as a/:0.7,b/:0.3", text, part)
		}
		parts = append(parts, Blended{Plan: part[:at], Weight: weight})
	}
	if len(parts) < 2 {
		return nil, fmt.Errorf("--blend is %q, want two plans or more, such as a/:0.7,b/:0.3", text)
	}
	return parts, nil
}

// blend writes the plan that --blend describes, unless it is there.
func (o Options) blend(ctx context.Context, w io.Writer) error {
	named, err := parseBlend(o.Blend)
	if err != nil {
		return err
	}
	if len(o.Sources) > 0 || len(o.Features) > 0 {
		return errors.New("--blend takes plans, and no data or --features besides")
	}
	folder := ownedfolder.Folder{Setting: "--out", Path: o.Out, Kind: "pairstream batches"}
	if err := folder.Check(); err != nil {
		return err
	}
	var m Manifest
	var parts []plans.Part
	for i := range named {
		b := &named[i]
		if err := folder.Apart(ownedfolder.Place{Setting: "--blend", Path: b.Plan}); err != nil {
			return err
		}
		part, err := readPlan(b.Plan)
		if err != nil {
			return fmt.Errorf("--blend: %w", err)
		}
		if b.SHA256, err = weights.Hash(filepath.Join(b.Plan, "plan.json")); err != nil {
			return err
		}
		parts = append(parts, plans.Part{Dir: b.Plan, Files: part.Files, Weight: b.Weight})
		if err := m.blendIn(b.Plan, part); err != nil {
			return err
		}
	}
	m.Blend = named
	if before, err := readPlan(o.Out); err == nil {
		if !slices.Equal(before.Blend, m.Blend) {
			return fmt.Errorf("--out=%s holds another plan: want another folder, or remove this one", o.Out)
		}
		fmt.Fprintf(w, "%s is complete\n", o.Out)
		return nil
	} else if !errors.Is(err, errNoPlan) {
		return err
	}
	if _, err := folder.Claim(); err != nil {
		return err
	}
	if m.Files, err = plans.Blend(ctx, o.Out, parts); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(o.Out, "plan.json"), m); err != nil {
		return err
	}
	for _, f := range m.Files {
		fmt.Fprintf(w, "%s: epoch %d has %d mini-batches with %d samples of %s\n", o.Out, f.Epoch, f.Batches, f.Samples, o.Blend)
	}
	return nil
}

// blendIn takes a part into the manifest of a blend, whose settings are those of the first.
func (m *Manifest) blendIn(dir string, part Manifest) error {
	sources := part.Sources
	if len(part.Inputs.Columns) > 0 { // its images lie in the plan
		sources = []string{filepath.Join(dir, imagesFolder)}
	}
	for i, path := range sources {
		if place, _, err := portion.Cut(path); err == nil && !shard.IsRemote(path) && place == path {
			if full, err := ownedfolder.Resolve(shard.LocalPath(path)); err == nil {
				sources[i] = full
			}
		}
	}
	if m.Version == 0 {
		*m = part
		m.Lanes, m.Sources, m.Inputs.Columns, m.Pairs = 1, sources, nil, part.Pairs
		return nil
	}
	for _, d := range []struct {
		what     string
		one, two any
	}{
		{"BATCH_SIZE", m.Settings["BATCH_SIZE"], part.Settings["BATCH_SIZE"]},
		{"ECM_LOW", m.Low, part.Low},
		{"the digest of tombstones", m.Forgotten, part.Forgotten},
		{"the version", m.Version, part.Version},
	} {
		if d.one != d.two {
			return fmt.Errorf("--blend: %s is %v in %s, and %v in the plans before it: want the same in all", d.what, d.two, dir, d.one)
		}
	}
	m.Sources, m.Pairs = append(slices.Clone(m.Sources), sources...), m.Pairs+part.Pairs
	return nil
}
