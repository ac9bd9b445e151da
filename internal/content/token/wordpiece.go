package token

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// The special tokens of a WordPiece vocabulary, in the order in which [BuildVocab] numbers them.
const (
	Pad       = "[PAD]"
	Unknown   = "[UNK]"
	Class     = "[CLS]"
	Separator = "[SEP]"
	Mask      = "[MASK]"
)

var specials = [...]string{Pad, Unknown, Class, Separator, Mask}

// continuation marks a piece that does not start a word.
const continuation = "##"

// maxWordRunes is the length above which a word is unknown without being looked up.
const maxWordRunes = 100

// WordPiece is BERT's uncased tokenizer over one vocabulary.
type WordPiece struct {
	// The ids of the special tokens.
	PadID, UnknownID, ClassID, SeparatorID, MaskID int32

	vocab        []string
	starts       map[string]int32 // pieces that start a word, and the special tokens
	rest         map[string]int32 // pieces that go on with a word, without their "##"
	maxStart     int              // bytes of the longest of starts
	maxRest      int              // bytes of the longest of rest
	specialIDs   [len(specials)]int32
	captionWords int // of PrepareCaptions
}

// ReadVocab reads a vocabulary file: one token a line, its id the number of the line.
func ReadVocab(r io.Reader) ([]string, error) {
	var vocab []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		token := lines.Text()
		if vocab == nil {
			token = strings.TrimPrefix(token, "\ufeff") // the byte order mark of some editors
		}
		vocab = append(vocab, token)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading vocabulary line %d: %w", len(vocab)+1, err)
	}
	return vocab, nil
}

// FromFile reads a vocabulary or merges, which errors name, from a file.
func FromFile[T any](what, path string, read func(io.Reader) (T, error)) (T, error) {
	file, err := os.Open(path)
	if err != nil {
		return *new(T), fmt.Errorf("opening the %s: %w", what, err)
	}
	out, err := read(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return out, fmt.Errorf("reading the %s of %s: %w", what, path, err)
	}
	return out, nil
}

// NewWordPiece makes the tokenizer whose token vocab[i] has id i. It wants every special token, and no token twice.
func NewWordPiece(vocab []string) (*WordPiece, error) {
	w := &WordPiece{
		vocab:  append([]string(nil), vocab...),
		starts: make(map[string]int32, len(vocab)),
		rest:   make(map[string]int32, len(vocab)/4),
	}
	for i, tok := range w.vocab {
		pieces, piece, longest := w.starts, tok, &w.maxStart
		if after, ok := strings.CutPrefix(tok, continuation); ok && after != "" {
			pieces, piece, longest = w.rest, after, &w.maxRest
		}
		if other, ok := pieces[piece]; ok {
			return nil, fmt.Errorf("making the WordPiece tokenizer: token %q has ids %d and %d", tok, other, i)
		}
		if tok == "" {
			return nil, fmt.Errorf("making the WordPiece tokenizer: token %d is empty", i)
		}
		pieces[piece] = int32(i)
		*longest = max(*longest, len(piece))
	}
	for i, name := range specials {
		id, ok := w.starts[name]
		if !ok {
			return nil, fmt.Errorf("making the WordPiece tokenizer: vocabulary of %d tokens lacks %s", len(vocab), name)
		}
		w.specialIDs[i] = id
	}
	w.PadID, w.UnknownID, w.ClassID, w.SeparatorID, w.MaskID =
		w.specialIDs[0], w.specialIDs[1], w.specialIDs[2], w.specialIDs[3], w.specialIDs[4]
	return w, nil
}

// PrepareCaptions makes Encode apply [PreCaption] first, with at most words words; 0: texts are encoded as they are.
func (w *WordPiece) PrepareCaptions(words int) { w.captionWords = words }

// FillID returns the id of padding.
func (w *WordPiece) FillID() int32 { return w.PadID }

// Digest returns an identifier of the vocabulary.
func (w *WordPiece) Digest() string {
	h := sha256.New()
	for _, tok := range w.vocab {
		fmt.Fprintln(h, tok)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Size returns the number of tokens in the vocabulary.
func (w *WordPiece) Size() int { return len(w.vocab) }

// Vocab returns the vocabulary in id order; the caller must not change it.
func (w *WordPiece) Vocab() []string { return w.vocab }

// ID returns the id of a token, pieces with their "##"; false when the vocabulary does not hold it.
func (w *WordPiece) ID(tok string) (int32, bool) {
	if after, ok := strings.CutPrefix(tok, continuation); ok && after != "" {
		id, found := w.rest[after]
		return id, found
	}
	id, found := w.starts[tok]
	return id, found
}

// Tokens cuts text into tokens, without [CLS] and [SEP].
func (w *WordPiece) Tokens(text string) []string {
	var tokens []string
	w.each(text, func(id int32) bool {
		tokens = append(tokens, w.vocab[id])
		return true
	})
	return tokens
}

// Encode returns [CLS], the ids of text and [SEP], with as many ids of text dropped from its end as bring the whole to
// at most limit ids. A limit below 2 is taken as 2. Nothing is padded.
func (w *WordPiece) Encode(text string, limit int) []int32 {
	limit = max(limit, 2)
	if w.captionWords > 0 {
		text = PreCaption(text, w.captionWords)
	}
	ids := make([]int32, 1, min(limit, 2+len(text)))
	ids[0] = w.ClassID
	if limit > 2 {
		w.each(text, func(id int32) bool {
			ids = append(ids, id)
			return len(ids) < limit-1
		})
	}
	return append(ids, w.SeparatorID)
}

// each yields the ids of text until yield returns false. A special token that is written out in the text stands for
// itself, wherever it is, as in the reference; everything between is words.
func (w *WordPiece) each(text string, yield func(id int32) bool) {
	var words wordScanner
	pieces := func(word []byte) bool { return w.pieces(word, yield) }
	start := 0
	for at := 0; at < len(text); at++ {
		if text[at] != '[' {
			continue
		}
		for i, name := range specials {
			if strings.HasPrefix(text[at:], name) {
				if !words.scan(text[start:at], pieces) || !yield(w.specialIDs[i]) {
					return
				}
				start = at + len(name)
				at = start - 1
				break
			}
		}
	}
	words.scan(text[start:], pieces)
}

// pieces yields the ids of one word: the longest piece that fits, then the longest that goes on from there, and so on;
// [UNK] alone when it cannot be finished.
func (w *WordPiece) pieces(word []byte, yield func(id int32) bool) bool {
	if len(word) > maxWordRunes && utf8.RuneCount(word) > maxWordRunes {
		return yield(w.UnknownID)
	}
	var found [maxWordRunes]int32
	n := 0
	known, longest := w.starts, w.maxStart
	for start := 0; start < len(word); n++ {
		end := min(len(word), start+longest)
		for ; end > start; end-- {
			if end < len(word) && !utf8.RuneStart(word[end]) {
				continue
			}
			if id, ok := known[string(word[start:end])]; ok {
				found[n] = id
				break
			}
		}
		if end == start {
			return yield(w.UnknownID)
		}
		start = end
		known, longest = w.rest, w.maxRest
	}
	for _, id := range found[:n] {
		if !yield(id) {
			return false
		}
	}
	return true
}
