package token

import (
	"bytes"
	"compress/gzip"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

const fuzzMerges = "#v\na a\na a</w>\naa aa\naa a</w>\no g</w>\nd og</w>\nd o\ndo do\n! !\nÃ ©\nÃ© e</w>\na d\n"

func FuzzCLIP(f *testing.F) {
	var file bytes.Buffer
	w := gzip.NewWriter(&file)
	must.Get(w.Write([]byte(fuzzMerges)))(f)
	must.Do(f, w.Close())
	c := must.Get(NewCLIP(&file))(f)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit %= 1000
		ids := c.IDs(text)
		kept := min(max(limit, 2)-2, len(ids))
		want := slices.Concat([]int32{c.StartID}, ids[:kept], []int32{c.EndID})
		if got := c.Encode(text, limit); !slices.Equal(got, want) {
			t.Fatalf("limit %d: got %d, want %d", limit, got, want)
		}
		if text == "" {
			return
		}
		if got, _ := c.merge(text, nil, nil); !slices.Equal(got, c.mergeAsPublished(text)) {
			t.Fatalf("%q merges to %d, want %d", text, got, c.mergeAsPublished(text))
		}
	})
}

// mergeAsPublished is the reference's loop: find the best pair of the word, merge every occurrence of it from left to
// right, start again.
func (c *CLIP) mergeAsPublished(word string) []int32 {
	var ids []int32
	for i := range len(word) {
		ids = append(ids, c.inner[word[i]])
	}
	ids[len(ids)-1] = c.last[word[len(word)-1]]
	for {
		best, found := merge{rank: unmergeable}, false
		var pair [2]int32
		for i := range len(ids) - 1 {
			if m, ok := c.merges[[2]int32(ids[i:i+2])]; ok && m.rank < best.rank {
				best, pair, found = m, [2]int32(ids[i:i+2]), true
			}
		}
		if !found {
			return ids
		}
		var next []int32
		for i := 0; i < len(ids); i++ {
			if i+1 < len(ids) && [2]int32(ids[i:i+2]) == pair {
				next = append(next, best.id)
				i++
			} else {
				next = append(next, ids[i])
			}
		}
		ids = next
	}
}
