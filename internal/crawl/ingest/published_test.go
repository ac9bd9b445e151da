package ingest_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestPublishedRowsAreTaken sends rows of well-known data sets as lines: the address, the caption, and all other
// columns as meta. A data set of Hugging Face has the bytes of its images.
func TestPublishedRowsAreTaken(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" {
			_, _ = w.Write(picture(len(r.URL.Path)))
		}
	}))
	defer web.Close()
	rows := []struct{ name, url, caption, row string }{
		{"LAION", "URL", "TEXT", `{"SAMPLE_ID": 2949826000032, "URL": "@", "TEXT": "#", "HEIGHT": 225, "WIDTH": 300, "LICENSE": "?", "NSFW": "UNLIKELY", "similarity": NaN}`},
		{"COYO", "url", "text", `{"id": 841814333321, "url": "@", "text": "#", "width": 1200, "image_phash": "a00ba15f98b0f5c2", "num_faces": 0, "watermark_score": 0.02}`},
		{"DataComp", "url", "text", `{"uid": "0000b0dfd", "url": "@", "text": "#", "original_width": 640, "clip_l14_similarity_score": 0.21, "sha256": "9f"}`},
		{"CC3M", "image", "caption", `{"caption": "#", "image": "@"}`},
		{"CC12M", "image_url", "caption", `{"image_url": "@", "caption": "#"}`},
		{"WIT", "image_url", "caption_reference_description", `{"language": "en", "page_url": "https://example.org/wiki", "image_url": "@", "caption_reference_description": "#", "is_main_image": true, "original_height": 1920}`},
		{"RedCaps", "image_url", "raw_caption", `{"image_id": "bpzj7r", "author": "djasz1", "image_url": "@", "raw_caption": "#", "subreddit": "itookapicture", "score": 2, "created_utc": 1558058400, "crosspost_parents": null}`},
		{"Hugging Face", "image", "text", `{"image": "bytes", "text": "#", "label": 7}`},
	}
	var lines strings.Builder
	for i, r := range rows {
		text := strings.NewReplacer("@", web.URL+"/"+strings.Repeat("a", i), "#", `the \"`+r.name+`\" of all`).Replace(r.row)
		members := map[string]json.RawMessage{}
		must.Do(t, json.Unmarshal([]byte(strings.ReplaceAll(text, "NaN", `"NaN"`)), &members))
		line := map[string]any{"caption": members[r.caption]}
		if string(members[r.url]) == `"bytes"` {
			line["image"] = base64.StdEncoding.EncodeToString(picture(i))
		} else {
			line["url"] = members[r.url]
		}
		maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return name == r.url || name == r.caption })
		line["meta"] = members
		raw := must.Get(json.Marshal(line))(t)
		fmt.Fprintln(&lines, strings.ReplaceAll(string(raw), `"NaN"`, "NaN")) // as Python's json.dumps writes it
	}
	d := open(t, nil)
	status, got, _ := d.post("application/x-ndjson", []byte(lines.String()))
	if status != http.StatusOK || len(got.Pairs) != len(rows) {
		t.Fatalf("%d %+v", status, got)
	}
	pairs, _ := d.published()
	for i, r := range rows {
		p := pairs[got.Pairs[i].ID]
		if p == nil || p.Caption != "the \""+r.name+"\" of all" || len(p.Inline) == 0 {
			t.Errorf("%s: published %+v", r.name, p)
			continue
		}
		want := map[string]any{
			"LAION":    map[string]any{"SAMPLE_ID": int64(2949826000032), "HEIGHT": int64(225), "WIDTH": int64(300), "LICENSE": "?", "NSFW": "UNLIKELY"},
			"DataComp": map[string]any{"uid": "0000b0dfd", "original_width": int64(640), "clip_l14_similarity_score": 0.21, "sha256": "9f"},
			"WIT":      map[string]any{"language": "en", "page_url": "https://example.org/wiki", "is_main_image": true, "original_height": int64(1920)},
			"RedCaps":  map[string]any{"image_id": "bpzj7r", "author": "djasz1", "subreddit": "itookapicture", "score": int64(2), "created_utc": int64(1558058400)},
		}[r.name]
		if want != nil && !reflect.DeepEqual(map[string]any(p.Meta), want) {
			t.Errorf("%s: meta %v, want %v", r.name, p.Meta, want)
		}
	}
}
