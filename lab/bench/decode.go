package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

func decodeRow(size int) func(context.Context, *bench) (*Result, error) {
	return func(ctx context.Context, b *bench) (*Result, error) {
		n := b.size(32, 3)
		j := job{Folder: b.folder, Options: map[string]float64{"images": float64(n), "size": float64(size)}}
		bytesEach, err := writePhotos(j, n)
		if err != nil {
			return nil, err
		}
		one := *b
		one.threads = 1
		return duel{
			size:    fmt.Sprintf("%d × %d, %.0f KB, to %d", photoWidth, photoHeight, bytesEach/1000, size),
			against: "PIL, torchvision or simplejpeg, decoded, resized, normalised in PyTorch: the fastest",
			bound:   "Huffman codes, transforms, colours and resizing, one after the other", least: 2,
			kind: "decode", programs: decodePrograms(), job: j, unit: "ms/image", warmUp: 1,
			value: func(a answer) float64 { return a.Seconds * 1000 / float64(n) },
			check: func(_, peer answer) ([]string, error) {
				// The sides filter differently and average different things first, which makes a level or two of 255.
				if d := peer.Values["mean_levels"]; !(d < 3) {
					return nil, fmt.Errorf("pixels differ by %.2f levels on average", d)
				}
				return []string{fmt.Sprintf("pixels within %.2f levels of 255 of the peer's on average", peer.Values["mean_levels"])}, nil
			},
		}.run(ctx, &one)
	}
}

// decodePrograms returns the peers. The decoder of simplejpeg goes down to the least size that is not below the wanted one.
func decodePrograms() []program {
	return []program{{script: "decode.py"}, {script: "decode_torchvision.py", home: pypi}, {script: "decode_simplejpeg.py", home: pypi}}
}

// decodeWorker turns files into a model's pixels, one after the other.
type decodeWorker struct {
	job    job
	files  [][]byte
	size   imaging.Preprocess
	pixels []float32
}

func newDecodeWorker(_ context.Context, j job) (worker, error) {
	w, err := openPhotos(j)
	return worker{"run": w.run, "check": w.check}, err
}

// newDecoderWorker decodes files and does nothing with their pixels.
func newDecoderWorker(_ context.Context, j job) (worker, error) {
	w, err := openPhotos(j)
	return worker{"check": unchecked, "run": func(context.Context, *answer) error {
		for _, file := range w.files {
			if _, _, err := imaging.DecodeReduced(file, imaging.ForModel(j.option("side"))); err != nil {
				return err
			}
		}
		return nil
	}}, err
}

func openPhotos(j job) (*decodeWorker, error) {
	w := &decodeWorker{job: j, size: imaging.Preprocess{Size: j.option("size"), Mode: imaging.Squash}}
	for i := range j.option("images") {
		raw, err := os.ReadFile(photoFile(j, i))
		if err != nil {
			return nil, err
		}
		w.files = append(w.files, raw)
	}
	w.pixels = make([]float32, len(w.files)*w.size.Values())
	return w, nil
}

// image decodes a file as the encoder's service does.
func (w *decodeWorker) image(i int) (*imaging.Image, error) {
	im, _, err := imaging.DecodeReduced(w.files[i], imaging.ForModel(w.size.Size))
	return im, err
}

func (w *decodeWorker) run(context.Context, *answer) error {
	for i := range w.files {
		im, err := w.image(i)
		if err != nil {
			return err
		}
		w.size.Into(w.pixels[i*w.size.Values():(i+1)*w.size.Values()], im)
	}
	return nil
}

func (w *decodeWorker) check(context.Context, *answer) error {
	return writeFloats(w.job.path("decoded.f32"), w.pixels)
}

