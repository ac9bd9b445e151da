package inspect

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/log/msgvalue"
	"github.com/pairstream/pairstream/internal/log/stream"
)

// Filter chooses dead letters. An empty field chooses all.
type Filter struct {
	Stage  string // the stage that set the record aside
	Reason string // or a part of it
}

// Match reports whether d is chosen.
func (f Filter) Match(d stream.DeadLetter) bool {
	return (f.Stage == "" || f.Stage == d.Stage) && strings.Contains(strings.ToLower(d.Reason), strings.ToLower(f.Reason))
}

// Letter is a dead letter as JSON shows it.
type Letter struct {
	Number int64     `json:"number"`
	Stage  string    `json:"stage"`
	Reason string    `json:"reason"`
	Topic  string    `json:"topic"`
	Lane   int       `json:"lane"`
	Offset int64     `json:"offset"`
	Schema string    `json:"schema,omitempty"`
	Bytes  int       `json:"bytes"`
	Time   time.Time `json:"time"`
}

// NewLetter describes d.
func NewLetter(d stream.DeadLetter) Letter {
	return Letter{
		Number: d.Number, Stage: d.Stage, Reason: d.Reason, Topic: string(d.Topic), Lane: d.Lane, Offset: d.Offset,
		Schema: d.Schema, Bytes: len(d.Value), Time: d.Time,
	}
}

// longestReason is the most of a reason that a list shows. The whole is shown with the letter itself.
const longestReason = 100

// PrintLetters writes dead letters as a table.
func PrintLetters(w io.Writer, letters []stream.DeadLetter, now time.Time) error {
	p := printer{w: w, now: now}
	var rows [][]string
	for _, d := range letters {
		reason := []rune(display.Printable(d.Reason))
		if len(reason) > longestReason {
			reason = append(reason[:longestReason-1], '…')
		}
		rows = append(rows, []string{
			strconv.FormatInt(d.Number, 10), p.ago(&d.Time), display.Printable(d.Stage), fmt.Sprintf("%s/%d/%d", display.Printable(string(d.Topic)), d.Lane, d.Offset), string(reason),
		})
	}
	p.table([]string{"number", "when", " stage", " topic/lane/offset", " reason"}, rows)
	return p.err
}

// PrintLetter writes all that is known of a dead letter: the headers and the value. It shows the value as JSON where
// it can read it, else as hexadecimal digits. It leaves most digits out unless whole is set.
func PrintLetter(w io.Writer, d stream.DeadLetter, whole bool) error {
	p := printer{w: w}
	p.line("dead letter  %d", d.Number)
	p.line("set aside    by the %s, at %s", display.Printable(d.Stage), d.Time.UTC().Format("2006-01-02 15:04:05 MST"))
	p.line("reason       %s", display.Printable(d.Reason))
	p.line("was          %s, lane %d, offset %d", display.Printable(string(d.Topic)), d.Lane, d.Offset)
	if d.Key != nil {
		p.line("key          %s", msgvalue.Short(text(d.Key)))
	}
	for _, h := range d.Headers {
		p.line("header       %s = %s", display.Printable(h.Key), msgvalue.Short(text(h.Value)))
	}
	v, err := msgvalue.Decode(d.Value)
	if err != nil {
		p.line("value        %s bytes, %s", Count(int64(len(d.Value))), display.Printable(err.Error()))
		p.line("%s", dump(d.Value, whole))
		return p.err
	}
	p.line("value        %s bytes of msgpack", Count(int64(len(d.Value))))
	for line := range strings.Lines(string(msgvalue.JSON(v))) {
		p.line("%s", display.Printable(strings.TrimSuffix(line, "\n")))
	}
	return p.err
}

// text takes bytes for text if they are printable.
func text(b []byte) any {
	if s := string(b); s == display.Printable(s) {
		return s
	}
	return b
}

// shownOfValue is the number of bytes that a dump shows of a value, unless all of it is wanted.
const shownOfValue = 256

func dump(value []byte, whole bool) string {
	if whole || len(value) <= shownOfValue {
		return strings.TrimSuffix(hex.Dump(value), "\n")
	}
	return hex.Dump(value[:shownOfValue]) + fmt.Sprintf("… and %s more (--whole)", Count(int64(len(value)-shownOfValue)))
}

// JSONLetter returns all that is known of a dead letter. The value is JSON where it can be read.
func JSONLetter(d stream.DeadLetter) ([]byte, error) {
	headers := make(map[string]any)
	for _, h := range d.Headers {
		headers[h.Key] = json.RawMessage(msgvalue.JSON(text(h.Value)))
	}
	whole := struct {
		Letter
		Headers map[string]any  `json:"headers"`
		Value   json.RawMessage `json:"value,omitempty"`
		Hex     string          `json:"hex,omitempty"`
	}{Letter: NewLetter(d), Headers: headers}
	if v, err := msgvalue.Decode(d.Value); err == nil {
		whole.Value = msgvalue.JSON(v)
	} else {
		whole.Hex = hex.EncodeToString(d.Value)
	}
	return json.MarshalIndent(whole, "", "  ")
}
