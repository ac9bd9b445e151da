package model

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// Encoder embeds images and captions as unit vectors of one space. A row's bits depend on its input alone (invariant 4
// of the package). On a CPU the package torch computes each row by itself, so a batch has as many rows as there are
// inputs, and a caption as many tokens as it needs. On a GPU, and for a TorchScript program, the size of a batch decides
// how libtorch divides the work. There all batches have one size and all captions one length, filled up with blanks, and
// a call with few inputs costs as much as a full batch.
type Encoder struct {
	worker      *torch.Worker
	towers      towers
	apart       bool // rows are computed apart
	batch       int
	dim         int
	size        imaging.Preprocess
	fingerprint string
}

// towers is the part of a network that an Encoder needs.
type towers struct {
	image func(s *torch.Scope, pixels *torch.Tensor) *torch.Tensor    // [n, 3, size, size] to [n, dim]
	text  func(s *torch.Scope, ids, mask *torch.Tensor) *torch.Tensor // [n, length] to [n, dim]; mask: 1 for real tokens
	// tokens returns a caption's ids, at least one and at most length of them.
	tokens func(caption string) []int32
	length int
	script bool  // a program of others, which may join rows and want all length tokens
	fill   int32 // id after the end of a text
	free   func()
}

// DefaultBatchSize is the default batch size of encoders.
const DefaultBatchSize = 32

