package repack

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// drawn returns an encoded image with slopes and noise, one for each number.
func drawn(t testing.TB, format string, w, h, number int) []byte {
	t.Helper()
	r := rng.New(3, "repack", int64(number))
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		m.SetRGBA(i%w, i/w, color.RGBA{byte(i % w), byte(i / w), byte(number + r.IntN(9)), 255})
	}
	var out bytes.Buffer
	err := png.Encode(&out, m)
	if format == "jpeg" {
		out.Reset()
		err = jpeg.Encode(&out, m, nil)
	}
	must.Do(t, err)
	return out.Bytes()
}

// crawl is a source in memory. It may lose images, and fail.
type crawl struct {
	mu     sync.Mutex
	images map[schemas.ImageID][]byte
	errs   map[schemas.ImageID]error
	reads  int
}

// ReadRange implements [Source].
func (c *crawl) ReadRange(ctx context.Context, _ schemas.ImageRef, id schemas.ImageID) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	if err := errors.Join(ctx.Err(), c.errs[id]); err != nil {
		return nil, err
	}
	if data, ok := c.images[id]; ok {
		return data, nil
	}
	return nil, shard.ErrMissing
}

// memory is a store that counts and may fail.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	faults  int               // of the next writes
	before  func(name string) // called when an object is complete, and before it appears
}

// Write implements [Store].
func (m *memory) Write(_ context.Context, name string, write func(io.Writer) error) error {
	var out bytes.Buffer
	if err := write(&out); err != nil {
		return err
	}
	if m.before != nil {
		m.before(name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.faults > 0 {
		m.faults--
		return errors.New("the disk is full")
	}
	if _, there := m.objects[name]; there {
		return fs.ErrExist
	}
	m.objects[name] = out.Bytes()
	return nil
}

// Open implements [Store].
func (m *memory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	object, ok := m.objects[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(object)), nil
}

// world is a group of n pairs, two of them to an image, and where its images are.
type world struct {
	crawl  *crawl
	ids    []schemas.ImageID
	chunks []*schemas.NeighborChunk
}

func newWorld(t testing.TB, n int) *world {
	t.Helper()
	return worldOf(t, n, 2)
}

// worldOf makes a group of n pairs, some of them to each image.
func worldOf(t testing.TB, n, captions int) *world {
	t.Helper()
	w := &world{crawl: &crawl{images: map[schemas.ImageID][]byte{}, errs: map[schemas.ImageID]error{}}}
	kinds := [][]byte{nil, nil, nil, nil, nil, nil, nil}
	for i := range kinds {
		kinds[i] = drawn(t, []string{"jpeg", "png"}[i%2], 20+20*i, 90-10*i, i)
	}
	for i := range n {
		data := append(slices.Clone(kinds[i/captions%7]), byte(i/captions), byte(i/captions>>8)) // decoders ignore what comes behind
		id := schemas.NewImageID(data)
		w.crawl.images[id] = data
		w.ids = append(w.ids, id)
	}
	return w.again()
}

// again returns the group without copies.
func (w *world) again() *world {
	next := &world{crawl: w.crawl, ids: w.ids}
	for start := 0; start < len(w.ids); start += schemas.ChunkMembers {
		c := &schemas.NeighborChunk{Group: schemas.GroupID{Lane: 2, Seq: 7}, Start: int32(start)}
		for i := start; i < min(start+schemas.ChunkMembers, len(w.ids)); i++ {
			id := schemas.NewPairID(w.ids[i], strconv.Itoa(i))
			c.IDs = append(c.IDs, id[:]...)
			c.Cluster, c.ObjEnd = append(c.Cluster, 0), append(c.ObjEnd, 0)
		}
		next.chunks = append(next.chunks, c)
	}
	return next
}

func (w *world) group() Group {
	return Group{ID: schemas.GroupID{Lane: 2, Seq: 7}, Chunks: w.chunks, Image: func(i int) (schemas.ImageID, schemas.ImageRef) {
		return w.ids[i], schemas.ImageRef{URI: "s3://crawl/1.tar", Offset: int64(i), Size: 9}
	}}
}

// run copies the group, and returns its chunks as bytes and what became of the images.
func (w *world) run(t testing.TB, store Store, o Options, gone ...schemas.ImageID) ([][]byte, map[string]int) {
	t.Helper()
	r := New(w.crawl, store, func(id schemas.ImageID) bool { return slices.Contains(gone, id) }, o, slog.New(slog.DiscardHandler))
	counts := map[string]int{}
	must.Do(t, r.Copy(t.Context(), w.group(), func(c Counts) { add(counts, c) }))
	return wire(t, w.chunks), counts
}

func add(to map[string]int, c Counts) {
	for outcome, n := range c.Images {
		to[outcome] += n
	}
}

func wire(t testing.TB, chunks []*schemas.NeighborChunk) [][]byte {
	t.Helper()
	var out [][]byte
	for _, c := range chunks {
		raw := must.Get(schemas.Marshal(c))(t)
		out = append(out, raw)
	}
	return out
}

func options(t testing.TB, root string, workers int) Options {
	t.Helper()
	u := must.Get(url.Parse(root))(t)
	return Options{Root: u, Side: 48, Workers: workers}
}

// TestCopies compares what any number of workers make, and reads every copy where its chunk says that it is.
func TestCopies(t *testing.T) {
	const captions, images = 16, schemas.ChunkMembers*tarChunks/16 + 10
	w := worldOf(t, captions*images, captions)
	dir := t.TempDir()
	root := shard.FileURI(dir)
	first, counts := w.run(t, shard.Folder(dir), options(t, root, 1))
	if counts[Copied]+counts[Shrunk] != images || counts[Copied] == 0 || counts[Shrunk] == 0 {
		t.Errorf("outcomes %v, want %d images that are copied or shrunk", counts, images)
	}
	bucket := must.Get(shard.OpenBucket(t.Context(), []string{root}, nil))(t)
	defer bucket.Close()
	for _, c := range w.chunks {
		last := int64(0)
		for i := range c.Members() {
			ref, ok := c.Copy(i)
			if !ok {
				t.Fatalf("member %d of the chunk at %d has no copy", i, c.Start)
			}
			if i%captions == 0 && ref.Offset <= last {
				t.Fatalf("the copy of member %d begins at %d, the one before at %d", i, ref.Offset, last)
			}
			last = ref.Offset
			data := must.Get(bucket.ReadRange(t.Context(), ref, w.ids[int(c.Start)+i]))(t)
			if h, err := imaging.ReadHeader(data); err != nil || h.Format != "jpeg" || min(h.Width, h.Height) > 48 {
				t.Fatalf("a copy is %+v, %v; want a JPEG of 48 pixels or fewer", h, err)
			}
		}
	}
	whole := files(t, dir)
	if len(whole) != 2 {
		t.Errorf("the copies are in %v, want two tars", slices.Sorted(maps.Keys(whole)))
	}
	for _, workers := range []int{3, 16} {
		again, other := w.again(), t.TempDir()
		chunks, _ := again.run(t, shard.Folder(other), options(t, root, workers))
		if !slices.EqualFunc(chunks, first, bytes.Equal) || !maps.Equal(files(t, other), whole) {
			t.Errorf("%d workers make other copies", workers)
		}
	}
}

// files returns what is below a folder, by name.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, dir)] = string(raw)
		return err
	}))
	return found
}

