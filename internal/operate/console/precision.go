package console

import (
	"context"
	"fmt"
	"html/template"
	"strings"

	"github.com/pairstream/pairstream/internal/base/interval"
	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/schemas"
)

// precisionView says how much of a Con-D's connections is true, by what people and the guard say.
type precisionView struct {
	Check    *schemas.Check // the guard's word; nil: there is none
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

// String says the point in words.
func (p precisionPoint) String() string {
	return fmt.Sprintf("above %g, %.0f %% are true (%.0f to %.0f %%)", p.Above, 100*p.Value, 100*p.Low, 100*p.High)
}

const (
	// judgedForProposal is how many judgements above a threshold are wanted before it is proposed. The guard wants as
	// many.
	judgedForProposal = 20
	// proposedPrecision is what the lower end of a proposed threshold's interval is above.
	proposedPrecision = 0.8
)

// precisionPoints counts judgements above a threshold and every hundredth behind it, as far as there are any.
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

// propose says which threshold the judgements speak for. The first point is that of the threshold in use.
func propose(points []precisionPoint) string {
	if len(points) == 0 {
		return fmt.Sprintf("Judge %d of the random sample: then a threshold is proposed here, and the guard counts what you say.", judgedForProposal)
	}
	if missing := judgedForProposal - points[0].Judged; missing > 0 {
		return fmt.Sprintf("Judge %d more of the random sample: then a threshold is proposed here, and the guard counts what you say.", missing)
	}
	best := points[0]
	for i, p := range points {
		switch {
		case p.Judged < judgedForProposal:
			continue
		case p.Low > proposedPrecision && i == 0:
			return capitalised(p.String()) + ": the threshold can stay."
		case p.Low > proposedPrecision:
			return fmt.Sprintf("%s: set COND_THRESHOLD=%g.", capitalised(p.String()), p.Above)
		case p.Low > best.Low:
			best = p
		}
	}
	return fmt.Sprintf("By these judgements no threshold is certain to give more than %.0f %%. The best is this: %s. Judge more, or train Con-D longer "+
		"(pairstream finetune).", 100*proposedPrecision, best)
}

func capitalised(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// precisionOf reads what the guard and people say of the Con-D of a group.
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
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" font-family="system-ui, sans-serif" font-size="11"><title>True connections by threshold</title>`,
		plotWide, plotTall)
	first := v.Points[0].Above
	atX := func(x float64) float64 { return plotLeft + (x-first)/max(1-first, 0.01)*(plotWide-plotLeft-plotRight) }
	atY := func(share float64) float64 { return plotTop + (1-share)*(plotTall-plotTop-plotDown) }
	for _, share := range []float64{0, 0.25, 0.5, 0.75, 1} {
		fmt.Fprintf(&b, `<path d="M%g %.1fH%g" stroke="#8884"/><text x="%g" y="%.1f" text-anchor="end" fill="#888">%.0f %%</text>`,
			plotLeft, atY(share), plotWide-plotRight, plotLeft-6, atY(share)+4, 100*share)
	}
	for _, x := range ticks(first, 1, 5) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle" fill="#888">%s</text>`, atX(x), plotTall-6, tick(x))
	}
	var line, band strings.Builder
	for i, p := range v.Points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&line, "%s%.1f %.1f", command, atX(p.Above), atY(p.Value))
		fmt.Fprintf(&band, "%s%.1f %.1f", command, atX(p.Above), atY(p.Low))
	}
	for i := len(v.Points) - 1; i >= 0; i-- {
		fmt.Fprintf(&band, "L%.1f %.1f", atX(v.Points[i].Above), atY(v.Points[i].High))
	}
	fmt.Fprintf(&b, `<path d="%sZ" fill="%s" fill-opacity="0.18"/><path d="%s" fill="none" stroke="%s" stroke-width="1.8"/>`, band.String(), lineColours[0], line.String(), lineColours[0])
	if v.Check != nil && v.Check.Precision != nil && !v.Check.Open {
		p := v.Check.Precision
		fmt.Fprintf(&b, `<path d="M%.1f %.1fV%.1f" stroke="%s" stroke-width="3"/><circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`,
			atX(p.Above), atY(p.Low), atY(p.High), lineColours[1], atX(p.Above), atY(p.Value), lineColours[1])
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // numbers alone
}
