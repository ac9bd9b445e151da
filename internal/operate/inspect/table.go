package inspect

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Print writes the state as tables. If before is an earlier state of the run, topics have a rate.
func (s *Status) Print(w io.Writer, before *Status) error {
	name := s.Namespace
	if name == "" {
		name = "default namespace"
	}
	p := printer{w: w, now: s.Time}
	lanes := "1 lane"
	if len(s.Lanes) != 1 {
		lanes = fmt.Sprintf("%d lanes", len(s.Lanes))
	}
	p.line("%s, %s, at %s\n", name, lanes, s.Time.Format("2006-01-02 15:04:05 MST"))
	p.stages(s)
	p.lanes(s)
	p.topics(s, before)
	p.account(s.Account)
	p.line("batches waiting: %s for the discriminator, %s for the trainer", Count(s.Waiting.Scoring), Count(s.Waiting.Training))
	p.training(s.Training)
	p.deadLetters(s.DeadLetters)
	return p.err
}

// printer writes lines until the first error.
type printer struct {
	w   io.Writer
	now time.Time
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// table writes rows of cells. It aligns numbers to the right, and columns whose title begins with a space to the left.
func (p *printer) table(titles []string, rows [][]string) {
	if p.err != nil {
		return
	}
	widths := make([]int, len(titles))
	for _, row := range append([][]string{titles}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(strings.TrimSpace(cell))))
		}
	}
	var b strings.Builder
	for _, row := range append([][]string{titles}, rows...) {
		var line strings.Builder
		for i, cell := range row {
			cell = strings.TrimSpace(cell)
			pad := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if strings.HasPrefix(titles[i], " ") {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
			line.WriteString("  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	p.line("%s", b.String())
}

func (p *printer) stages(s *Status) {
	var rows [][]string
	for _, stage := range s.Stages {
		worst := ""
		if stage.WorstLane >= 0 {
			worst = fmt.Sprintf("%s in lane %d", Count(s.Lanes[stage.WorstLane].Lag[stage.Name]), stage.WorstLane)
		}
		rows = append(rows, []string{stage.Name, string(stage.Reads), Count(stage.Lag), worst, p.ago(stage.LastProgress)})
	}
	p.table([]string{" stage", " reads", "lag", " most", "last progress"}, rows)
}

// connections prints the guard's estimate for every lane that has one.
func (p *printer) connections(s *Status) {
	var rows [][]string
	for _, l := range s.Lanes {
		c := l.Connections
		if c == nil {
			continue
		}
		row := []string{strconv.Itoa(l.Lane), c.State, fmt.Sprintf("%g", c.Above), "", "", "", Count(int64(c.Judged))}
		if c.State != "measuring" {
			row[3], row[4] = fmt.Sprintf("%.0f %%", 100*c.Precision), fmt.Sprintf("%.0f to %.0f %%", 100*c.Low, 100*c.High)
			row[5] = fmt.Sprintf("%.1f %%", 100*c.Base)
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		p.line("connections by lane")
		p.table([]string{"lane", " connections", "above", "true", " interval", "base rate", "judged"}, rows)
	}
}

func (p *printer) lanes(s *Status) {
	titles := []string{"lane", " state", "pairs"}
	for _, stage := range s.Stages {
		titles = append(titles, stage.Name)
	}
	titles = append(titles, "group", " open group")
	var rows [][]string
	for _, l := range s.Lanes {
		row := []string{strconv.Itoa(l.Lane), string(l.State), Count(l.Pairs)}
		for _, stage := range s.Stages {
			row = append(row, Count(l.Lag[stage.Name]))
		}
		rows = append(rows, append(row, Count(l.Group.Number), fill(l.Group)))
	}
	p.line("lag by lane")
	p.table(titles, rows)
	p.connections(s)
	var says []LaneState
	for _, l := range s.Lanes {
		if l.ConnectionsOff != "" {
			says = append(says, LaneState{"discriminator", l.Lane, l.ConnectionsOff})
		}
		says = append(says, l.Says...)
	}
	p.states(says)
}

// fill prints the size of a group as a bar and a number.
func fill(g OpenGroup) string {
	if g.Pairs == 0 {
		return "empty"
	}
	const bar = 10
	share := min(float64(g.Pairs)/float64(max(g.Size, 1)), 1)
	full := int(share * bar)
	return fmt.Sprintf("%s%s %s of %s", strings.Repeat("#", full), strings.Repeat(".", bar-full), Count(g.Pairs), Count(g.Size))
}

func (p *printer) topics(s, before *Status) {
	titles := []string{" topic", "records", "repeated", "last record"}
	if before != nil {
		titles = append(titles, "per second")
	}
	var rows [][]string
	for i, t := range s.Topics {
		row := []string{string(t.Topic), Count(t.Records), Count(t.Repeated), p.ago(t.Last)}
		if before != nil {
			rate := float64(t.Records-before.Topics[i].Records) / s.Time.Sub(before.Time).Seconds()
			row = append(row, Rate(rate))
		}
		rows = append(rows, row)
	}
	p.table(titles, rows)
}

func (p *printer) training(t *Training) {
	if t == nil {
		return
	}
	line := fmt.Sprintf("last report of training: %s at step %s", t.Kind, Count(t.Step))
	if loss, ok := t.Values["loss"]; ok {
		line += fmt.Sprintf(", loss %.3f", loss)
	}
	if t.Checkpoint != "" {
		line += ", " + t.Checkpoint
	}
	p.line("%s, %s", line, p.ago(&t.Time))
}

func (p *printer) deadLetters(counts []DeadCount) {
	if len(counts) == 0 {
		p.line("no dead letters")
		return
	}
	p.line("\ndead letters")
	var rows [][]string
	for _, c := range counts {
		rows = append(rows, []string{Count(c.Count), c.Stage, c.Reason})
	}
	p.table([]string{"records", " set aside by", " reason"}, rows)
}

// ago returns how long before now t was.
func (p *printer) ago(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return Age(p.now.Sub(*t))
}

// Age returns a duration in its largest unit. It returns "now" for a negative one, since the clocks of machines differ.
func Age(d time.Duration) string {
	switch {
	case d < time.Second:
		return "now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// Count returns a number with separators of thousands: 1,234,567.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Rate returns a number of records a second.
func Rate(perSecond float64) string {
	if perSecond >= 100 {
		return Count(int64(perSecond))
	}
	return strconv.FormatFloat(perSecond, 'f', 1, 64)
}
