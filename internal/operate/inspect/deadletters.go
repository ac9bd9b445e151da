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

// Filter selects dead letters. An empty field selects all.
type Filter struct {
	Stage  string // the stage that set the record aside
	Reason string // a part of the reason
}

// Match reports whether the filter selects d.
func (f Filter) Match(d stream.DeadLetter) bool {
	return (f.Stage == "" || f.Stage == d.Stage) && strings.Contains(strings.ToLower(d.Reason), strings.ToLower(f.Reason))
}

// Letter is the JSON of a dead letter.
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

// NewLetter returns the JSON form of d.
func NewLetter(d stream.DeadLetter) Letter {
	return Letter{
		Number: d.Number, Stage: d.Stage, Reason: d.Reason, Topic: string(d.Topic), Lane: d.Lane, Offset: d.Offset,
		Schema: d.Schema, Bytes: len(d.Value), Time: d.Time,
	}
}

// longestReason is the number of bytes of a reason in a list. PrintLetter shows all of it.
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

// PrintLetter writes the headers and the value of a dead letter. It writes the value as JSON if it can be decoded, and
// otherwise as hexadecimal digits, shortened unless whole is set.
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

// text returns bytes as text if they are printable.
func text(b []byte) any {
	if s := string(b); s == display.Printable(s) {
		return s
	}
	return b
}

// shownOfValue is the number of bytes of a shortened value.
const shownOfValue = 256

func dump(value []byte, whole bool) string {
	if whole || len(value) <= shownOfValue {
		return strings.TrimSuffix(hex.Dump(value), "\n")
	}
	return hex.Dump(value[:shownOfValue]) + fmt.Sprintf("… and %s more (--whole)", Count(int64(len(value)-shownOfValue)))
}

// JSONLetter returns the headers and the value of a dead letter as JSON.
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