// TestWhatIsThereStays copies a group again after a crash. Meanwhile an image was lost, and another has come back.
func TestWhatIsThereStays(t *testing.T) {
	w := newWorld(t, 40)
	store := &memory{objects: map[string][]byte{}}
	o := options(t, "s3://bucket/copies", 4)
	back := w.crawl.images[w.ids[4]]
	delete(w.crawl.images, w.ids[4])
	first, counts := w.run(t, store, o)
	if counts[schemas.MaskMissing] != 1 || counts[Lost] != 0 {
		t.Errorf("outcomes %v, want one that is missing", counts)
	}
	if _, copied := w.chunks[0].Copy(5); copied {
		t.Error("an image that is lost has a copy")
	}
	w.crawl.images[w.ids[4]] = back
	clear(w.crawl.images)
	reads := w.crawl.reads
	for name, tar := range store.objects { // as an eraser does with the copy of a forgotten image
		if at, ok := w.chunks[0].Copy(8); ok {
			clear(tar[at.Offset : at.Offset+at.Size])
			store.objects[name] = tar
		}
	}
	second, counts := w.again().run(t, store, o)
	if !slices.EqualFunc(first, second, bytes.Equal) || w.crawl.reads != reads {
		t.Error("the second owner comes to other places, or reads images again")
	}
	if counts[Lost] != 1 || counts[Found] != 19 {
		t.Errorf("outcomes %v, want 19 that are found", counts)
	}
}

// TestTwoOwners has another owner of the lane complete the tar first, with one image less.
func TestTwoOwners(t *testing.T) {
	w := newWorld(t, 10)
	store := &memory{objects: map[string][]byte{}}
	o := options(t, "s3://bucket/copies", 2)
	var other [][]byte
	store.before = func(string) {
		store.before = nil
		lost := w.crawl.images[w.ids[0]]
		delete(w.crawl.images, w.ids[0])
		other, _ = w.again().run(t, store, o)
		w.crawl.images[w.ids[0]] = lost
	}
	if got, _ := w.run(t, store, o); !slices.EqualFunc(got, other, bytes.Equal) {
		t.Error("two owners come to different places")
	}
}

