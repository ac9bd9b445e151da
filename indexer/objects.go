package indexer

import (
	"cmp"
	"slices"

	"github.com/pairstream/pairstream/internal/neighbors/segment"
)

// Bounds on what captions of strangers put into a group's records and into memory. They leave ordinary groups alone.
const (
	maxVocabularyBytes = 768 << 10 // of a manifest's nouns, so that it fits the least topic
	maxDistinctNouns   = 1 << 20   // of a group, frequent or not
	maxObjects         = 64        // of an image: obj(v) is a text of which the models read the first words
)

// nounTable holds the nouns of every caption of a group. When it is full, nouns that it does not know are left out.
type nounTable struct {
	numbers map[string]int32 // of a noun, in the order of their coming
	words   []string
	counts  []int32 // captions that have the noun
	ids     []int32 // nouns of all captions, one after another
	ends    []int64 // of a caption's nouns in ids
}

// add takes the distinct nouns of the next caption.
func (t *nounTable) add(nouns []string) {
	if t.numbers == nil {
		t.numbers = make(map[string]int32)
	}
	for _, noun := range nouns {
		id, ok := t.numbers[noun]
		if !ok && len(t.words) == maxDistinctNouns {
			continue
		}
		if !ok {
			id = int32(len(t.words))
			t.numbers[noun] = id
			t.words = append(t.words, noun)
			t.counts = append(t.counts, 0)
		}
		t.counts[id]++
		t.ids = append(t.ids, id)
	}
	t.ends = append(t.ends, int64(len(t.ids)))
}

func (t *nounTable) of(position int32) []int32 {
	from := int64(0)
	if position > 0 {
		from = t.ends[position-1]
	}
	return t.ids[from:t.ends[position]]
}

// vocabulary returns S_n, the nouns in more than minCount captions, ascending, and the place of every noun in it, or
// -1. Where they have no room in a manifest, the most frequent stay, and of equals the first in the alphabet.
func (t *nounTable) vocabulary(minCount int) (words []string, places []int32) {
	places = make([]int32, len(t.words))
	for id, word := range t.words {
		places[id] = -1
		if int(t.counts[id]) > minCount {
			words = append(words, word)
		}
	}
	words = t.mostFrequent(words, maxVocabularyBytes)
	slices.Sort(words)
	for place, word := range words {
		places[t.numbers[word]] = int32(place)
	}
	return words, places
}

// mostFrequent cuts words to those with the most captions that fit into as many bytes of a manifest.
func (t *nounTable) mostFrequent(words []string, most int) []string {
	const head = 2 // bytes that the wire puts before a word
	total := 0
	for _, word := range words {
		total += head + len(word)
	}
	if total <= most {
		return words
	}
	slices.SortFunc(words, func(a, b string) int {
		return cmp.Or(cmp.Compare(t.counts[t.numbers[b]], t.counts[t.numbers[a]]), cmp.Compare(a, b))
	})
	for total > most {
		last := len(words) - 1
		total -= head + len(words[last])
		words = words[:last]
	}
	return words
}

// objectCounter computes obj(v) image by image.
type objectCounter struct {
	table  *nounTable
	places []int32
	p      float64
	seen   []int32 // by place, zero between calls
	found  []int32

	far       *outside  // nil: no other group is asked
	farPlaces [][]int32 // of the nouns of every group that is asked
}

func (c *objectCounter) see(place int32) {
	if place < 0 {
		return
	}
	if c.seen[place] == 0 {
		c.found = append(c.found, place)
	}
	c.seen[place]++
}

// objects appends to dst the places of the nouns in more than a share p of the neighbour texts, ascending. Texts of
// other groups are in far. Of more than maxObjects it takes those in the most texts, and of equals the first.
func (c *objectCounter) objects(dst, neighbours []int32, far []segment.Hit) []int32 {
	c.found = c.found[:0]
	texts := 0
	for _, j := range neighbours {
		if j < 0 {
			continue
		}
		texts++
		for _, id := range c.table.of(j) {
			c.see(c.places[id])
		}
	}
	for _, h := range far {
		texts++
		places := c.farPlaces[h.Segment]
		for _, noun := range c.far.asked[h.Segment].Nouns(int(h.Row)) {
			c.see(places[noun])
		}
	}
	first := len(dst)
	for _, place := range c.found {
		if float64(c.seen[place])/float64(texts) > c.p {
			dst = append(dst, place)
		}
	}
	if len(dst)-first > maxObjects {
		slices.SortFunc(dst[first:], func(a, b int32) int {
			return cmp.Or(cmp.Compare(c.seen[b], c.seen[a]), cmp.Compare(a, b))
		})
		dst = dst[:first+maxObjects]
	}
	for _, place := range c.found {
		c.seen[place] = 0
	}
	slices.Sort(dst[first:])
	return dst
}

func newObjectCounter(t *nounTable, places []int32, vocabulary int, p float64) *objectCounter {
	return &objectCounter{table: t, places: places, p: p, seen: make([]int32, vocabulary)}
}
