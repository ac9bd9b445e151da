package discriminator

import (
	"math"

	"github.com/pairstream/pairstream/internal/base/interval"
	"github.com/pairstream/pairstream/schemas"
)

// LeastPrecision is the precision that is wanted by default. In experiment X2 coins of precision 0.25 do as well as no connections, and
// those of 0.5 help. A model of precision 0.26 harms, since its errors are not random.
const LeastPrecision = 0.4

const (
	// leastNegatives is how many edited captions tell a rate.
	leastNegatives = 64
	// factor bounds how much the rate of false candidates may differ from that of edited captions: these are of a random word,
	// and those have been chosen as the hardest. It was chosen on the tuning seeds of experiment X11.
	factor = 2.5
	// clumps is how many candidates count as one draw: a pair is one in both directions, and images and texts recur.
	clumps = 4
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

// Precision estimates how much is true of the candidates that Con-D confirms above a threshold.
//
// Candidates that contradict are false. Of the others a share q is confirmed: T of the true ones and F of the false ones. So
// q = base T + (1 - base) F gives their base rate, and base T / q is how much of what is confirmed of them is true. T is measured
// on known positives, and F on edited captions.
//
// The interval adds up, as squares, what chance does at 95 % to each share. That of F is widened by a factor, for false
// candidates that no edited caption is like. Where more edited captions are confirmed than candidates, F lies below q by as
// much: photographs are so, since an edited caption still tells most of its image. Without edited captions nothing is known,
// and the interval is 0 to 1.
func (k Known) Precision(threshold float64) schemas.Precision {
	p := schemas.Precision{
		Above: threshold, High: 1, Candidates: int32(len(k.Candidates)), Negatives: int32(len(k.Edited) + len(k.Contradicting)),
	}
	if len(k.Candidates) == 0 || len(k.Positives) == 0 {
		return p
	}
	confirmed, rest := above(k.Candidates, threshold), len(k.Candidates)-len(k.Contradicting)
	p.Confirmed = share(confirmed, len(k.Candidates))
	if len(k.Edited) < leastNegatives || confirmed == 0 {
		return p
	}
	open, wrong := confirmed-above(k.Contradicting, threshold), above(k.Edited, threshold)
	s := estimate{
		of: share(open, confirmed), q: share(open, max(rest, 1)), t: share(above(k.Positives, threshold), len(k.Positives)),
		f: share(wrong, len(k.Edited)),
	}
	p.Value = s.precision()
	p.Base = p.Value * p.Confirmed / max(s.t, p.Confirmed)
	fLow, fHigh := interval.Wilson(wrong, len(k.Edited))
	ofLow, ofHigh := interval.Wilson(open/clumps, confirmed/clumps)
	qLow, qHigh := interval.Wilson(open/clumps, rest/clumps)
	p.Low = max(0, p.Value-s.distance(ofLow, qLow, min(1, fHigh*factor)))
	p.High = min(1, p.Value+s.distance(ofHigh, qHigh, min(fLow, s.q)/factor))
	return p
}

// estimate is what the precision is made of.
type estimate struct {
	of float64 // share of the confirmed candidates that do not contradict
	q  float64 // share of the candidates that do not contradict and are confirmed
	t  float64 // share of the true candidates that is confirmed
	f  float64 // share of the false ones that do not contradict
}

// precision returns 0 where no more is confirmed than of the hard negatives.
func (e estimate) precision() float64 {
	if e.q <= e.f || e.t <= e.f {
		return 0
	}
	return e.of * min(1, min(1, (e.q-e.f)/(e.t-e.f))*e.t/e.q)
}

// distance returns by how much the precision changes when three of its parts do, each alone, added up as squares.
func (e estimate) distance(of, q, f float64) float64 {
	value := e.precision()
	byOf, byQ, byF := e, e, e
	byOf.of, byQ.q, byF.f = of, q, f
	return math.Hypot(math.Hypot(byOf.precision()-value, byQ.precision()-value), byF.precision()-value)
}

func share(part, whole int) float64 { return float64(part) / float64(whole) }

const (
	// enough is the number of known positives from which on the guard decides, if the interval leaves no doubt.
	enough = 256
	// most is the number on which it decides in any case.
	most = 1024
)

// People is what people have said of connections of a random sample.
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

// Check says what is known of Con-D. It stays open until there is enough: connections are on, or off, when the whole interval
// of the precision says so, and at the latest after 1,024 known positives. A Con-D that confirms nothing has nothing to mine,
// and one that confirms no more candidates than edited captions cannot be known better by asking more.
func (k Known) Check(threshold, least float64, people People) schemas.Check {
	p := people.With(k.Precision(threshold))
	n := len(k.Positives)
	doubt := p.Value > 0 && p.Low <= least && p.High > least
	return schemas.Check{Positives: int32(n), AUC: k.AUC(), Least: least, Open: n < enough || doubt && n < most, Precision: &p}
}

// Thresholds are those that [Known.Threshold] chooses from.
func Thresholds() (list []float64) {
	for i := 50; i < 100; i++ {
		list = append(list, float64(i)/100)
	}
	return list
}

// Threshold returns the lowest threshold from 0.5 to 0.99 whose connections are true in more than a share, by the lower end
// of the interval. Without one it is the threshold with the highest lower end.
func (k Known) Threshold(least float64) float64 {
	best, highest := Thresholds()[0], -1.0
	for _, t := range Thresholds() {
		low := k.Precision(t).Low
		if low > least {
			return t
		}
		if low > highest {
			best, highest = t, low
		}
	}
	return best
}
