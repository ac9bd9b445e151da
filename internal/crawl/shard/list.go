package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/crawl/portion"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/schemas"
)

// A JSON list of images can replace a tar: file.json, with options after a question mark. The images are files below
// one folder, and references name these.
//
//	coco.json?images=/data/coco                   ALBEF's list, whose paths are found below this folder
//	dataset_coco.json?images=D&split=train,restval  two splits of Karpathy's list
//	cc3m.json?captions=one&seed=7                 one caption of each image, drawn from the seed
//	cc12m.json?sample=1e6&seed=7                  a million entries, drawn from the seed
//	cc12m.json?copy=1                             its pairs once more, beside those of cc12m.json

// list is such a path.
type list struct {
	file   string
	images string // folder; absolute and without symbolic links
	splits []string
	one    bool  // one caption of each entry
	sample int64 // entries; 0: all, or a share of them
	share  portion.Share
	copied portion.Share // all entries, as a copy
	seed   uint64
}

// listOptions are the names of the options.
var listOptions = []string{"images", "split", "captions", "sample", "seed", "copy"}

// listAt returns the list that a path names, or nil.
func listAt(p string) (*list, error) {
	file, query, _ := strings.Cut(p, "?")
	if IsRemote(p) || !strings.EqualFold(filepath.Ext(file), ".json") {
		return nil, nil
	}
	options, err := url.ParseQuery(strings.ReplaceAll(query, "+", "%2B")) // people write folders, not forms
	if err != nil {
		return nil, err
	}
	for name, values := range options {
		if !slices.Contains(listOptions, name) || len(values) > 1 {
			return nil, fmt.Errorf("option %q of a JSON list: want each of %s once at most", name, strings.Join(listOptions, ", "))
		}
	}
	l := &list{file: LocalPath(file), images: options.Get("images")}
	if l.file, err = realPath(l.file); err != nil {
		return nil, err
	}
	if l.images == "" {
		l.images = filepath.Dir(l.file)
	}
	if l.images, err = realPath(l.images); err != nil {
		return nil, fmt.Errorf("option images: %w", err)
	}
	if split := options.Get("split"); split != "" {
		l.splits = strings.Split(split, ",")
	}
	switch captions := options.Get("captions"); captions {
	case "", "all":
	case "one":
		l.one = true
	default:
		return nil, fmt.Errorf("option captions is %q, want all or one", captions)
	}
	return l, l.draws(options)
}

// draws reads the options of the random selection.
func (l *list) draws(options url.Values) (err error) {
	if l.seed, err = portion.Seed(options.Get("seed")); err != nil {
		return err
	}
	if options.Has("copy") {
		if l.copied, err = l.copied.Copy(options.Get("copy")); err != nil {
			return err
		}
	}
	text := options.Get("sample")
	if text == "" {
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err == nil && n >= 1 && n <= math.MaxInt32 && n == math.Trunc(n):
		l.sample = int64(n)
	case err == nil && n > 0 && n < 1:
		l.share, err = portion.New(text, options.Get("seed"))
	default:
		err = fmt.Errorf("option sample is %q, want a number of entries such as 1e6, or a share of them such as 0.25", text)
	}
	return err
}

func realPath(p string) (string, error) {
	p, err := filepath.Abs(p)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(p)
}

// uri names the list with its options, so that another selection is another source.
func (l *list) uri() string {
	options := url.Values{"images": {l.images}}
	if len(l.splits) > 0 {
		options.Set("split", strings.Join(l.splits, ","))
	}
	if l.one {
		options.Set("captions", "one")
	}
	if l.sample > 0 {
		options.Set("sample", strconv.FormatInt(l.sample, 10))
	}
	l.share.Set(options)
	if l.one || options.Has("sample") {
		options.Set("seed", strconv.FormatUint(l.seed, 10))
	}
	l.copied.Set(options)
	return FileURI(l.file) + "?" + options.Encode()
}

// find returns the list as a source of a scan.
func (l *list) find() (Tar, error) {
	t, regular := onDisk(l.file)
	if t.URI, t.list, t.sample = l.uri(), l, l.copied; !regular {
		return t, fmt.Errorf("%s is no regular file", l.file)
	}
	if len(t.URI) > schemas.MaxURIBytes {
		return t, fmt.Errorf("%s has a name of %d bytes with its options, at most %d are allowed", t.URI, len(t.URI), schemas.MaxURIBytes)
	}
	return t, nil
}

// maxEntryJSON bounds an entry, including read-ahead.
const maxEntryJSON = 8 << 20

