package evidence

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
)

// Measure is a number that a seed gave.
type Measure struct {
	Arm   string  `json:"arm"`         // what was compared
	X     float64 `json:"x,omitempty"` // the quantity that a sweep varies
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Run holds what one seed gave, and what it cost.
type Run struct {
	Seed     uint64    `json:"seed"`
	Seconds  float64   `json:"seconds"` // by the clock
	Load     float64   `json:"load"`    // average of the machine's last minute, at the end
	Measures []Measure `json:"measures"`
}

// Machine is where a result was made.
type Machine struct {
	Processor  string `json:"processor"`
	Processors int    `json:"processors"`
	Device     string `json:"device"` // of the tensors
	Threads    int    `json:"threads"`
}

// Result holds the runs of an experiment.
type Result struct {
	Experiment string  `json:"experiment"`
	Machine    Machine `json:"machine"`
	Source
	Scale    int             `json:"scale"` // times the size given
	Short    bool            `json:"short,omitempty"`
	Settings json.RawMessage `json:"settings"`
	Runs     []Run           `json:"runs"` // by seed
	// Digest is that of everything else, so that no number and no revision is changed by hand. Results made before there
	// was one have none.
	Digest string `json:"digest,omitempty"`
}

// path returns the file of an experiment's result.
func path(dir, id string) string { return filepath.Join(dir, id+".json") }

// Read reads the result of an experiment from a folder. It returns nil if there is none.
func Read(dir, id string) (*Result, error) {
	raw, err := os.ReadFile(path(dir, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &Result{}
	if err == nil {
		err = json.Unmarshal(raw, r)
	}
	if err == nil && r.Digest != "" {
		var sum string
		if sum, err = r.sum(); err == nil && sum != r.Digest {
			err = fmt.Errorf("its digest is %s and it says %s: it was changed by hand: run the experiment again", sum, r.Digest)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the result of %s: %w", id, err)
	}
	return r, nil
}

// Write writes the result into a folder, whole or not at all, with its digest.
func (r *Result) Write(dir string) (err error) {
	if r.Digest, err = r.sum(); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encoding the result of %s: %w", r.Experiment, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing the result of %s: %w", r.Experiment, err)
	}
	err = atomicfile.Write(path(dir, r.Experiment), 0o644, func(w io.Writer) error {
		_, err := w.Write(append(raw, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("writing the result of %s: %w", r.Experiment, err)
	}
	return nil
}

// Continues reports whether the runs of an earlier result are of the same settings and sources, so that they count.
func (r *Result) Continues(earlier *Result) bool {
	if earlier == nil || !r.same(earlier.Source) || r.Scale != earlier.Scale || r.Short != earlier.Short || r.Machine.Device != earlier.Machine.Device {
		return false
	}
	var a, b bytes.Buffer
	if json.Compact(&a, r.Settings) != nil || json.Compact(&b, earlier.Settings) != nil {
		return false
	}
	return bytes.Equal(a.Bytes(), b.Bytes())
}

// Has reports whether a seed's run is there.
func (r *Result) Has(seed uint64) bool {
	return slices.ContainsFunc(r.Runs, func(run Run) bool { return run.Seed == seed })
}

// Add adds a run and keeps the order of the seeds.
func (r *Result) Add(run Run) {
	r.Runs = append(r.Runs, run)
	slices.SortFunc(r.Runs, func(a, b Run) int { return cmp.Compare(a.Seed, b.Seed) })
}

// Point names a measure of every seed.
type Point struct {
	Arm  string
	X    float64
	Name string
}

// at returns the value of a point in a run.
func (r Run) at(p Point) (float64, bool) {
	for _, m := range r.Measures {
		if m.Arm == p.Arm && m.X == p.X && m.Name == p.Name {
			return m.Value, true
		}
	}
	return 0, false
}

// Interval returns the interval of a point over the seeds that have it.
func (r *Result) Interval(p Point) Interval {
	var values []float64
	for _, run := range r.Runs {
		if v, ok := run.at(p); ok {
			values = append(values, v)
		}
	}
	return NewInterval(values)
}

// Xs returns the values of x at which an arm has a measure, ascending.
func (r *Result) Xs(arm, name string) []float64 {
	var xs []float64
	for _, run := range r.Runs {
		for _, m := range run.Measures {
			if m.Arm == arm && m.Name == name && !slices.Contains(xs, m.X) {
				xs = append(xs, m.X)
			}
		}
	}
	slices.Sort(xs)
	return xs
}

// Seconds returns the time of all runs, added up.
func (r *Result) Seconds() float64 {
	sum := 0.0
	for _, run := range r.Runs {
		sum += run.Seconds
	}
	return sum
}
