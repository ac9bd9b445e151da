package discriminator

import (
	"github.com/pairstream/pairstream/internal/base/interval"
	"github.com/pairstream/pairstream/schemas"
)

// LeastPrecision is the default precision below which connections are off. In experiment X2 random connections of
// precision 0.25 do as well as none, and those of 0.5 help. A model of precision 0.26 harms, because its errors are not
// random.
const LeastPrecision = 0.4

const (
	// leastKnown is how many pairs of a kind tell how it is distributed.
	leastKnown = 128
	// leastAbove is how many known positives and independent candidates must lie above a threshold to say something about
	// it.
	leastAbove = 8
)

// above counts the probabilities above a threshold, as the trainer compares them.
func above(list []float32, threshold float64) (n int) {
	for _, p := range list {
		if p > float32(threshold) {
			n++
		}
	}
	return n
}

// Precision estimates the share of true pairs among the candidates that Con-D confirms above a threshold, as the
// package documentation derives it. Without known positives and edited captions the interval is 0 to 1.
func (k Known) Precision(threshold float64) schemas.Precision { return k.fit().precision(threshold) }

func (m *mixture) precision(threshold float64) schemas.Precision {
	k := m.known
	p := schemas.Precision{
		Above: threshold, High: 1, Candidates: int32(len(k.Candidates)),
		Negatives: int32(len(k.Edited) + len(k.Reworded) + len(k.Others) + len(k.Contradicting)),
	}
	confirmed := above(k.Candidates, threshold)
	p.Confirmed = share(confirmed, max(len(k.Candidates), 1))
	if len(m.shapes) == 0 || confirmed < leastAbove*clumps || above(k.Positives, threshold) < leastAbove {
		return p
	}
	open := confirmed - above(k.Contradicting, threshold)
	of, bin := share(open, confirmed), binOf(float32(threshold))+1
	ofLow, ofHigh := interval.Wilson(open/clumps, confirmed/clumps)
	p.Low, p.High = 1, 0
	for _, s := range m.shapes {
		p.Value += of * m.right(s.whole.base, s.whole.positives, bin) / float64(len(m.shapes))
		p.Base += s.whole.base * share(len(k.Candidates)-len(k.Contradicting), len(k.Candidates)) / float64(len(m.shapes))
		low, high := m.interval(s, bin)
		p.Low, p.High = min(p.Low, ofLow*low), max(p.High, ofHigh*high)
	}
	p.Low, p.High = min(p.Low, p.Value), min(1, max(p.High, p.Value))
	return p
}

func share(part, whole int) float64 { return float64(part) / float64(whole) }

const (
	// enough is the number of known positives at the guard's first look. It looks again whenever the number has
	// doubled. A look after every batch would find a precision above the threshold by chance.
	enough = 256
	// most is the number at which it decides in any case.
	most = 4096
)

// People counts the judgements of connections of a random sample.
type People struct {
	Judged int `json:"judged,omitempty"`
	Right  int `json:"right,omitempty"` // of these: matches
}

// LeastJudged is the number of judgements from which on they count. Fewer can differ much from the truth by chance.
const LeastJudged = 20

// With adds to an estimate what people say. They are right but for chance, and so count most (see [interval.Pool]).
func (p People) With(e schemas.Precision) schemas.Precision {
	if p.Judged < LeastJudged {
		return e
	}
	s := interval.Pool(p.Right, p.Judged, interval.Share{Value: e.Value, Low: e.Low, High: e.High})
	e.Value, e.Low, e.High = s.Value, s.Low, s.High
	e.Judged, e.Right = int32(p.Judged), int32(p.Right)
	return e
}

// Check reports the estimated precision of Con-D. It stays open until the whole interval of the precision lies above or
// below least, or until 4,096 known positives are seen. A Con-D that confirms nothing has nothing to mine. Between two
// looks it estimates nothing.
func (k Known) Check(threshold, least float64, people People) schemas.Check {
	m := &mixture{known: k}
	if k.Looks() {
		m = k.fit()
	}
	p := people.With(m.precision(threshold))
	doubt := p.Confirmed > 0 && p.Low <= least && p.High > least
	return schemas.Check{
		Positives: int32(k.Pairs), AUC: k.AUC(), Least: least, Open: !k.Looks() || doubt && k.Pairs < most, Precision: &p,
	}
}

// Looks reports whether the known positives of the last batch have reached a number at which the guard looks.
func (k Known) Looks() bool {
	for at := enough; at <= most; at *= 2 {
		if k.Before < at && k.Pairs >= at {
			return true
		}
	}
	return k.Pairs >= most
}

// Thresholds are those that [Known.Threshold] chooses from.
func Thresholds() (list []float64) {
	for i := 50; i < 100; i++ {
		list = append(list, float64(i)/100)
	}
	return list
}

// Threshold returns the lowest threshold from 0.5 to 0.99 whose connections are true in more than a share, by the lower
// end of the interval. Without one it is the threshold with the highest lower end.
func (k Known) Threshold(least float64) float64 {
	best, highest := Thresholds()[0], -1.0
	m := k.fit()
	for _, t := range Thresholds() {
		low := m.precision(t).Low
		if low > least {
			return t
		}
		if low > highest {
			best, highest = t, low
		}
	}
	return best
}
