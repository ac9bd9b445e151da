package token

import (
	"cmp"
	"iter"
	"slices"
	"unicode/utf8"
)

// BuildVocab makes a vocabulary of at most size tokens (but never fewer than the five special ones) for [NewWordPiece]:
//
//   - the special tokens, [PAD] with id 0;
//   - the alphabet: every character of the captions as a word start and, unless it always stands alone (punctuation,
//     Chinese), as a "##" piece, so that no word over the alphabet is unknown. When the alphabet does not fit into half
//     of the vocabulary, the rarest characters are left out;
//   - whole words seen at least minCount times, the most frequent first, until size is reached.
//
// Captions are lower-cased and cut into words as the tokenizer does it. The result depends only on how often each word
// occurs, not on the order of the captions. Memory grows with the number of different words.
func BuildVocab(captions iter.Seq[string], size, minCount int) []string {
	words := countWords(captions)
	vocab := append([]string(nil), specials[:]...)
	vocab = append(vocab, alphabet(words, (size-len(vocab))/2)...)
	have := make(map[string]bool, len(vocab))
	for _, tok := range vocab {
		have[tok] = true
	}
	for _, w := range byCount(words) {
		if len(vocab) >= size || w.count < minCount {
			break
		}
		if !have[w.text] {
			vocab = append(vocab, w.text)
		}
	}
	return vocab
}

func countWords(captions iter.Seq[string]) map[string]int {
	words := make(map[string]int)
	var scanner wordScanner
	for caption := range captions {
		scanner.scan(caption, func(word []byte) bool {
			if utf8.RuneCount(word) <= maxWordRunes {
				words[string(word)]++
			}
			return true
		})
	}
	return words
}

// alphabet lists the characters of the words in code point order, then their "##" pieces, at most room tokens in all.
func alphabet(words map[string]int, room int) []string {
	characters := make(map[string]int)
	for word, n := range words {
		for _, r := range word {
			characters[string(r)] += n
		}
	}
	var starts, pieces []string
	for _, c := range byCount(characters) {
		if len(starts)+len(pieces)+2 > room {
			break
		}
		starts = append(starts, c.text)
		if r, _ := utf8.DecodeRuneInString(c.text); !isPunctuation(r) && !isHan(r) {
			pieces = append(pieces, continuation+c.text)
		}
	}
	slices.Sort(starts)
	slices.Sort(pieces)
	return append(starts, pieces...)
}

type counted struct {
	text  string
	count int
}

// byCount orders by falling count, then by text.
func byCount(counts map[string]int) []counted {
	list := make([]counted, 0, len(counts))
	for text, n := range counts {
		list = append(list, counted{text, n})
	}
	slices.SortFunc(list, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.text, b.text))
	})
	return list
}
