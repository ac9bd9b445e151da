package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/pairstream/pairstream/internal/crawl/shard"
)

// winogroundExample is a line of Winoground's examples.jsonl.
type winogroundExample struct {
	Images   [2]string
	Captions [2]string
}

// ReadWinoground reads a file in the form of Winoground's examples.jsonl, and its images from tars. A line is an object
// with image_0, caption_0, image_1 and caption_1. Images are named by their file names, with or without extension, and
// found without folders. The corpus has the first image of an example at an even number and the second after it, each
// with its own caption.
func ReadWinoground(ctx context.Context, file string, paths []string) (*Corpus, error) {
	examples, err := winogroundExamples(file)
	if err != nil {
		return nil, fmt.Errorf("--winoground: %w", err)
	}
	wanted := map[string]bool{}
	for _, e := range examples {
		wanted[fileName(e.Images[0])], wanted[fileName(e.Images[1])] = true, true
	}
	places := map[string]int{} // of the images in the order of the tars
	r, totals, err := readAllOf(ctx, paths, func(r *reading, v *shard.Visitor) {
		v.Picture = func(p shard.Picture) error {
			name := fileName(p.Entry)
			if !wanted[name] {
				name = strings.TrimSuffix(name, path.Ext(name))
			}
			if _, again := places[name]; again && wanted[name] {
				return fmt.Errorf("the tars hold two images called %q: leave one out", name)
			}
			if wanted[name] {
				places[name] = len(r.all.images)
				r.take(p.Image, p.ImageID, p.Encoded, nil)
			}
			return nil
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reading the images of %s: %w", file, err)
	}
	out := &Corpus{totals: totals}
	for i, e := range examples {
		for k, image := range e.Images {
			at, found := places[fileName(image)]
			switch {
			case !found:
				return nil, fmt.Errorf("reading the images of %s: the tars hold no image %q of example %d; "+
					"names are compared without folders", file, image, i+1)
			case r.broken[at]:
				return nil, fmt.Errorf("reading the images of %s: image %q of example %d cannot be decoded: "+
					"replace it, or leave the example out", file, image, i+1)
			}
			out.add(r.all.images[at].ref, r.all.images[at].id, e.Captions[k:k+1])
		}
	}
	return out, nil
}

func winogroundExamples(file string) (out []winogroundExample, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := json.NewDecoder(f)
	for {
		var l struct {
			Image0   string `json:"image_0"`
			Image1   string `json:"image_1"`
			Caption0 string `json:"caption_0"`
			Caption1 string `json:"caption_1"`
		}
		err := lines.Decode(&l)
		switch {
		case errors.Is(err, io.EOF) && len(out) == 0:
			return nil, fmt.Errorf("%s is empty, want a JSON object a line with image_0, caption_0, image_1 and caption_1", file)
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("example %d of %s: %w; want a JSON object a line, not a list", len(out)+1, file, err)
		case fileName(l.Image0) == "" || fileName(l.Image1) == "" ||
			strings.TrimSpace(l.Caption0) == "" || strings.TrimSpace(l.Caption1) == "":
			return nil, fmt.Errorf("example %d of %s lacks one of image_0, caption_0, image_1 and caption_1", len(out)+1, file)
		}
		out = append(out, winogroundExample{[2]string{l.Image0, l.Image1}, [2]string{l.Caption0, l.Caption1}})
	}
}
