package trainer

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// ECMOptions say what Con-D's probabilities do (efficient connection mining, MAFA section 4.1).
type ECMOptions struct {
	ECMLosses `env:"ECM_LOSSES" envDefault:"itc,itm,mlm" desc:"losses that learn from connections: itc, itm and mlm, comma separated (MAFA table 14), or none"`
	// Eliminate removes false negatives instead of converting them (ECM-E, MAFA Table 5). A connection then leaves the ITC
	// row of its anchor, gives no ITM pair and no MLM row.
	Eliminate bool `env:"ECM_ELIMINATE" envDefault:"false" desc:"remove false negatives instead of converting them (ECM-E)"`
	// High is the probability above which a candidate is a connection; 0.8 in MAFA section 4.1.
	High float64 `env:"ECM_HIGH" envDefault:"0.8" desc:"probability above which a candidate is a connection"`
	// Low is the probability below which it is a negative; 0.5 in MAFA section 4.1. Low..High is ambiguous.
	Low float64 `env:"ECM_LOW" envDefault:"0.5" desc:"probability below which a candidate is a negative; from LOW to HIGH it is passed over"`
}

// ECMLosses tells which losses connections are let into (MAFA supplement G.5, Table 14). All are in MAFA.
type ECMLosses struct{ ITC, ITM, MLM bool }

// UnmarshalText reads names that commas separate, or none.
func (l *ECMLosses) UnmarshalText(text []byte) error {
	var read ECMLosses
	if string(text) != "none" {
		for name := range strings.SplitSeq(string(text), ",") {
			switch strings.TrimSpace(name) {
			case "itc":
				read.ITC = true
			case "itm":
				read.ITM = true
			case "mlm":
				read.MLM = true
			default:
				return errors.New("want itc, itm and mlm, comma separated, or none")
			}
		}
	}
	*l = read
	return nil
}

// String returns what UnmarshalText reads.
func (l ECMLosses) String() string {
	var names []string
	for name, on := range map[string]bool{"itc": l.ITC, "itm": l.ITM, "mlm": l.MLM} {
		if on {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(names, ","), "none")
}

// Class is what Con-D says of a hard negative (MAFA section 4.1).
type Class uint8

const (
	Negative    Class = iota // probability below Low, or the batch was not scored: a true negative
	Ambiguous                // Low..High, both included: re-sampled in ITM
	Connection               // above High: a false negative, taken as a new positive
	NoCandidate              // the anchor has nothing to choose from
)

// ClassOf returns the class of a probability. Exactly Low and exactly High are ambiguous. (The authors' code drops a
// pair on a threshold, and their Algorithm 1 would keep it as a negative.) The comparison uses float32, the precision
// of the record: a probability written as 0.8 is on the threshold 0.8.
func (o ECMOptions) ClassOf(p float32) Class {
	switch {
	case p > float32(o.High):
		return Connection
	case p >= float32(o.Low):
		return Ambiguous
	}
	return Negative
}
