package dataset

import (
	"bytes"
	"context"
	"fmt"
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
	spoken      map[string]bool     // images with one caption per entry, so that more may follow
	splits      map[string]int      // images of every split
	problems    map[shard.Reason]int
}

// ReadList reads captions from a JSON file. Karpathy's form is {"images": [{"filename", "split", "sentences":
// [{"raw"}]}]}; ReadList takes one split of it or several ("train,restval"). ALBEF's form is [{"image", "caption"}],
// without splits; there a caption is a string or a list. Unusable entries are counted in the totals of [ReadListed].
func ReadList(file, split string) (*List, error) {
	l := newList(file, split)
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading captions: %w", err)
	}
	if err := shard.ReadEntries(bytes.NewReader(table.PlainJSON(raw)), l.add); err != nil {
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

func (l *List) add(e shard.Entry) error {
	if e.Broken {
		l.problems[shard.ReasonJSON]++
		return nil
	}
	if e.Split != "" {
		l.splits[e.Split]++
		if !slices.Contains(strings.Split(l.split, ","), e.Split) {
			return nil
		}
	}
	name := fileName(e.Image)
	if name == "" {
		l.problems[shard.ReasonJSON]++
		return nil
	}
	if _, found := l.captions[name]; found && !(e.Single && l.spoken[name]) {
		l.problems[shard.ReasonDuplicate]++
		return nil
	}
	good, bad := shard.JSONCaptions(e.Captions)
	for _, reason := range bad {
		l.problems[reason]++
	}
	if len(e.Captions) == 0 {
		l.problems[shard.ReasonNoCaption]++
	}
	if len(good) > 0 {
		l.captions[name], l.spoken[name] = append(l.captions[name], good...), e.Single
	}
	return nil
}

// fileName returns the last element of a path, or "" if the path names no file.
func fileName(name string) string {
	switch base := path.Base(strings.ReplaceAll(name, `\`, "/")); base {
	case ".", "..", "/":
		return ""
	default:
		return base
	}
}

// ReadListed reads the images of a list from tars, in the order of the tars. It finds them by their file names without
// folders, and ignores other entries. If several images have one name, it takes the first. Every image is decoded once,
// as by [Read]. [Corpus.Totals] counts missing or broken images, and bad entries of the list.
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
