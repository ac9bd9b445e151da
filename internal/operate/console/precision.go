package console

import (
	"context"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/base/interval"
	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/schemas"
)

// precisionView shows the share of a Con-D's connections that is true, by people's judgements and by the guard.
type precisionView struct {
	Check    *schemas.Check // the guard's verdict; nil: there is none
	State    string         // on, off or measuring
	Judged   int            // connections of the random samples of all groups
	Points   []precisionPoint
	Rows     []precisionPoint // some of the points, for a table
	Proposal string
}

// precisionPoint is the share of true connections above a threshold, as people judge them.
type precisionPoint struct {
	Above  float64
	Right  int
	Judged int
	interval.Share
}

// String returns the point in words.
func (p precisionPoint) String() string {
	return fmt.Sprintf("above %g, %.0f %% are true (%.0f to %.0f %%)", p.Above, 100*p.Value, 100*p.Low, 100*p.High)
}

const (
	judgedForProposal = 20  // least judgements above a proposed threshold; the guard wants as many
	proposedPrecision = 0.8 // bound below the interval of a proposed threshold
)

// precisionPoints counts judgements above a threshold and above each higher hundredth, as long as there are any.
func precisionPoints(said []index.Said, from float64) (points []precisionPoint) {
	thresholds := []float64{from}
	for hundredth := int(100*from+1e-9) + 1; hundredth < 100; hundredth++ {
		thresholds = append(thresholds, float64(hundredth)/100)
	}
	for _, above := range thresholds {
		p := precisionPoint{Above: above}
		for _, s := range said {
			if float32(s.Probability) > float32(p.Above) {
				p.Judged++
				if s.Match {
					p.Right++
				}
			}
		}
		if p.Judged == 0 {
			break
		}
		p.Share = interval.Of(p.Right, p.Judged)
		points = append(points, p)
	}
	return points
}

// propose proposes a threshold by the judgements. The first point belongs to the threshold in use.
func propose(points []precisionPoint) string {
	if len(points) == 0 {
		return fmt.Sprintf("Judge %d of the random sample: then a threshold is proposed here, and the guard counts your judgements.", judgedForProposal)
	}
	if missing := judgedForProposal - points[0].Judged; missing > 0 {
		return fmt.Sprintf("Judge %d more of the random sample: then a threshold is proposed here, and the guard counts your judgements.", missing)
	}
	best := points[0]
	for i, p := range points {
		switch {
		case p.Judged < judgedForProposal:
			continue
		case p.Low > proposedPrecision && i == 0:
			return capitalised(p.String()) + ": the threshold can stay."
		case p.Low > proposedPrecision:
			return fmt.Sprintf("%s: set ECM_HIGH=%g.", capitalised(p.String()), p.Above)
		case p.Low > best.Low:
			best = p
		}
	}
	return fmt.Sprintf("By these judgements no threshold is certain to give more than %.0f %%. The best is this: %s. Judge more, or train Con-D longer "+
		"(pairstream finetune).", 100*proposedPrecision, best)
}

func capitalised(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// precisionOf reads the verdicts of the guard and of people on the Con-D of a group.
func (s *Server) precisionOf(ctx context.Context, g *index.Group) (*precisionView, error) {
	v := &precisionView{}
	var err error
	if v.Check, err = s.o.Index.Check(ctx, g.ID); err != nil {
		return nil, err
	}
	above := s.o.High
	if v.Check != nil {
		v.State = "on"
		switch {
		case v.Check.Open:
			v.State = "measuring"
		case v.Check.Off():
			v.State = "off"
		}
		if v.Check.Precision != nil {
			above = v.Check.Precision.Above
		}
	}
	model, err := s.o.Index.Model(ctx, g.N)
	if err != nil || model == "" {
		return v, err
	}
	said, err := s.o.Index.RandomlyJudged(ctx, model)
	if err != nil {
		return nil, err
	}
	v.Points = precisionPoints(said, above)
	v.Proposal = propose(v.Points)
	if len(v.Points) > 0 {
		v.Judged = v.Points[0].Judged
	}
	for i := 0; i < len(v.Points); i += 5 {
		v.Rows = append(v.Rows, v.Points[i])
	}
	return v, nil
}

// Curve draws the share of true connections over the threshold, with its interval, and the guard's own interval at its
// threshold.
func (v *precisionView) Curve() template.HTML {
	first := v.Points[0].Above
	p := plot{x0: first, x1: max(1, first+0.01), high: 1}
	p.axes("True connections by threshold", []float64{0, 0.25, 0.5, 0.75, 1}, func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) })
	var shares, band line
	for _, point := range v.Points {
		shares.to(&p, point.Above, point.Value)
		band.to(&p, point.Above, point.Low)
	}
	for _, point := range slices.Backward(v.Points) {
		band.to(&p, point.Above, point.High)
	}
	fmt.Fprintf(&p, `<path d="%sZ" fill="%s" fill-opacity="0.18"/><path d="%s" fill="none" stroke="%s" stroke-width="1.8"/>`, band.String(), lineColours[0], shares.String(), lineColours[0])
	if v.Check != nil && v.Check.Precision != nil && !v.Check.Open {
		g := v.Check.Precision
		fmt.Fprintf(&p, `<path d="M%.1f %.1fV%.1f" stroke="%s" stroke-width="3"/><circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`,
			p.x(g.Above), p.y(g.Low), p.y(g.High), lineColours[1], p.x(g.Above), p.y(g.Value), lineColours[1])
	}
	return p.html()
}