// newEncoder makes an encoder. It finds the dimension by running both towers once.
func newEncoder(ctx context.Context, w *torch.Worker, t towers, size imaging.Preprocess, name string, batch int) (*Encoder, error) {
	if batch == 0 {
		batch = DefaultBatchSize
	}
	if batch < 1 {
		return nil, fmt.Errorf("making an encoder: a batch of %d, want at least 1", batch)
	}
	e := &Encoder{worker: w, towers: t, batch: batch, size: size, fingerprint: name}
	if err := e.run(ctx, func(s *torch.Scope) error {
		e.apart = placesFor(s, 1, 2) == 1 && !t.script
		return nil
	}); err != nil {
		return nil, fmt.Errorf("making an encoder: %w", err)
	}
	rows := int64(e.places(1))
	var dims [2]int
	for i, tower := range []func(*torch.Scope) *torch.Tensor{
		func(s *torch.Scope) *torch.Tensor {
			side := int64(size.Size)
			return e.images(s, s.Zeros(torch.Float32, rows, 3, side, side))
		},
		func(s *torch.Scope) *torch.Tensor {
			empty := t.tokens("")
			return e.texts(s, [][]int32{empty}, e.lengthFor(len(empty)))
		},
	} {
		err := e.run(ctx, func(s *torch.Scope) error {
			shape := tower(s).Shape()
			if len(shape) != 2 || shape[0] != rows {
				return fmt.Errorf("a tower gives shape %s, want %d rows", shapeString(shape), rows)
			}
			dims[i] = int(shape[1])
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("making an encoder: %w", err)
		}
	}
	if dims[0] != dims[1] {
		return nil, fmt.Errorf("making an encoder: image vectors of %d values and text vectors of %d", dims[0], dims[1])
	}
	e.dim = dims[0]
	return e, nil
}

// Dim returns the number of values of a vector.
func (e *Encoder) Dim() int { return e.dim }

// ImageSize returns the side of the images in pixels.
func (e *Encoder) ImageSize() int { return e.size.Size }

// Preprocessing returns the preparation of pixels for EncodeImages.
func (e *Encoder) Preprocessing() imaging.Preprocess { return e.size }

// Fingerprint returns an identifier of everything that shapes the vectors: weights, sizes of the inputs and tokens.
// Embeddings of different fingerprints cannot be compared.
func (e *Encoder) Fingerprint() string { return e.fingerprint }

// Free frees the weights.
func (e *Encoder) Free() { e.towers.free() }

// EncodeImages maps n images (n x 3 x size x size bytes, of [imaging.Preprocess.Bytes]) to n unit rows of Dim values.
// It copies the next batch to the device while the device computes the current one.
func (e *Encoder) EncodeImages(ctx context.Context, pixels []byte, n int) ([]float32, error) {
	values := e.size.Values()
	if n < 0 || len(pixels) != n*values {
		return nil, fmt.Errorf("encoding images: %d bytes, want %d images of %d", len(pixels), n, values)
	}
	var next *torch.Upload
	defer func() { next.Free() }()
	send := func(from int) (err error) {
		if from < n {
			next, err = e.send(pixels[from*values : min(from+e.batch, n)*values])
		}
		return err
	}
	if err := send(0); err != nil {
		return nil, fmt.Errorf("encoding images: %w", err)
	}
	return e.inBatches(ctx, n, func(s *torch.Scope, _, to int) (*torch.Tensor, error) {
		rows := e.images(s, s.Receive(next))
		return rows, send(to)
	})
}

// EncodeTexts maps captions to unit rows of Dim values. Captions of one length share batches.
func (e *Encoder) EncodeTexts(ctx context.Context, captions []string) ([]float32, error) {
	out := make([]float32, len(captions)*e.dim)
	ofLength := make(map[int][]int)
	ids := make([][]int32, len(captions))
	for i, c := range captions {
		ids[i] = e.towers.tokens(c)
		length := e.lengthFor(len(ids[i]))
		ofLength[length] = append(ofLength[length], i)
	}
	for _, length := range slices.Sorted(maps.Keys(ofLength)) {
		members := ofLength[length]
		rows, err := e.inBatches(ctx, len(members), func(s *torch.Scope, from, to int) (*torch.Tensor, error) {
			texts := make([][]int32, 0, to-from)
			for _, i := range members[from:to] {
				texts = append(texts, ids[i])
			}
			return e.texts(s, texts, length), nil
		})
		if err != nil {
			return nil, fmt.Errorf("captions of up to %d tokens: %w", length, err)
		}
		for k, i := range members {
			copy(out[i*e.dim:(i+1)*e.dim], rows[k*e.dim:(k+1)*e.dim])
		}
	}
	return out, nil
}

// lengthStep is the distance between the lengths of captions. A smaller one saves padding, and makes more batches, in
// which a processor of many cores has less to divide.
const lengthStep = 4

// lengthFor returns the length to which a text of so many tokens is filled up. It is a function of the text alone.
func (e *Encoder) lengthFor(tokens int) int {
	if !e.apart {
		return e.towers.length
	}
	return min(e.towers.length, (tokens+lengthStep-1)/lengthStep*lengthStep)
}

// places returns the rows of a batch for n inputs.
func (e *Encoder) places(n int) int {
	if e.apart {
		return n
	}
	return e.batch
}

// inBatches collects the rows of n inputs. Every batch is a separate job, so that others get their turn on the worker.
func (e *Encoder) inBatches(ctx context.Context, n int, encode func(s *torch.Scope, from, to int) (*torch.Tensor, error)) ([]float32, error) {
	out := make([]float32, 0, n*e.dim)
	for from := 0; from < n; from += e.batch {
		to := min(from+e.batch, n)
		err := e.run(ctx, func(s *torch.Scope) error {
			rows, err := encode(s, from, to)
			if err != nil {
				return err
			}
			out = append(out, rows.Float32s()[:(to-from)*e.dim]...)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("encoding inputs %d to %d: %w", from, to, err)
		}
	}
	return out, nil
}

// run calls Do without gradients.
func (e *Encoder) run(ctx context.Context, fn func(*torch.Scope) error) error {
	return e.worker.Do(ctx, func(s *torch.Scope) (err error) {
		s.NoGrad(func() { err = fn(s) })
		return err
	})
}

// send starts to copy up to a batch of images to the device, and black ones for the free places.
func (e *Encoder) send(pixels []byte) (*torch.Upload, error) {
	places := e.places(len(pixels) / e.size.Values())
	if values := places * e.size.Values(); len(pixels) < values {
		full := make([]byte, values)
		copy(full, pixels)
		pixels = full
	}
	mean, std := e.size.Statistics()
	return e.worker.UploadImages(pixels, places, e.size.Size, torch.Normalization{Mean: mean, Std: std})
}

// images embeds a batch of images.
func (e *Encoder) images(s *torch.Scope, pixels *torch.Tensor) *torch.Tensor {
	return s.Normalize(e.towers.image(s, pixels), -1, unitFloor)
}

// texts embeds up to a batch of texts, filled up to a length, and the empty one in the free places.
func (e *Encoder) texts(s *torch.Scope, texts [][]int32, length int) *torch.Tensor {
	for empty := e.towers.tokens(""); len(texts) < e.places(len(texts)); {
		texts = append(texts, empty)
	}
	ids, mask := make([]int64, len(texts)*length), make([]int64, len(texts)*length)
	for i, text := range texts {
		for k := range length {
			ids[i*length+k] = int64(e.towers.fill)
		}
		for k, id := range text {
			ids[i*length+k], mask[i*length+k] = int64(id), 1
		}
	}
	shape := []int64{int64(len(texts)), int64(length)}
	return s.Normalize(e.towers.text(s, s.Int64s(ids, shape...), s.Int64s(mask, shape...)), -1, unitFloor)
}

// NewEncoder makes an encoder of a model, which the encoder then owns. The model must have its vocabulary.
func NewEncoder(ctx context.Context, m *Model, batch int) (*Encoder, error) {
	words, err := m.Words()
	if err != nil {
		return nil, fmt.Errorf("making an encoder: %w", err)
	}
	name, err := m.Fingerprint(ctx)
	if err != nil {
		return nil, err
	}
	t := towers{
		image: func(s *torch.Scope, pixels *torch.Tensor) *torch.Tensor {
			return m.visionProj.exact(s, s.Select(m.vision.forward(s, pixels, true), 1, 0))
		},
		text: func(s *torch.Scope, ids, mask *torch.Tensor) *torch.Tensor {
			hidden := m.text.encode(s, m.text.embed(s, ids), m.text.scores(s, mask), true)
			return m.textProj.exact(s, s.Select(hidden, 1, 0))
		},
		tokens: func(caption string) []int32 { return words.Encode(caption, m.Config.TextTokens) },
		length: m.Config.TextTokens,
		free:   m.Free,
	}
	return newEncoder(ctx, m.worker, t, imaging.Preprocess{Size: m.Config.ImageSize, Mode: imaging.Squash}, name, batch)
}

// NewCLIPEncoder makes an encoder of a CLIP model, which the encoder then owns.
func NewCLIPEncoder(ctx context.Context, m *CLIP, words *token.CLIP, batch int) (*Encoder, error) {
	if words.Size() > m.Config.VocabSize {
		return nil, fmt.Errorf("making an encoder: %d tokens in the merges, want at most vocab_size, %d", words.Size(), m.Config.VocabSize)
	}
	size := imaging.Preprocess{Size: m.Config.ImageSize, Mode: imaging.CenterCrop}
	about := []string{fmt.Sprintf("CLIP %+v", m.Config), words.Digest()}
	if m.pictures != (imaging.Preprocess{}) && m.pictures != size {
		size = m.pictures
		about = append(about, fmt.Sprintf("%+v", size))
	}
	name, err := fingerprint(ctx, m.worker, m.params, about...)
	if err != nil {
		return nil, err
	}
	t := towers{
		image:  m.Image,
		text:   func(s *torch.Scope, ids, _ *torch.Tensor) *torch.Tensor { return m.Text(s, ids) },
		tokens: func(caption string) []int32 { return words.Encode(caption, m.Config.Positions) },
		length: m.Config.Positions,
		free:   m.Free,
	}
	return newEncoder(ctx, m.worker, t, size, name, batch)
}
