package schemas

// The verdicts of a [Judgement].
const (
	VerdictMatch   = "match"    // the text describes the image
	VerdictNoMatch = "no match" // it does not
	VerdictNone    = "none"     // withdraws an earlier verdict
)

// The samples that a [Judgement] may belong to.
const (
	SampleRandom = "random" // drawn at random from all connections of the group
	SampleMost   = "most"   // the most certain connections
	SampleLeast  = "least"  // the least certain connections
)

// Judgement is a person's verdict on a connection. The latest judgement of an image and a text counts. Judgements of
// the random sample enter the guard's estimate of precision, as long as Con-D stays the same.
type Judgement struct {
	Group       GroupID `msgpack:"group"`           // where both pairs are
	Image       PairID  `msgpack:"image"`           // the pair whose image was shown
	Text        PairID  `msgpack:"text"`            // the pair whose caption was shown
	Probability float32 `msgpack:"probability"`     // Con-D's probability of a match
	Sample      string  `msgpack:"sample"`          // how the connection was chosen
	Verdict     string  `msgpack:"verdict"`         // the person's verdict
	Time        int64   `msgpack:"time,omitempty"`  // informative: Unix milliseconds
	Model       string  `msgpack:"model,omitempty"` // fingerprint of the Con-D that was judged; empty: an earlier console wrote it
}

// Schema implements [Record].
func (*Judgement) Schema() string { return SchemaJudgement }

// Validate implements [Record].
func (j *Judgement) Validate() error {
	if err := j.Group.validate(); err != nil {
		return err
	}
	switch {
	case j.Image == PairID{} || j.Text == PairID{}:
		return invalid("pair id is missing")
	case !(j.Probability >= 0 && j.Probability <= 1): // the negation also refuses NaN
		return invalid("probability is %g, want 0..1", j.Probability)
	}
	if err := validateOneOf("sample", j.Sample, SampleRandom, SampleMost, SampleLeast); err != nil {
		return err
	}
	if j.Model != "" {
		if err := validateName("model", j.Model, MaxNameBytes); err != nil {
			return err
		}
	}
	return validateOneOf("verdict", j.Verdict, VerdictMatch, VerdictNoMatch, VerdictNone)
}
