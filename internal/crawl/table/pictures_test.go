package table_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/testing/must"
)

type encoded struct {
	Bytes []byte  `parquet:"bytes"`
	Path  *string `parquet:"path,optional"`
}

type sentence struct {
	Raw    string   `parquet:"raw"`
	Sentid int64    `parquet:"sentid"`
	Tokens []string `parquet:"tokens,list"`
}

type captioned struct {
	Image     encoded    `parquet:"image"`
	Images    []encoded  `parquet:"images,list"`
	Jpg       []byte     `parquet:"JPG"`
	Caption   string     `parquet:"caption"`
	Captions  []string   `parquet:"captions,list"`
	Repeated  []string   `parquet:"repeated"`
	Sentences []sentence `parquet:"sentences,list"`
	Only      []struct {
		Text string `parquet:"text"`
	} `parquet:"only,list"`
	Lingual struct {
		En string `parquet:"en"`
		De string `parquet:"de"`
	} `parquet:"lingual"`
	Turns []struct {
		From  string `parquet:"from"`
		Value string `parquet:"value"`
	} `parquet:"conversations,list"`
	ByName map[string]string `parquet:"byname"`
	Number int64             `parquet:"number"`
	Dotted string            `parquet:"lingual.fr"`
}

// TestPicturesTakeTextsOfOneColumn: captions are the texts of the column that is named, or of one list. Members of
// groups must be named, as only some are captions.
func TestPicturesTakeTextsOfOneColumn(t *testing.T) {
	row := captioned{
		Image: encoded{Bytes: []byte("image")}, Images: []encoded{{Bytes: []byte("i")}}, Jpg: []byte("jpg"), Caption: "one", Captions: []string{"one", "two"},
		Repeated: []string{"a", "b", "c"}, Sentences: []sentence{{"first", 1, []string{"f", "g"}}, {"second", 2, nil}}, ByName: map[string]string{"k": "v"},
		Dotted: "un",
	}
	row.Only = []struct {
		Text string `parquet:"text"`
	}{{"x"}, {"y"}}
	row.Lingual.En, row.Lingual.De = "a cat", "eine Katze"
	row.Turns = []struct {
		From  string `parquet:"from"`
		Value string `parquet:"value"`
	}{{"human", "what?"}, {"gpt", "a cat"}}
	var buf bytes.Buffer
	must.Do(t, parquet.Write(&buf, []captioned{row}))
	for _, c := range []struct {
		image, caption string
		want           string // "image: captions", or what an error says
	}{
		{"image", "caption", "image: [one]"},
		{"IMAGE", "Caption", "image: [one]"},
		{"jpg", "captions", "jpg: [one two]"},
		{"image.bytes", "repeated", "image: [a b c]"},
		{"image", "sentences.raw", "image: [first second]"},
		{"image", "sentences.Raw", "image: [first second]"},
		{"image", "only", `["only.text"]`},
		{"image", "only.text", "image: [x y]"},
		{"image", "lingual.en", "image: [a cat]"},
		{"image", "lingual.fr", "image: [un]"},
		{"image", "conversations.value", "image: [what? a cat]"},
		{"image", "sentences", `["sentences.raw" "sentences.sentid" "sentences.tokens"]`},
		{"image", "sentences.tokens", "lists of lists"},
		{"image", "sentences.sentid", "INT"},
		{"image", "sentences.none", "--caption-col"},
		{"image", "lingual", `["lingual.en" "lingual.de"]`},
		{"image", "conversations", `"conversations.value"`},
		{"image", "byname", `"byname.value"`},
		{"image", "number", "INT"},
		{"image", "text", `--caption-col`},
		{"images", "caption", "it holds lists"},
		{"number", "caption", "--image-col"},
		{"lingual", "caption", "--image-col"},
		{"none", "caption", "--image-col"},
	} {
		got := ""
		err := table.Pictures(t.Context(), bytes.NewReader(buf.Bytes()), int64(buf.Len()), table.PictureColumns{Image: c.image, Caption: c.caption}, func(p table.Picture) error {
			got += fmt.Sprintf("%s: %s", p.Encoded, p.Captions)
			return nil
		})
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want) || !strings.Contains(got, "the columns are")) {
			t.Errorf("%s, %s: %s, want %s", c.image, c.caption, got, c.want)
		}
	}
}

// TestPicturesPointAtFetch reads a list of addresses, whatever their column is called.
func TestPicturesPointAtFetch(t *testing.T) {
	for _, name := range []string{"url", "URL", "image_url"} {
		var buf bytes.Buffer
		must.Do(t, parquet.Write(&buf, []any{map[string]any{name: "a"}}, parquet.NewSchema("list", parquet.Group{name: parquet.String()})))
		err := table.Pictures(t.Context(), bytes.NewReader(buf.Bytes()), int64(buf.Len()), table.PictureColumns{Image: "image", Caption: "caption"}, nil)
		if err == nil || !strings.Contains(err.Error(), "pairstream fetch") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
