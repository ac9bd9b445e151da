package token

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

const (
	clipMerges = 49152 - 256 - 2 // merges that CLIP uses of those in its file
	clipStart  = "<|startoftext|>"
	clipEnd    = "<|endoftext|>"
	wordEnd    = "</w>" // marks the symbol that ends a word
)

// CLIP is CLIP's byte-pair encoding over one merge file.
type CLIP struct {
	StartID, EndID int32

	inner  [256]int32 // id of a byte inside a word
	last   [256]int32 // id of a byte that ends a word
	merges map[[2]int32]merge
	digest [sha256.Size]byte
}

// merge is the result of merging two neighbouring symbols; the smallest rank goes first.
type merge struct{ rank, id int32 }

const unmergeable = math.MaxInt32

// NewCLIP reads a gzipped merge file: a line of comment, then two symbols a line, of which the first 48,894 count.
func NewCLIP(gzipped io.Reader) (*CLIP, error) {
	merges, err := gzip.NewReader(gzipped)
	if err != nil {
		return nil, fmt.Errorf("reading CLIP merges: %w", err)
	}
	return NewCLIPOf(merges)
}

// NewCLIPOf is NewCLIP for the unzipped file.
func NewCLIPOf(merges io.Reader) (*CLIP, error) {
	c := &CLIP{merges: make(map[[2]int32]merge, clipMerges)}
	ids := c.byteSymbols()
	h := sha256.New()
	lines := bufio.NewScanner(merges)
	lines.Scan() // the comment
	for len(c.merges) < clipMerges && lines.Scan() {
		rank := int32(len(c.merges))
		left, right, ok := strings.Cut(lines.Text(), " ")
		a, okA := ids[left]
		b, okB := ids[right]
		if !ok || !okA || !okB {
			return nil, fmt.Errorf("reading CLIP merges: line %d is %.40q, want two symbols made by earlier lines", rank+2, lines.Text())
		}
		if _, twice := ids[left+right]; twice {
			return nil, fmt.Errorf("reading CLIP merges: line %d makes %.40q a second time", rank+2, left+right)
		}
		id := 512 + rank
		ids[left+right] = id
		c.merges[[2]int32{a, b}] = merge{rank, id}
		fmt.Fprintln(h, lines.Text())
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading CLIP merges: %w", err)
	}
	if len(c.merges) == 0 {
		return nil, errors.New("reading CLIP merges: the file holds none")
	}
	h.Sum(c.digest[:0])
	c.StartID = 512 + int32(len(c.merges))
	c.EndID = c.StartID + 1
	return c, nil
}

// byteSymbols numbers the 256 bytes as the reference does: those that print in Latin-1 under their own character come
// first, the others follow under the characters from U+0100 on; then all of them again as the ends of words.
func (c *CLIP) byteSymbols() map[string]int32 {
	ids := make(map[string]int32, 512+clipMerges)
	next := int32(0)
	add := func(b int, symbol rune) {
		c.inner[b], c.last[b] = next, 256+next
		ids[string(symbol)], ids[string(symbol)+wordEnd] = next, 256+next
		next++
	}
	prints := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE }
	for b := range 256 {
		if prints(b) {
			add(b, rune(b))
		}
	}
	other := rune(256)
	for b := range 256 {
		if !prints(b) {
			add(b, other)
			other++
		}
	}
	return ids
}

// Digest returns an identifier of the merges.
func (c *CLIP) Digest() string { return hex.EncodeToString(c.digest[:]) }

// FillID returns the id after the end of a text: 0, as in OpenAI's code. The model ignores it.
func (c *CLIP) FillID() int32 { return 0 }

// Size returns the number of ids.
func (c *CLIP) Size() int { return int(c.EndID) + 1 }

// IDs encodes text without the start and end tokens.
func (c *CLIP) IDs(text string) []int32 {
	var ids []int32
	c.each(text, func(word []int32) bool {
		ids = append(ids, word...)
		return true
	})
	return ids
}

// Encode returns the start token, the ids of text and the end token, with as many ids of text dropped from its end as
// bring the whole to at most limit ids (CLIP's context is 77). A limit below 2 is taken as 2. Nothing is padded.
func (c *CLIP) Encode(text string, limit int) []int32 {
	limit = max(limit, 2)
	ids := make([]int32, 1, min(limit, 2+len(text)))
	ids[0] = c.StartID
	c.each(text, func(word []int32) bool {
		ids = append(ids, word[:min(len(word), limit-1-len(ids))]...)
		return len(ids) < limit-1
	})
	return append(ids, c.EndID)
}

// each yields the ids of each word of text until yield returns false.
func (c *CLIP) each(text string, yield func(word []int32) bool) {
	text = cleanCLIP(text)
	var ids, ranks []int32
	for text != "" {
		n := clipWord(text)
		word := text[:n]
		text = text[n:]
		switch {
		case word == clipStart:
			ids = append(ids[:0], c.StartID)
		case word == clipEnd:
			ids = append(ids[:0], c.EndID)
		case isSpace(firstRune(word)):
			continue
		default:
			ids, ranks = c.merge(word, ids[:0], ranks[:0])
		}
		if !yield(ids) {
			return
		}
	}
}

// merge appends the ids of word to ids, using ranks as room for the rank of the merge of each symbol with the next.
// Taking the leftmost among the lowest ranks agrees with the reference, which merges all occurrences of the best
// pair at once: a merge makes only symbols whose own merges rank later.
func (c *CLIP) merge(word string, ids, ranks []int32) ([]int32, []int32) {
	for i := range len(word) - 1 {
		ids = append(ids, c.inner[word[i]])
	}
	ids = append(ids, c.last[word[len(word)-1]])
	for i := range len(ids) - 1 {
		ranks = append(ranks, c.rank(ids[i], ids[i+1]))
	}
	for len(ranks) > 0 {
		best := 0
		for i, r := range ranks {
			if r < ranks[best] {
				best = i
			}
		}
		if ranks[best] == unmergeable {
			break
		}
		ids[best] = c.merges[[2]int32{ids[best], ids[best+1]}].id
		ids = append(ids[:best+1], ids[best+2:]...)
		ranks = append(ranks[:best], ranks[best+1:]...)
		if best > 0 {
			ranks[best-1] = c.rank(ids[best-1], ids[best])
		}
		if best < len(ranks) {
			ranks[best] = c.rank(ids[best], ids[best+1])
		}
	}
	return ids, ranks
}

func (c *CLIP) rank(a, b int32) int32 {
	if m, ok := c.merges[[2]int32{a, b}]; ok {
		return m.rank
	}
	return unmergeable
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}