// each calls visit with the entries of the splits, and their numbers among all entries.
func (l *list) each(ctx context.Context, visit func(number int64, e Entry) error) error {
	f, err := os.Open(l.file)
	if err != nil {
		return err
	}
	defer f.Close()
	plain, err := table.JSONReader(f)
	if err != nil {
		return err
	}
	m := &table.Metered{Reader: plain, Left: maxEntryJSON}
	number, splits := int64(-1), map[string]bool{}
	taken := false
	err = ReadEntries(m, func(e Entry) error {
		m.Left = maxEntryJSON
		number++
		if err := ctx.Err(); err != nil {
			return err
		}
		if splits[e.Split] = true; len(l.splits) > 0 && !slices.Contains(l.splits, e.Split) {
			return nil
		}
		taken = true
		return visit(number, e)
	})
	if err == nil && !taken && number >= 0 {
		return fmt.Errorf("no entry is of split %s; there are %q", strings.Join(l.splits, " or "), slices.Sorted(maps.Keys(splits)))
	}
	return err
}

// chosen calls visit with the entries of the sample, or with all.
func (l *list) chosen(ctx context.Context, visit func(number int64, e Entry) error) error {
	if l.sample == 0 {
		return l.each(ctx, func(number int64, e Entry) error {
			if !l.share.HasRow(number) {
				return nil
			}
			return visit(number, e)
		})
	}
	all := int64(0)
	if err := l.each(ctx, func(int64, Entry) error { all++; return nil }); err != nil {
		return err
	}
	if all < l.sample {
		return fmt.Errorf("sample is %d, and there are %d entries", l.sample, all)
	}
	draws, wanted := rng.New(l.seed, "shard.list.sample"), l.sample
	return l.each(ctx, func(number int64, e Entry) error { // each subset is as likely as any other (Knuth 3.4.2, algorithm S)
		if all--; draws.Int64N(all+1) >= wanted {
			return nil
		}
		wanted--
		return visit(number, e)
	})
}

// captions returns the selected captions of an entry, and their number before selection.
func (l *list) captions(number int64, raw []json.RawMessage) (taken []caption, found int) {
	if l.one && len(raw) > 1 {
		at := rng.New(l.seed, "shard.list.caption", number).IntN(len(raw))
		raw = raw[at : at+1]
	}
	for _, c := range raw[:min(len(raw), MaxCaptions)] {
		taken = append(taken, jsonCaption(c))
	}
	return taken, len(raw)
}

// list visits the images of a list.
func (s *scanner) list(ctx context.Context, l *list) error {
	root, err := os.OpenRoot(l.images)
	if err != nil {
		return &unreadableError{err}
	}
	defer root.Close()
	p := &listImages{root: root, folder: l.images}
	var stopped error // by the visitor
	if err = p.check(ctx, l); err == nil {
		err = l.chosen(ctx, func(number int64, e Entry) error {
			s.totals.Entries++
			s.end = number
			stopped = s.listed(p, l, number, e)
			return stopped
		})
	}
	switch {
	case stopped != nil:
		return stopped
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return &unreadableError{fmt.Errorf("%w; want Karpathy's dataset_coco.json or a list of ALBEF's, [{\"image\", \"caption\"}]", err)}
	}
	return s.more()
}

// listed hands out one image.
func (s *scanner) listed(p *listImages, l *list, number int64, e Entry) error {
	at := entry{name: e.Image, header: number}
	if e.Broken || e.Image == "" {
		return s.report(Problem{Offset: number, Reason: ReasonJSON, Detail: "an entry of the list names no image"})
	}
	name, size, err := p.find(e.Image)
	if err != nil {
		reason := ReasonNoImage
		if errors.Is(err, errParent) {
			reason = ReasonName
		}
		return s.report(Problem{Offset: number, Entry: e.Image, Reason: reason, Detail: err.Error()})
	}
	at.size, at.present = size, size
	s.image = s.image[:0]
	if size <= schemas.MaxImageBytes {
		if s.image, err = p.read(name, size, s.image); err != nil {
			return s.report(Problem{Offset: number, Entry: e.Image, Reason: ReasonNoImage, Detail: err.Error()})
		}
	}
	s.imageURI = FileURI(filepath.Join(p.folder, filepath.FromSlash(name)))
	s.cur = sample{key: e.Image, first: at, image: &at}
	s.cur.metaCaption, s.cur.found = l.captions(number, e.Captions)
	return s.flush()
}
