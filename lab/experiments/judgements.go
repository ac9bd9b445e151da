package experiments

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/lab/experiments/towers"
)

// judgedPhoto is a photograph of a split.
type judgedPhoto struct {
	part, file string // as judgements name it
	encoded    []byte
	captions   []string
}

// judgement is what people say of a photograph and a caption of another one, by their places among the test
// photographs.
type judgement struct {
	image, text int
	right       bool
}

// judgedWorld is photographs to learn from, and test photographs with one caption each that people judged.
type judgedWorld struct {
	*towers.Towers
	train, dev, test []judgedPhoto
	judgements       []judgement
}

// caption is the number of the caption that people judged, of every photograph.
const caption = 2

// readJudged reads a folder of tars, train-* and test-*, with what people judged of the latter.
func readJudged(ctx context.Context, j Job) (*judgedWorld, error) {
	if j.Photos == "" {
		return nil, errors.New("it wants photographs with judgements: give --photographs a folder with train-*.tar, test-*.tar and judgements.tsv")
	}
	files, err := filepath.Glob(filepath.Join(j.Photos, "*.tar"))
	if err != nil {
		return nil, fmt.Errorf("listing tars: %w", err)
	}
	slices.Sort(files)
	var all []judgedPhoto
	for _, file := range files {
		part, _, _ := strings.Cut(filepath.Base(file), "-")
		_, err := shard.Scan(ctx, []string{file}, shard.Visitor{
			Example: func(ex shard.Example) error {
				var named struct{ File string }
				if err := json.Unmarshal(ex.Meta, &named); err != nil {
					return fmt.Errorf("reading the name of a photograph of %s: %w", file, err)
				}
				if len(ex.Captions) > caption {
					all = append(all, judgedPhoto{part, named.File, slices.Clone(ex.Encoded), ex.Captions})
				}
				return nil
			},
			Problem: func(shard.Problem) error { return nil }, // an image less
		})
		if err != nil {
			return nil, err
		}
	}
	w := &judgedWorld{}
	if w.Towers, err = j.Shelf.look(ctx, j, all); err != nil {
		return nil, err
	}
	at := map[string]int{}
	for _, p := range all {
		switch p.part {
		case "train":
			w.train = append(w.train, p)
		case "dev":
			w.dev = append(w.dev, p)
		case "test":
			at[p.file] = len(w.test)
			w.test = append(w.test, p)
		}
	}
	if len(w.train) < leastPhotographs || len(w.test) < leastPhotographs {
		return nil, fmt.Errorf("%s has %d photographs in train-*.tar and %d in test-*.tar, want %d and more", j.Photos, len(w.train), len(w.test), leastPhotographs)
	}
	w.judgements, err = readJudgements(filepath.Join(j.Photos, "judgements.tsv"), at)
	return w, err
}

// look replaces photographs by what the image tower sees. It keeps the pictures on the shelf.
func (s *Shelf) look(ctx context.Context, j Job, all []judgedPhoto) (*towers.Towers, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := towers.Install(ctx, s.Dir, j.Log)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	var each []*[]byte
	for i := range all {
		h.Write(all[i].encoded)
		each = append(each, &all[i].encoded)
	}
	path := filepath.Join(s.Dir, fmt.Sprintf("pictures-%s-%s.safetensors", towers.Version(), hex.EncodeToString(h.Sum(nil)[:6])))
	return t, (&sight{Towers: t}).pictures(ctx, j.Worker, each, path, j.Log)
}

// readJudgements reads pairs of test photographs: an image, the image of a caption, the caption's number, three experts
// from 1 to 4, and how many of a crowd say yes and no. A caption is right for two experts of 3 and more, or for more of
// the crowd than not.
func readJudgements(path string, at map[string]int) (list []judgement, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading what people judged: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	rows := csv.NewReader(f)
	rows.Comma, rows.FieldsPerRecord = '\t', 8
	for line := 1; ; line++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading what people judged: %s: %w", path, err)
		}
		image, known := at[row[0]]
		text, known2 := at[row[1]]
		if line == 1 || !known || !known2 || image == text || row[2] != strconv.Itoa(caption) {
			continue
		}
		var numbers [5]int
		for i, field := range row[3:] {
			if field == "" {
				continue
			}
			if numbers[i], err = strconv.Atoi(field); err != nil {
				return nil, fmt.Errorf("reading what people judged: line %d of %s: %w", line, path, err)
			}
		}
		experts := 0
		for _, n := range numbers[:3] {
			if n >= 3 {
				experts++
			}
		}
		list = append(list, judgement{image, text, experts > 1 || numbers[3] > numbers[4]})
	}
}

// drawnWorld draws scenes, whose truth stands for people's.
func (s judgedSettings) drawnWorld(ctx context.Context, j Job, dir string) (*judgedWorld, error) {
	o := scenes.Defaults()
	o.Seed, o.Scenes, o.Captions, o.Side = j.Seed, s.Scenes, s.Twins.Captions, 64
	drawn := filepath.Join(dir, "drawn")
	if err := scenes.WriteDir(ctx, drawn, o, nil); err != nil {
		return nil, err
	}
	w := &judgedWorld{}
	var shown []scenes.Scene
	_, err := shard.Scan(ctx, []string{drawn}, shard.Visitor{
		Example: func(ex shard.Example) error {
			p := judgedPhoto{"train", "", slices.Clone(ex.Encoded), ex.Captions}
			if len(w.train) < s.Scenes/5 {
				w.train = append(w.train, p)
				return nil
			}
			r, err := scenes.ReadRecord(ex.Meta)
			w.test, shown = append(w.test, p), append(shown, r.Scene)
			return err
		},
		Problem: func(p shard.Problem) error { return fmt.Errorf("reading drawn scenes: %s", p) },
	})
	for i := range shown {
		for k := range 16 {
			if t := (i + k + 1) % len(w.test); t != i {
				w.judgements = append(w.judgements, judgement{i, t, scenes.Matches(shown[i], w.test[t].captions[caption])})
			}
		}
	}
	return w, err
}
