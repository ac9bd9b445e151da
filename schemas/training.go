package schemas

import (
	"maps"
	"math"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
)

// FeatureBlock holds the training model's features of a mini-batch, in training order. The grouper groups the next
// epoch by them (GRIT-VLP section 3.2).
type FeatureBlock struct {
	Group     GroupID  `msgpack:"group"`            // the batch's
	Epoch     int32    `msgpack:"epoch"`            // the batch's
	Sequence  int32    `msgpack:"sequence"`         // the batch's
	Positions Int32s   `msgpack:"positions"`        // of the samples in the group, one a row
	Dim       int32    `msgpack:"dim"`              // values of a vector
	V         Float16s `msgpack:"v"`                // rows x Dim: unit vectors of the images
	T         Float16s `msgpack:"t"`                // rows x Dim: unit vectors of the texts
	Step      int64    `msgpack:"step"`             // the training step that made them
	Masked    []Mask   `msgpack:"masked,omitempty"` // samples that the step did not learn from: those masked in Con-D's record, and those whose images were gone by the time of the step
}

// Schema implements [Record].
func (*FeatureBlock) Schema() string { return SchemaFeatureBlock }

// Validate implements [Record].
func (f *FeatureBlock) Validate() error {
	if err := f.Group.validate(); err != nil {
		return err
	}
	switch {
	case f.Dim <= 0 || f.Dim > MaxDim || len(f.Positions) == 0 || len(f.Positions) > MaxBatch:
		return invalid("%d rows of %d values, want 1..%d of 1..%d", len(f.Positions), f.Dim, MaxBatch, MaxDim)
	case f.Epoch < 0 || f.Sequence < 0 || f.Step < 0:
		return invalid("epoch %d, batch %d, step %d: want none negative", f.Epoch, f.Sequence, f.Step)
	}
	for i, p := range f.Positions {
		if p < 0 {
			return invalid("position %d of row %d is negative", p, i)
		}
	}
	if err := f.V.checkUnitRows("v", len(f.Positions), int(f.Dim)); err != nil {
		return err
	}
	if err := f.T.checkUnitRows("t", len(f.Positions), int(f.Dim)); err != nil {
		return err
	}
	return validateMasks(f.Masked, len(f.Positions))
}

// The kinds of a progress report.
const (
	ProgressStep       = "step"
	ProgressEval       = "eval"
	ProgressCheckpoint = "checkpoint"
)

// Progress is a report of the trainer or of an evaluation, for people and dashboards: nothing is decided by it.
type Progress struct {
	Kind       string   `msgpack:"kind"`                 // name of the report
	Step       int64    `msgpack:"step"`                 // training steps done
	Values     Measures `msgpack:"values,omitempty"`     // losses, learning rate, counts, recalls
	Checkpoint string   `msgpack:"checkpoint,omitempty"` // file that was written
	Time       int64    `msgpack:"time,omitempty"`       // informative: Unix milliseconds
}

// Schema implements [Record].
func (*Progress) Schema() string { return SchemaProgress }

// Validate implements [Record].
func (p *Progress) Validate() error {
	if err := validateOneOf("kind", p.Kind, ProgressStep, ProgressEval, ProgressCheckpoint); err != nil {
		return err
	}
	switch {
	case p.Step < 0:
		return invalid("step %d is negative", p.Step)
	case p.Kind == ProgressCheckpoint && p.Checkpoint == "":
		return invalid("checkpoint is empty")
	}
	if err := validateText("checkpoint", p.Checkpoint, MaxURIBytes); err != nil {
		return err
	}
	return p.Values.validate()
}

// Measures are named numbers. They travel as a map in the order of the names.
type Measures map[string]float64

// EncodeMsgpack writes the map in the order of the names. The codec sorts only maps of strings.
func (m Measures) EncodeMsgpack(e *msgpack.Encoder) error {
	if err := e.EncodeMapLen(len(m)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := e.EncodeString(name); err != nil {
			return err
		}
		if err := e.EncodeFloat64(m[name]); err != nil {
			return err
		}
	}
	return nil
}

func (m Measures) validate() error {
	if len(m) > MaxMeasures {
		return invalid("%d values, want at most %d", len(m), MaxMeasures)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) { // sorted: the same record always has the same first error
		if err := validateName("name of a value", name, MaxNameBytes); err != nil {
			return err
		}
		if v := m[name]; math.IsNaN(v) || math.IsInf(v, 0) {
			return invalid("%s is %g", name, v)
		}
	}
	return nil
}
