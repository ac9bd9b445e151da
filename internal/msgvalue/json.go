package msgvalue

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// JSON shows a value for people. It keeps the order of maps and shows keys that are no strings as text. It shows
// bytes as hexadecimal digits, and only the first of them when there are many.
func JSON(v any) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, appendJSON(nil, v), "", "  "); err != nil {
		panic(fmt.Sprintf("msgvalue: writing JSON: %v", err)) // a bug in appendJSON
	}
	return out.Bytes()
}

// Short shows a value in one line of at most about 80 characters.
func Short(v any) string {
	const most = 80
	text := []rune(string(appendJSON(nil, v)))
	if len(text) > most {
		return string(text[:most-1]) + "…"
	}
	return string(text)
}

// shownBytes is the number of bytes shown of a byte string: enough for ids and digests.
const shownBytes = 32

func appendJSON(out []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(out, "null"...)
	case bool:
		return strconv.AppendBool(out, v)
	case int64:
		return strconv.AppendInt(out, v, 10)
	case uint64:
		return strconv.AppendUint(out, v, 10)
	case float32:
		return appendFloat(out, float64(v), 32)
	case float64:
		return appendFloat(out, v, 64)
	case string:
		return appendText(out, v)
	case []byte:
		return appendText(out, bytesText(v))
	case Ext:
		return appendText(out, fmt.Sprintf("extension %d: %s", v.Type, bytesText(v.Data)))
	case []any:
		out = append(out, '[')
		for i, elem := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendJSON(out, elem)
		}
		return append(out, ']')
	case Map:
		out = append(out, '{')
		for i, e := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendText(out, keyText(e.Key)), ':')
			out = appendJSON(out, e.Value)
		}
		return append(out, '}')
	}
	panic(fmt.Sprintf("msgvalue: no JSON for %T", v))
}

func bytesText(b []byte) string {
	if len(b) <= shownBytes {
		return hex.EncodeToString(b)
	}
	return fmt.Sprintf("%x… (%d bytes)", b[:shownBytes/2], len(b))
}

func keyText(key any) string {
	if s, ok := key.(string); ok {
		return s
	}
	return Short(key)
}

// appendFloat writes as text what JSON has no number for.
func appendFloat(out []byte, v float64, bits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return appendText(out, strconv.FormatFloat(v, 'g', -1, bits))
	}
	return strconv.AppendFloat(out, v, 'g', -1, bits)
}

func appendText(out []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(fmt.Sprintf("msgvalue: writing text: %v", err)) // strings always encode
	}
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
