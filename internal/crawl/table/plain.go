package table

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// byteOrderMark begins the texts of some programs.
const byteOrderMark = "\ufeff"

// errUTF16 means that a text begins with the byte order mark of UTF-16.
var errUTF16 = errors.New("it is UTF-16: save it as UTF-8")

// SkipMark reads a text after its byte order mark, if it has one. It refuses UTF-16.
func SkipMark(src io.Reader) (*bufio.Reader, error) {
	r := bufio.NewReaderSize(src, maxLineBytes)
	head, err := r.Peek(len(byteOrderMark))
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return nil, errUTF16
	case string(head) == byteOrderMark:
		_, err := r.Discard(len(byteOrderMark))
		return r, err
	}
	return r, nil
}

// PlainText returns a text without its byte order mark.
func PlainText(raw []byte) []byte { return bytes.TrimPrefix(raw, []byte(byteOrderMark)) }

// PlainJSON converts JSON as programs write it to strict JSON: without a byte order mark, and with null for the numbers
// NaN, Infinity and -Infinity of Python's json.dumps. A text without these is returned unchanged.
func PlainJSON(raw []byte) []byte {
	raw = PlainText(raw)
	if !bytes.Contains(raw, []byte("NaN")) && !bytes.Contains(raw, []byte("Infinity")) {
		return raw
	}
	out, _ := io.ReadAll(&jsonReader{from: bufio.NewReader(bytes.NewReader(raw))}) // memory has no faults
	return out
}

// noNumber returns the length of the word at the beginning of a text, if that word is a number that JSON does not have.
func noNumber(text []byte) int {
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(text, []byte(word)) {
			return len(word)
		}
	}
	return 0
}

// JSONReader converts JSON as programs write it to strict JSON, as [PlainJSON] does for a text in memory.
func JSONReader(src io.Reader) (io.Reader, error) {
	r, err := SkipMark(src)
	return &jsonReader{from: r}, err
}

// jsonReader implements io.Reader.
type jsonReader struct {
	from            *bufio.Reader
	quoted, escaped bool
	ahead           string // comes before the rest
}

// Read implements io.Reader.
func (j *jsonReader) Read(out []byte) (n int, err error) {
	for n < len(out) {
		if j.ahead != "" {
			copied := copy(out[n:], j.ahead)
			j.ahead = j.ahead[copied:]
			n += copied
			continue
		}
		c, err := j.from.ReadByte()
		if err != nil {
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		switch {
		case j.escaped:
			j.escaped = false
		case c == '"':
			j.quoted = !j.quoted
		case j.quoted:
			j.escaped = c == '\\'
		case c == 'N' || c == 'I' || c == '-':
			rest, _ := j.from.Peek(len("-Infinity") - 1) // fewer at the end
			if word := noNumber(append([]byte{c}, rest...)); word > 0 {
				_, _ = j.from.Discard(word - 1) // peeked above
				j.ahead = "null"
				continue
			}
		}
		out[n] = c
		n++
	}
	return n, nil
}
