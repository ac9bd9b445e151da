package shard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pairstream/pairstream/schemas"
)

// caption is a text found for an image, and the fault that makes it unusable, if any.
type caption struct {
	text   string
	reason Reason // empty: it is good
	detail string
}

// checkCaption trims white space at both ends and judges the rest.
func checkCaption(raw []byte) caption {
	return withFault(string(bytes.TrimSpace(raw)))
}

// copied returns a good caption as the source's copy has it.
func (s *scanner) copied(c caption) caption {
	if c.reason != "" || !s.share.IsCopy() {
		return c
	}
	return withFault(s.share.Caption(c.text))
}

// withFault returns a text with its fault.
func withFault(text string) caption {
	c := caption{text: text}
	switch {
	case c.text == "":
		c.reason, c.detail = ReasonNoText, "the caption is empty"
	case len(c.text) > schemas.MaxCaptionBytes:
		c.reason = ReasonLong
		c.detail = fmt.Sprintf("the caption has %d bytes, at most %d are allowed", len(c.text), schemas.MaxCaptionBytes)
		c.text = c.text[:schemas.MaxCaptionBytes+1] // still too long, so that no reader takes it for a caption
	case !utf8.ValidString(c.text):
		c.reason, c.detail = ReasonEncoding, "the caption is not UTF-8"
	}
	return c
}

// jsonCaptions returns "caption" and then "captions" of a JSON object, at most MaxCaptions of them, and their number
// before that limit. null stands for no caption, as img2dataset writes it.
func jsonCaptions(meta *described) (captions []caption, found int) {
	fields := struct {
		Caption  json.RawMessage `json:"caption"`
		Captions json.RawMessage `json:"captions"`
	}{meta.caption, meta.captions}
	broken := meta.broken
	if meta.twice {
		broken = json.Unmarshal(meta.raw, &fields)
	}
	if broken != nil {
		return []caption{{reason: ReasonJSON, detail: "no JSON object"}}, 1
	}
	var list []json.RawMessage
	var out []caption
	if present(fields.Caption) {
		list = append(list, fields.Caption)
	}
	if present(fields.Captions) {
		var many []json.RawMessage
		if err := json.Unmarshal(fields.Captions, &many); err != nil {
			out = append(out, caption{reason: ReasonJSON, detail: `"captions" is no list`})
		}
		list = append(list, many...)
	}
	for _, raw := range list[:min(len(list), MaxCaptions)] {
		out = append(out, jsonCaption(raw))
	}
	return out, len(list)
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func jsonCaption(raw json.RawMessage) caption {
	if len(raw) == 0 || raw[0] != '"' {
		return caption{reason: ReasonJSON, detail: "a caption is no string"}
	}
	// encoding/json silently replaces bytes that are not UTF-8, so they are looked for first.
	if !utf8.Valid(raw) {
		return caption{text: string(raw[1 : len(raw)-1]), reason: ReasonEncoding, detail: "the caption is not UTF-8"}
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return caption{reason: ReasonJSON, detail: "a caption is no string: " + err.Error()}
	}
	return checkCaption([]byte(text))
}

// JSONCaptions returns the valid captions among JSON strings, at most MaxCaptions, and the reasons of the others.
// Repeated captions are returned repeatedly.
func JSONCaptions(list []json.RawMessage) (good []string, bad []Reason) {
	if len(list) > MaxCaptions {
		list, bad = list[:MaxCaptions], append(bad, ReasonMany)
	}
	for _, raw := range list {
		c := jsonCaption(raw)
		if c.reason != "" {
			bad = append(bad, c.reason)
			continue
		}
		good = append(good, c.text)
	}
	return good, bad
}

// distinct drops captions that repeat an earlier one.
func distinct(all []caption) []caption {
	if len(all) < 2 {
		return all
	}
	seen := make(map[string]bool, len(all))
	var out []caption
	for _, c := range all {
		key := string(c.reason) + "\x00" + c.text
		if !seen[key] {
			seen[key] = true
			out = append(out, c)
		}
	}
	return out
}

// sourceOf returns where the pair was crawled: "url" of key.json or of the table beside the tar, as img2dataset writes
// them, or the position in the tar.
func sourceOf(ex Example, meta *described) string {
	url, _ := ex.Row["url"].(string)
	switch {
	case meta.broken != nil:
		url = ""
	case meta.twice: // the last one counts
		fields := struct {
			URL string `json:"url"`
		}{url}
		if json.Unmarshal(meta.raw, &fields) != nil {
			fields.URL = ""
		}
		url = fields.URL
	case meta.url != nil:
		url = textOr(meta.url, url)
	}
	uri := ex.Image.URI
	if url != "" && len(url) <= schemas.MaxURIBytes {
		return cut(url, schemas.MaxURIBytes)
	}
	return cut(uri[strings.LastIndexByte(uri, '/')+1:]+"#"+ex.Key, schemas.MaxURIBytes)
}

// textOr reads a JSON string. It returns the earlier value for null, and "" for anything else.
func textOr(raw json.RawMessage, before string) string {
	if isPlainText(string(raw)) {
		return string(raw[1 : len(raw)-1])
	}
	if json.Unmarshal(raw, &before) != nil {
		return ""
	}
	return before
}