// encodeRow measures the encoder with products of float32, or of bfloat16 on both sides.
func encodeRow(precision torch.DType) func(context.Context, *bench) (*Result, error) {
	return func(ctx context.Context, b *bench) (*Result, error) {
		n := b.size(128, 4)
		j := job{Folder: b.folder, Preset: "small", Precision: precision.String(), Options: map[string]float64{
			"images": float64(n), "size": 128, "batch": float64(b.size(32, 4)),
		}}
		if _, err := writePhotos(j, n); err != nil {
			return nil, err
		}
		return duel{
			size:    fmt.Sprintf("%d × %d JPEG and a caption, batches of 32", photoWidth, photoHeight),
			against: "PIL, torchvision or simplejpeg on a pool, the same model in PyTorch, eager or compiled, or OpenVINO: the fastest",
			bound:   precision.String() + " products of the model", least: 1.5,
			kind: "encode", programs: encodePrograms(), job: j, unit: "pairs/s", warmUp: 1, higher: true,
			value: func(a answer) float64 { return float64(n) / a.Seconds },
			check: func(_, peer answer) ([]string, error) {
				if c := peer.Values["least_cosine"]; !(c > 0.98) {
					return nil, fmt.Errorf("a vector has cosine %.4f with the peer's", c)
				}
				return []string{fmt.Sprintf("vectors with cosines of %.4f or more with the peer's", peer.Values["least_cosine"])}, nil
			},
		}.run(ctx, b)
	}
}

// encodePrograms returns the peers of the row encode. Debian has neither a compiler of models nor torchvision.
func encodePrograms() []program {
	programs := torchPrograms("encode.py")
	for _, variant := range []string{"compiled, torchvision", "compiled, frozen, simplejpeg", "OpenVINO, simplejpeg"} {
		programs = append(programs, program{script: "encode.py", variant: variant, home: pypi})
	}
	return programs
}

// encodeWorker embeds pairs with the encoder's core.
type encodeWorker struct {
	decodeWorker
	worker  *torch.Worker
	encoder *encoder.Encoder
	pairs   []*schemas.Pair
	found   []encoder.Result
}

func newEncodeWorker(ctx context.Context, j job) (worker, error) {
	decoder, err := openPhotos(j)
	if err != nil {
		return nil, err
	}
	w := &encodeWorker{decodeWorker: *decoder}
	if w.worker, err = j.tensors(); err != nil {
		return nil, err
	}
	vocabulary := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dog"}
	c, err := j.shape(len(vocabulary))
	if err != nil {
		return nil, err
	}
	path := j.path("encode.safetensors")
	if err := saveModel(ctx, w.worker, c, vocabulary, path); err != nil {
		return nil, err
	}
	m, err := model.Load(ctx, w.worker, path, model.LoadOptions{Frozen: true})
	if err != nil {
		return nil, err
	}
	e, err := model.NewEncoder(ctx, m, j.option("batch"))
	if err != nil {
		return nil, err
	}
	for range w.files {
		w.pairs = append(w.pairs, &schemas.Pair{Caption: strings.TrimSpace(strings.Repeat("dog ", 10))})
	}
	o := encoder.Options{BatchSize: j.option("batch"), Workers: j.Threads}
	w.encoder, err = encoder.New(e, w, o)
	return worker{"run": w.run, "check": w.check}, err
}

// saveModel writes a model of seed 1, for both sides to load.
func saveModel(ctx context.Context, worker *torch.Worker, c model.Config, vocabulary []string, path string) error {
	m, err := model.New(ctx, worker, c, 1)
	if err != nil {
		return err
	}
	defer m.Free()
	m.Vocab = vocabulary
	return m.Save(ctx, path)
}

// Load implements [encoder.Images].
func (w *encodeWorker) Load(_ context.Context, p *schemas.Pair, _ encoder.Wanted, dst []byte) (encoder.Loaded, error) {
	for i := range w.pairs {
		if w.pairs[i] == p {
			im, err := w.image(i)
			if err == nil {
				w.size.Bytes(dst, im)
			}
			return encoder.Loaded{}, err
		}
	}
	return encoder.Loaded{}, errors.New("a pair that is none of the row's")
}

func (w *encodeWorker) run(ctx context.Context, _ *answer) error {
	w.found = w.found[:0]
	for part := range slices.Chunk(w.pairs, w.encoder.BatchSize()) {
		results, err := w.encoder.Encode(ctx, part, nil)
		if err != nil {
			return err
		}
		w.found = append(w.found, results...)
	}
	return nil
}

func (w *encodeWorker) check(context.Context, *answer) error {
	var vectors []float32
	for i, r := range w.found {
		if r.Unusable != nil {
			return fmt.Errorf("image %d: %w", i, r.Unusable)
		}
		vectors = append(vectors, r.Embedding.V.Floats()...)
		vectors = append(vectors, r.Embedding.T.Floats()...)
	}
	return writeFloats(w.job.path("encoded.f32"), vectors)
}