// TestLostImagesKeepTheirReferences asks for images that are lost, hostile, changed or forgotten, and for one that a
// store never hands out.
func TestLostImagesKeepTheirReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 20)
		bomb := []byte("\xff\xd8 is no JPEG")
		delete(w.crawl.images, w.ids[0])
		w.crawl.images[w.ids[2]] = bomb
		w.crawl.errs[w.ids[4]] = shard.ErrHashMismatch
		w.crawl.errs[w.ids[6]] = errors.New("503 slow down")
		_, counts := w.run(t, &memory{objects: map[string][]byte{}}, options(t, "s3://bucket/copies", 3), w.ids[8])
		for i := range 20 {
			if _, copied := w.chunks[0].Copy(i); copied != (i >= 10) {
				t.Errorf("member %d: a copy %t", i, copied)
			}
		}
		for _, outcome := range []string{schemas.MaskMissing, schemas.MaskUnusable, schemas.MaskChanged, Unreachable, schemas.MaskForgotten} {
			if counts[outcome] != 1 {
				t.Errorf("outcomes %v, want one %s", counts, outcome)
			}
		}
	})
}

// TestStoresThatFail writes to a store that fails for a while, and to one that fails until the owner is stopped.
func TestStoresThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 20)
		o := options(t, "s3://bucket/copies", 3)
		want, _ := w.again().run(t, &memory{objects: map[string][]byte{}}, o)
		if got, _ := w.run(t, &memory{objects: map[string][]byte{}, faults: 12}, o); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Error("a store that has failed gets other copies")
		}
		ctx, stop := context.WithCancel(t.Context())
		stuck := &memory{objects: map[string][]byte{}, faults: 1 << 30}
		ended := make(chan error)
		r := New(w.crawl, stuck, func(schemas.ImageID) bool { return false }, o, slog.New(slog.DiscardHandler))
		go func() { ended <- r.Copy(ctx, w.again().group(), func(Counts) {}) }()
		synctest.Wait()
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("stopped: %v", err)
		}
	})
}

// TestFoldersDiffer tells groups of other images, and other sizes of copies, apart.
func TestFoldersDiffer(t *testing.T) {
	small, large := options(t, "s3://b/c", 1), options(t, "s3://b/c", 1)
	large.Side = 64
	seen := map[string]bool{}
	for _, o := range []Options{small, large} {
		for _, n := range []int{10, 12} {
			seen[New(nil, nil, nil, o, nil).folder(newWorld(t, n).group())] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("folders %v, want four", seen)
	}
}

func TestForeignTarsAreRefused(t *testing.T) {
	var out bytes.Buffer
	foreign := shard.NewWriter(&out)
	must.Get(foreign.Write("000", shard.File{Ext: "jpg", Data: []byte("x")}))(t)
	for name, tar := range map[string][]byte{"foreign": out.Bytes(), "cut": out.Bytes()[:300]} {
		if found, err := entries(bytes.NewReader(tar), "s3://a"); err == nil {
			t.Errorf("%s: %v, want an error", name, found)
		}
	}
}

func TestSmall(t *testing.T) {
	for name, c := range map[string]struct {
		encoded []byte
		w, h    int
		outcome string
	}{
		"a large JPEG":        {drawn(t, "jpeg", 100, 75, 1), 64, 48, Shrunk},
		"upright":             {drawn(t, "jpeg", 75, 100, 1), 48, 64, Shrunk},
		"just as large":       {drawn(t, "jpeg", 64, 48, 1), 64, 48, Copied},
		"a pixel larger":      {drawn(t, "jpeg", 64, 49, 1), 63, 48, Shrunk},
		"a small PNG":         {drawn(t, "png", 30, 20, 1), 30, 20, Shrunk},
		"a strip":             {drawn(t, "png", 1, 300, 1), 1, 300, Shrunk},
		"a padded small JPEG": {append(drawn(t, "jpeg", 20, 20, 1), make([]byte, 1200)...), 20, 20, Shrunk},
	} {
		data, outcome, err := Small(c.encoded, 48)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		h, err := imaging.ReadHeader(data)
		if err != nil || h.Format != "jpeg" || h.Width != c.w || h.Height != c.h || outcome != c.outcome {
			t.Errorf("%s: %s, %+v, %v; want %d x %d, %s", name, outcome, h, err, c.w, c.h, c.outcome)
		}
		if same := bytes.Equal(data, c.encoded); same != (c.outcome == Copied) {
			t.Errorf("%s: byte for byte %t", name, same)
		}
	}
	for name, bad := range map[string][]byte{"none": nil, "cut": drawn(t, "png", 90, 90, 1)[:200], "no image": []byte("GIF89a")} {
		if _, _, err := Small(bad, 48); !shard.Permanent(err) {
			t.Errorf("%s: %v, want an error that stays", name, err)
		}
	}
}
