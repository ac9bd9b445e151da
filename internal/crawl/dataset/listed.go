package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/crawl/table"
)

// List holds the captions of images that a file names, apart from the tars of these images.
type List struct {
	path, split string
	captions    map[string][]string // by the file name of the image, without folders
	spoken      map[string]bool     // images whose entries have one caption each, so that more may follow
	splits      map[string]int      // images of every split
	problems    map[shard.Reason]int
}

// listed is an entry of either form of a list.
type listed struct {
	Filename  string `json:"filename"`
	Split     string `json:"split"`
	Sentences []struct {
		Raw json.RawMessage `json:"raw"`
	} `json:"sentences"`

	Image   string          `json:"image"`
	Caption json.RawMessage `json:"caption"`
}

// ReadList reads captions from a JSON file. It is Karpathy's, {"images": [{"filename", "split", "sentences": [{"raw"}]}]},
// of which ReadList takes one split, or ALBEF's, [{"image", "caption"}], which has no splits. There a caption is a string
// or a list. Entries that cannot be used are counted among the totals of [ReadListed].
func ReadList(file, split string) (*List, error) {
	l := newList(file, split)
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading captions: %w", err)
	}
	if err := l.read(json.NewDecoder(bytes.NewReader(table.PlainJSON(raw)))); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("reading captions of %s: %w; want Karpathy's dataset_coco.json or a list of ALBEF's, coco_test.json", file, err)
	}
	if len(l.captions) == 0 && len(l.splits) > 0 {
		return nil, fmt.Errorf("no image of %s with a caption is of split %q; its splits are %s", file, split, strings.Join(slices.Sorted(maps.Keys(l.splits)), ", "))
	}
	if len(l.captions) == 0 {
		return nil, fmt.Errorf("no image with a caption is in %s; want Karpathy's dataset_coco.json or a list of ALBEF's, coco_test.json", file)
	}
	return l, nil
}

func newList(file, split string) *List {
	return &List{
		path: file, split: split, captions: map[string][]string{}, spoken: map[string]bool{},
		splits: map[string]int{}, problems: map[shard.Reason]int{},
	}
}

func (l *List) read(d *json.Decoder) error {
	first, err := d.Token()
	if err != nil {
		return err
	}
	switch first {
	case json.Delim('['):
		return l.entries(d)
	case json.Delim('{'):
	default:
		return errors.New("neither an object nor a list")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key != "images" {
			if err := d.Decode(new(json.RawMessage)); err != nil {
				return err
			}
			continue
		}
		switch begin, err := d.Token(); {
		case err != nil:
			return err
		case begin != json.Delim('['):
			return errors.New(`"images" is not a list`)
		}
		if err := l.entries(d); err != nil {
			return err
		}
	}
	_, err = d.Token() // the object's end, without which the file is cut
	return err
}

// entries reads a list to its end.
func (l *List) entries(d *json.Decoder) error {
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		var e listed
		if json.Unmarshal(raw, &e) != nil {
			l.problems[shard.ReasonJSON]++
			continue
		}
		l.add(e)
	}
	_, err := d.Token()
	return err
}

func (l *List) add(e listed) {
	name := e.Image
	var texts []json.RawMessage
	one := false
	if e.Filename != "" {
		l.splits[e.Split]++
		if e.Split != l.split {
			return
		}
		name = e.Filename
		for _, s := range e.Sentences {
			texts = append(texts, s.Raw)
		}
	} else if len(e.Caption) > 0 && string(e.Caption) != "null" && json.Unmarshal(e.Caption, &texts) != nil {
		texts, one = []json.RawMessage{e.Caption}, true
	}
	if name = fileName(name); name == "" {
		l.problems[shard.ReasonJSON]++
		return
	}
	if _, found := l.captions[name]; found && !(one && l.spoken[name]) {
		l.problems[shard.ReasonDuplicate]++
		return
	}
	good, bad := shard.JSONCaptions(texts)
	for _, reason := range bad {
		l.problems[reason]++
	}
	if len(texts) == 0 {
		l.problems[shard.ReasonNoCaption]++
	}
	if len(good) > 0 {
		l.captions[name], l.spoken[name] = append(l.captions[name], good...), one
	}
}

// fileName returns the last element of a path, or nothing where that names no file.
func fileName(name string) string {
	switch base := path.Base(strings.ReplaceAll(name, `\`, "/")); base {
	case ".", "..", "/":
		return ""
	default:
		return base
	}
}

// ReadListed reads the images of a list from tars, in the order of the tars. It finds them by their file names without
// folders; what else the tars hold does not matter. If several images have one name, the first one is taken. Every image
// is decoded once, as by [Read]. [Corpus.Totals] counts images that are missing or broken, and bad entries of the list.
func ReadListed(ctx context.Context, paths []string, l *List) (*Corpus, error) {
	taken, again := map[string]bool{}, 0
	c, err := scan(ctx, paths, func(r *reading, v *shard.Visitor) {
		v.Picture = func(p shard.Picture) error {
			name := fileName(p.Entry)
			captions, wanted := l.captions[name]
			switch {
			case wanted && taken[name]:
				again++
			case wanted:
				taken[name] = true
				r.take(p.Image, p.ImageID, p.Encoded, captions)
			}
			return nil
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reading the images of %s: %w", l.path, err)
	}
	if len(c.images) == 0 {
		return nil, fmt.Errorf("the tars hold no readable image of the %d that %s names, %q among them; names are compared without folders",
			len(l.captions), l.path, slices.Min(slices.Collect(maps.Keys(l.captions))))
	}
	counts := maps.Clone(l.problems)
	counts[shard.ReasonDuplicate] += again
	counts[shard.ReasonNoImage] += len(l.captions) - len(taken)
	for reason, n := range counts {
		if n > 0 {
			c.totals.Problems[reason] += n
		}
	}
	return c, nil
}
