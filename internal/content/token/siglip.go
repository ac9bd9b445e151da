package token

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// maxPieces bounds a file of SentencePiece; mT5's, the largest of SigLIP's, has 4.3 MB.
const maxPieces = 64 << 20

// SigLIP is SigLIP's tokenizer: SentencePiece's unigram model over captions in lower case, without punctuation.
type SigLIP struct {
	EndID int32 // ends a text, and fills it up

	pieces *sentencePiece
	digest string
}

// NewSigLIP reads a model of SentencePiece: spiece.model beside Hugging Face's weights of SigLIP, or the
// sentencepiece.model of T5 that the authors name. SigLIP 2 has a model of another kind, which is refused.
func NewSigLIP(in io.Reader) (*SigLIP, error) {
	raw, err := io.ReadAll(io.LimitReader(in, maxPieces+1))
	if err != nil {
		return nil, fmt.Errorf("reading SentencePiece's model: %w", err)
	}
	if len(raw) > maxPieces {
		return nil, fmt.Errorf("reading SentencePiece's model: it has more than %d bytes", maxPieces)
	}
	p, err := parseSentencePiece(raw)
	if err != nil {
		return nil, fmt.Errorf("reading SentencePiece's model: %w", err)
	}
	end, ok := p.controls["</s>"]
	if !ok {
		return nil, fmt.Errorf("reading SentencePiece's model: none of its %d pieces is </s>, which ends SigLIP's texts", p.size)
	}
	sum := sha256.Sum256(raw)
	return &SigLIP{EndID: end, pieces: p, digest: hex.EncodeToString(sum[:])}, nil
}

// Digest returns an identifier of the model.
func (t *SigLIP) Digest() string { return t.digest }

// Size returns the number of ids.
func (t *SigLIP) Size() int { return t.pieces.size }

// FillID returns the id that fills a text up to the length of the model's input.
func (t *SigLIP) FillID() int32 { return t.EndID }

// Encode returns the ids of text and the end token, with as many ids of text dropped from its end as bring the whole to
// at most limit ids (SigLIP's context is 64). A limit below 1 is taken as 1. Nothing is filled up.
func (t *SigLIP) Encode(text string, limit int) []int32 {
	ids := t.pieces.encode(canonical(text))
	return append(ids[:min(len(ids), max(limit, 1)-1)], t.EndID)
}

// canonical normalizes a caption like the authors (big_vision's canonicalization), after unescaping HTML twice as in
// open_clip: underscores become spaces, other ASCII punctuation is removed, letters are lower-cased, and white space is
// collapsed.
func canonical(text string) string {
	text = unescapeHTML(unescapeHTML(text))
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '_':
			return ' '
		case r < 0x80 && isPunctuation(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return strings.Join(strings.FieldsFunc(lowerFull(text), func(r rune) bool { return isSpace(r) || r >= 0x1C && r <= 0x1F }), " ")
}
