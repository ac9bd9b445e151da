package schemas

import "fmt"

// Check holds a lane's measurement by the guard of connections: how precise Con-D is among the hardest candidates. A
// batch with connections off carries no candidates, so the trainer takes the hardest of all samples. A plan keeps its
// candidates, with a threshold of 1 that no probability exceeds. A Check without Precision comes from an earlier
// discriminator, which compared the AUC with COND_MIN_AUC.
type Check struct {
	Positives int32      `msgpack:"positives"`           // known positives that Con-D was asked about
	AUC       float64    `msgpack:"auc"`                 // chance that Con-D gives a known positive a higher probability than a hard negative; without a precision, than a mismatch
	Least     float64    `msgpack:"least"`               // setting COND_MIN_PRECISION: connections are off unless the lower end of the precision is above it; without a precision, COND_MIN_AUC for the AUC
	Open      bool       `msgpack:"open,omitempty"`      // too little is known yet; connections are off meanwhile
	Precision *Precision `msgpack:"precision,omitempty"` // estimated precision of the connections
	Confirmed *Confirmed `msgpack:"confirmed,omitempty"` // connections of this batch for people to judge, while connections are off
}

// Confirmed lists the candidates of a batch that Con-D confirms, as columns.
type Confirmed struct {
	Image       Int32s   `msgpack:"image"`       // sample whose image Con-D was asked about
	Text        Int32s   `msgpack:"text"`        // sample whose text Con-D was asked about
	Probability Floats32 `msgpack:"probability"` // Con-D's probability of a match
}

// Precision estimates the share of true connections among the hardest candidates, at their base rate.
type Precision struct {
	Above      float64 `msgpack:"above"`            // threshold of the probability
	Value      float64 `msgpack:"value"`            // share of the connections that are true
	Low        float64 `msgpack:"low"`              // lower end of its interval
	High       float64 `msgpack:"high"`             // upper end of its interval
	Base       float64 `msgpack:"base"`             // share of the candidates that are true
	Confirmed  float64 `msgpack:"confirmed"`        // share of the candidates that are connections
	Candidates int32   `msgpack:"candidates"`       // candidates that Con-D was asked about
	Negatives  int32   `msgpack:"negatives"`        // hard negatives that it was asked about
	Judged     int32   `msgpack:"judged,omitempty"` // connections that people have judged, which count most
	Right      int32   `msgpack:"right,omitempty"`  // of these: those that they call a match
}

// Off reports whether no connections are mined.
func (c *Check) Off() bool {
	if c.Precision != nil {
		return c.Open || c.Precision.Low <= c.Least
	}
	return c.Open || c.AUC <= c.Least
}

// String reports the measurement, the decision that follows from it, and the remedy.
func (c *Check) String() string {
	measured, setting := fmt.Sprintf("the connection discriminator (Con-D) tells %d known positives from mismatches with an AUC of %.3f (0.5: a coin)", c.Positives, c.AUC), "COND_MIN_AUC"
	if c.Precision != nil {
		measured, setting = c.Precision.String(), "COND_MIN_PRECISION"
	}
	switch {
	case c.Open:
		return measured + "; connections are off until enough are measured"
	case c.Off():
		return fmt.Sprintf("%s, and %s wants more than %g: connections are off. Train Con-D longer or on these data (pairstream finetune), "+
			"give another COND_CHECKPOINT, or mine nevertheless with %s=0", measured, setting, c.Least, setting)
	}
	return fmt.Sprintf("%s, and %s wants more than %g: connections are on", measured, setting, c.Least)
}

// String says the estimate in a sentence.
func (p *Precision) String() string {
	asked := fmt.Sprintf("of %d of the hardest candidates the connection discriminator (Con-D) confirms %.1f %% above %g", p.Candidates, 100*p.Confirmed, p.Above)
	if p.Judged > 0 {
		asked += fmt.Sprintf("; people call %d of %d of these a match", p.Right, p.Judged)
	}
	if p.Negatives == 0 && p.Judged == 0 {
		return asked + "; too few captions could be compared to tell how many of these are true (0 to 100 %)"
	}
	return fmt.Sprintf("%s; %.0f %% of these are true (%.0f to %.0f %%)", asked, 100*p.Value, 100*p.Low, 100*p.High)
}

// validate checks the figures, and that no candidate is a connection where these are off.
func (c *Check) validate(m int32, samples int, high float64) error {
	switch {
	case c.Positives < 0:
		return invalid("check of %d known positives", c.Positives)
	case !(c.AUC >= 0 && c.AUC <= 1): // the negation also refuses NaN
		return invalid("check with an AUC of %g, want 0..1", c.AUC)
	case !(c.Least > 0 && c.Least < 1):
		return invalid("check against %g, want more than 0 and less than 1", c.Least)
	}
	if c.Precision != nil {
		if err := c.Precision.validate(); err != nil {
			return err
		}
	}
	if c.Off() && m > 0 && high < 1 {
		return invalid("%d candidates, and connections are off: want none, or a threshold of 1, which no probability is above", m)
	}
	if c.Confirmed == nil {
		return nil
	}
	return c.Confirmed.validate(m, samples)
}

func (p *Precision) validate() error {
	for _, f := range []struct {
		name  string
		value float64
	}{{"above", p.Above}, {"value", p.Value}, {"low", p.Low}, {"high", p.High}, {"base", p.Base}, {"confirmed", p.Confirmed}} {
		if !(f.value >= 0 && f.value <= 1) {
			return invalid("precision with %s %g, want 0..1", f.name, f.value)
		}
	}
	if p.Low > p.Value || p.Value > p.High {
		return invalid("precision of %g is outside %g..%g", p.Value, p.Low, p.High)
	}
	if p.Candidates < 0 || p.Negatives < 0 {
		return invalid("precision of %d candidates and %d hard negatives", p.Candidates, p.Negatives)
	}
	if p.Right < 0 || p.Right > p.Judged {
		return invalid("precision of %d matches among %d judged connections", p.Right, p.Judged)
	}
	return nil
}

// validate checks that every index is a sample of the batch, and that the batch has no candidates of its own.
func (c *Confirmed) validate(m int32, samples int) error {
	if m > 0 {
		return invalid("%d candidates, and others that the check confirms: want one kind", m)
	}
	if len(c.Image) == 0 || len(c.Text) != len(c.Image) || len(c.Probability) != len(c.Image) {
		return invalid("check confirms %d images, %d texts and %d probabilities, want as many of each", len(c.Image), len(c.Text), len(c.Probability))
	}
	for i, p := range c.Probability {
		image, text := int(c.Image[i]), int(c.Text[i])
		switch {
		case min(image, text) < 0 || max(image, text) >= samples || image == text:
			return invalid("check confirms image %d and text %d of %d samples", image, text, samples)
		case !(p >= 0 && p <= 1):
			return invalid("check confirms with a probability of %g, want 0..1", p)
		}
	}
	return nil
}
