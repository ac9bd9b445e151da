package discriminator

import (
	"context"
	"slices"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/schemas"
)

// half is the images or the texts of a batch, with their encodings, cached or computed when needed.
type half struct {
	kept   *Kept
	key    func(row int32) keptHalf
	encode func(ctx context.Context, rows []int32) ([]model.Encoding, error)
	length func(row int32) int
	have   []model.Encoding // by row
}

func imageKey(b *schemas.Batch, row int32) keptHalf {
	return keptHalf{group: b.Group.Seq, image: b.Samples[row].ImageID}
}

// Hold returns the encodings of a batch's images that are kept, by sample, and which samples they are. Their pixels are
// not needed with [Input.Held]. It leaves out the images that gone names, so that who loads them hears that they are
// forgotten.
func (k *Kept) Hold(b *schemas.Batch, gone func(schemas.ImageID) bool) (held []model.Encoding, samples []int32) {
	held = make([]model.Encoding, len(b.Samples))
	for i := range held {
		if gone != nil && gone(b.Samples[i].ImageID) {
			continue
		}
		vector, there := k.vectors.get(imageKey(b, int32(i)))
		tokens, whole := k.tokens.get(imageKey(b, int32(i)))
		if there && whole {
			held[i] = model.Encoding{Tokens: tokens, Vector: vector}
			samples = append(samples, int32(i))
		}
	}
	return held, samples
}

func newKeptBatch(d *Discriminator, b *schemas.Batch, in Input, edits editedTexts) *keptBatch {
	k := &keptBatch{Discriminator: d, batch: b, in: in, edits: edits}
	k.images = half{
		kept: in.Kept, have: slices.Clone(in.Held),
		key:    func(row int32) keptHalf { return imageKey(b, row) },
		length: func(int32) int { return 0 },
		encode: func(ctx context.Context, rows []int32) ([]model.Encoding, error) {
			return d.matcher.EncodeImages(ctx, k.pixels(rows))
		},
	}
	if k.images.have == nil {
		k.images.have = make([]model.Encoding, len(b.Samples))
	}
	k.texts = half{
		kept: in.Kept, have: make([]model.Encoding, len(b.Samples)+len(edits.texts)),
		key:    func(row int32) keptHalf { return keptHalf{group: b.Group.Seq, text: k.text(row)} },
		length: func(row int32) int { return len(k.id(row)) },
		encode: func(ctx context.Context, rows []int32) ([]model.Encoding, error) {
			return d.matcher.EncodeTexts(ctx, k.ids(rows))
		},
	}
	return k
}

// needVectors sees to it that rows have their vectors.
func (h *half) needVectors(ctx context.Context, rows []int32) error {
	return h.need(ctx, rows, func(row int32) bool {
		if h.have[row].Vector != nil {
			return true
		}
		vector, found := h.kept.vectors.get(h.key(row))
		h.have[row].Vector = vector
		return found
	})
}

// needTokens sees to it that rows have their tokens.
func (h *half) needTokens(ctx context.Context, rows []int32) error {
	return h.need(ctx, rows, func(row int32) bool {
		if h.have[row].Tokens != nil {
			return true
		}
		tokens, found := h.kept.tokens.get(h.key(row))
		h.have[row].Tokens, h.have[row].Length = tokens, h.length(row)
		return found
	})
}

// need encodes the rows that are not found, and keeps them. Rows that show the same are encoded once.
func (h *half) need(ctx context.Context, rows []int32, find func(row int32) bool) error {
	var lost []int32
	first := map[keptHalf]int{}
	for _, row := range rows {
		if find(row) {
			continue
		}
		if _, again := first[h.key(row)]; !again {
			first[h.key(row)] = len(lost)
			lost = append(lost, row)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	encoded, err := h.encode(ctx, lost)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if i, ok := first[h.key(row)]; ok {
			h.have[row] = encoded[i]
		}
	}
	for i, row := range lost {
		h.kept.vectors.put(h.key(row), encoded[i].Vector)
		h.kept.tokens.put(h.key(row), encoded[i].Tokens)
	}
	return nil
}

// of returns the encodings of rows.
func (h *half) of(rows []int32) []model.Encoding {
	out := make([]model.Encoding, len(rows))
	for i, row := range rows {
		out[i] = h.have[row]
	}
	return out
}

// text returns the text of a sample, or of an edit.
func (k *keptBatch) text(row int32) string {
	if n := int32(len(k.batch.Samples)); row >= n {
		return k.edits.texts[row-n]
	}
	return k.batch.Samples[row].Text
}

// id returns the token ids of a text.
func (k *keptBatch) id(row int32) []int32 {
	if n := int32(len(k.in.IDs)); row >= n {
		return k.edits.ids[row-n]
	}
	return k.in.IDs[row]
}

func (k *keptBatch) pixels(rows []int32) []float32 {
	values := len(k.in.Pixels) / len(k.in.IDs)
	out := make([]float32, 0, len(rows)*values)
	for _, row := range rows {
		out = append(out, k.in.Pixels[int(row)*values:int(row+1)*values]...)
	}
	return out
}

func (k *keptBatch) ids(rows []int32) [][]int32 {
	out := make([][]int32, len(rows))
	for i, row := range rows {
		out[i] = k.id(row)
	}
	return out
}

// rowsOf lists the images and the texts of pairs, each once, in their order.
func rowsOf(pairs []model.Pair) (images, texts []int32) {
	for _, p := range pairs {
		images, texts = append(images, p.Image), append(texts, p.Text)
	}
	slices.Sort(images)
	slices.Sort(texts)
	return slices.Compact(images), slices.Compact(texts)
}

// numbered returns pairs by their places in images and texts.
func numbered(pairs []model.Pair, images, texts []int32) []model.Pair {
	out := make([]model.Pair, len(pairs))
	for i, p := range pairs {
		image, _ := slices.BinarySearch(images, p.Image)
		text, _ := slices.BinarySearch(texts, p.Text)
		out[i] = model.Pair{Image: int32(image), Text: int32(text)}
	}
	return out
}
