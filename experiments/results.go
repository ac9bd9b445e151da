package experiments

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/pairstream/pairstream/internal/atomicfile"
	"github.com/pairstream/pairstream/trainer"
)

// Results holds the results of all seeds so far.
type Results struct {
	Sampling    []*Sampling    `json:"sampling"`
	Connections []*Connections `json:"connections"`
}

// ReadResults reads what [Results.Write] wrote. A missing file holds no results.
func ReadResults(path string) (*Results, error) {
	r := &Results{}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the results so far: %w", err)
	}
	return r, nil
}

// Write writes the results, whole or not at all.
func (r *Results) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding results: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	err = atomicfile.Write(path, 0o644, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	return nil
}

// Add adds the results that are not nil and keeps the order of the seeds.
func (r *Results) Add(s *Sampling, c *Connections) {
	if s != nil {
		r.Sampling = append(r.Sampling, s)
	}
	if c != nil {
		r.Connections = append(r.Connections, c)
	}
	slices.SortFunc(r.Sampling, func(a, b *Sampling) int { return cmp.Compare(a.Seed, b.Seed) })
	slices.SortFunc(r.Connections, func(a, b *Connections) int { return cmp.Compare(a.Seed, b.Seed) })
}

// HasSampling reports whether a seed's result is there.
func (r *Results) HasSampling(seed uint64) bool {
	return slices.ContainsFunc(r.Sampling, func(s *Sampling) bool { return s.Seed == seed })
}

// HasConnections reports whether a seed's result is there.
func (r *Results) HasConnections(seed uint64) bool {
	return slices.ContainsFunc(r.Connections, func(c *Connections) bool { return c.Seed == seed })
}

// Print writes the tables.
func (r *Results) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(r.Sampling) > 0 {
		fmt.Fprintln(t, "held-out ITM error, %\tsteps\tfirst model\trandom\tGRIT\tRSUM random\tRSUM GRIT\t")
		var mean struct{ start, random, grit float64 }
		n := float64(len(r.Sampling))
		for _, s := range r.Sampling {
			fmt.Fprintf(t, "seed %d\t%d\t%.1f\t%.1f\t%.1f\t%.0f\t%.0f\t\n", s.Seed, s.Steps,
				s.Start.Match.Error, s.Random.Match.Error, s.GRIT.Match.Error, s.Random.RSUM, s.GRIT.RSUM)
			mean.start += s.Start.Match.Error / n
			mean.random += s.Random.Match.Error / n
			mean.grit += s.GRIT.Match.Error / n
		}
		fmt.Fprintf(t, "mean\t\t%.1f\t%.1f\t%.1f\t\t\t\n", mean.start, mean.random, mean.grit)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Connections) > 0 {
		fmt.Fprintln(t, "connections\tcandidates\tof them true\tabove\tconfirmed\tprecision\trecall\t")
		for _, c := range r.Connections {
			for _, v := range c.Above {
				fmt.Fprintf(t, "seed %d\t%d\t%.1f %%\t%.2f\t%d\t%.3f\t%.3f\t\n", c.Seed, c.Candidates,
					100*float64(c.True)/float64(max(c.Candidates, 1)), v.High, v.Confirmed, v.Precision, v.Recall)
			}
		}
	}
	return t.Flush()
}

// wantedPrecision is the least precision that connections should have at the papers' threshold.
const wantedPrecision = 0.8

// Check returns the claims that do not hold. GRIT must leave a lower error on average, and every seed's connections must
// be precise.
func (r *Results) Check() error {
	var problems []error
	var random, grit float64
	for _, s := range r.Sampling {
		random += s.Random.Match.Error
		grit += s.GRIT.Match.Error
	}
	if len(r.Sampling) > 0 && !(grit < random) {
		n := float64(len(r.Sampling))
		problems = append(problems, fmt.Errorf("held-out ITM error is %.1f %% by GRIT and %.1f %% by random mini-batches, want less by GRIT", grit/n, random/n))
	}
	for _, c := range r.Connections {
		for _, v := range c.Above {
			if v.High == trainer.MAFA().ECM.High && !(v.Precision > wantedPrecision) {
				problems = append(problems, fmt.Errorf("seed %d: connections have a precision of %.3f, want more than %g", c.Seed, v.Precision, wantedPrecision))
			}
		}
	}
	return errors.Join(problems...)
}
