package towers

import (
	"fmt"
	"iter"
	"math"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/model/safetensors"
)

const (
	wordTable = "text_encoder.bert.embeddings.word_embeddings.weight"
	// wordScale is the root of the mean square of a word's values. It is far from BERT's 0.02, so that training refines
	// what words mean and does not forget it.
	wordScale = 1
)

// words returns the tokens of captions with so many values each.
func (t *Towers) words(captions iter.Seq[string], width int) ([]string, safetensors.Tensor, error) {
	var none safetensors.Tensor
	all, err := token.FromFile("vocabulary", t.Vocab(), token.ReadVocab)
	if err != nil {
		return nil, none, err
	}
	pieces, err := token.NewWordPiece(all)
	if err != nil {
		return nil, none, err
	}
	f, err := safetensors.Open(filepath.Join(t.dir, "words.safetensors"))
	if err != nil {
		return nil, none, err
	}
	rows, _ := f.Tensor("words")
	numbers, err := rows.Float32s()
	if err != nil {
		return nil, none, fmt.Errorf("reading the towers' words: %w", err)
	}
	columns := len(numbers) / len(all)
	if len(numbers) != columns*len(all) || columns < width {
		return nil, none, fmt.Errorf("the towers have %d values for %d words, want at least %d a word", len(numbers), len(all), width)
	}
	used := map[int32]bool{pieces.PadID: true, pieces.UnknownID: true, pieces.ClassID: true, pieces.SeparatorID: true, pieces.MaskID: true}
	for caption := range captions {
		for _, id := range pieces.Encode(caption, math.MaxInt) {
			used[id] = true
		}
	}
	var vocab []string
	var table []float32
	for id, word := range all {
		if used[int32(id)] {
			vocab = append(vocab, word)
			table = append(table, scaled(numbers[id*columns:id*columns+width])...)
		}
	}
	return vocab, safetensors.FromFloat32s(table, int64(len(vocab)), int64(width)), nil
}

// scaled returns a row with the root mean square of wordScale.
func scaled(row []float32) []float32 {
	var squares float64
	for _, v := range row {
		squares += float64(v) * float64(v)
	}
	by := wordScale / math.Sqrt(max(squares/float64(len(row)), 1e-12))
	out := make([]float32, len(row))
	for i, v := range row {
		out[i] = float32(float64(v) * by)
	}
	return out
}
