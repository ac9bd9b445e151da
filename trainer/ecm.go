package trainer

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
