package service

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/jpeg"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/onelane"
	"github.com/pairstream/pairstream/schemas"
)

// picture returns a JPEG of 40 x 30 pixels, one for each number.
func picture(t *testing.T, number int) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 40, 30))
	for i := range m.Pix {
		m.Pix[i] = byte(i*number + number)
	}
	var out bytes.Buffer
	must.Do(t, jpeg.Encode(&out, m, nil))
	return out.Bytes()
}

// pictured is a lane whose images lie in a tar of a folder. The images of pairs 3 and 12 are lost.
type pictured struct {
	*onelane.Log
	folder string // of the crawl and of the copies
	tar    string
}

func newPictured(t *testing.T) pictured {
	t.Helper()
	folder := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	p := pictured{Log: onelane.New(t, 1), folder: folder, tar: filepath.Join(folder, "crawl.tar")}
	f := must.Get(os.Create(p.tar))(t)
	tar := shard.NewWriter(f)
	for i := range 20 {
		data := picture(t, i)
		at := must.Get(tar.Write("a", shard.File{Ext: "jpg", Data: data}))(t)
		e := embedding(i, map[bool]string{true: "m", false: "n"}[i < 15])
		e.ImageID, e.Image = schemas.NewImageID(data), schemas.ImageRef{URI: shard.FileURI(p.tar), Offset: at[0], Size: int64(len(data))}
		if i == 3 || i == 12 {
			e.Image.URI = shard.FileURI(filepath.Join(folder, "lost.tar"))
		}
		e.ID = schemas.NewPairID(e.ImageID, e.Caption)
		p.Append(schemas.Embeddings, e)
	}
	must.Do(t, errors.Join(tar.Close(), f.Close()))
	p.Append(schemas.Embeddings, &schemas.Seal{Final: true})
	return p
}

// again returns the lane without records of the stage, and without copies.
func (p pictured) again(t *testing.T, whole *onelane.Log) pictured {
	t.Helper()
	must.Do(t, os.RemoveAll(filepath.Join(p.folder, "copies")))
	return pictured{Log: whole.Clone(), folder: p.folder, tar: p.tar}
}

// run lets an owner process the lane, which dies before it adds the record with the number limit.
func (p pictured) run(t *testing.T, limit int, change func(*Repack)) bool {
	t.Helper()
	instruments, err := service.NewRuntime(slog.New(slog.DiscardHandler)).NewInstruments(Name, nil)
	must.Do(t, err)
	s := Repack{Root: filepath.Join(p.folder, "copies"), Side: 16, Workers: 3, Roots: []string{"file://" + p.folder}}
	if change != nil {
		change(&s)
	}
	copies := newCopier(s, instruments, func(context.Context) (*forget.Set, error) { return nil, nil })
	o := testOptions()
	if o.Repack, err = copies.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o.Repack != "" {
		o.RepackSide = s.Side
	}
	died := p.Run(copying(t, o, copies), limit)
	must.Check(t, copies.Close())
	return died
}

// copiesOf returns the references to copies by pair, as the lane's chunks have them.
func copiesOf(l *onelane.Log) map[schemas.PairID]schemas.ImageRef {
	found := make(map[schemas.PairID]schemas.ImageRef)
	for _, r := range l.Records(schemas.Neighbors) {
		c := r.(*schemas.NeighborChunk)
		for i := range c.Members() {
			if ref, ok := c.Copy(i); ok {
				found[c.ID(i)] = ref
			}
		}
	}
	return found
}

func sameRecords(a, b *onelane.Log) bool {
	return slices.EqualFunc(a.Values(schemas.Neighbors), b.Values(schemas.Neighbors), bytes.Equal) &&
		slices.EqualFunc(a.Values(schemas.Groups), b.Values(schemas.Groups), bytes.Equal)
}

func TestGroupsAreCopied(t *testing.T) {
	p := newPictured(t)
	p.run(t, -1, nil)
	copies := copiesOf(p.Log)
	if len(copies) != 18 {
		t.Errorf("%d pairs have copies, want all but two of 20", len(copies))
	}
	must.Do(t, os.Remove(p.tar))
	bucket := must.Get(shard.OpenBucket(t.Context(), []string{"file://" + p.folder}, nil))(t)
	for _, r := range p.Records(schemas.Embeddings) {
		e, ok := r.(*schemas.Embedding)
		ref, copied := schemas.ImageRef{}, false
		if ok {
			ref, copied = copies[e.ID]
		}
		if !copied {
			continue
		}
		data := must.Get(bucket.ReadRange(t.Context(), ref, e.ImageID))(t)
		if h, err := imaging.ReadHeader(data); err != nil || h.Height != 16 || h.Width != 21 {
			t.Errorf("a copy has %d x %d pixels (%v), want 21 x 16", h.Width, h.Height, err)
		}
	}
	must.Check(t, bucket.Close())
	for _, r := range p.Records(schemas.Groups) {
		g, ok := r.(*schemas.Group)
		if !ok {
			continue
		}
		signed := indexer.Group{Manifest: &schemas.Group{}}
		for _, c := range p.Records(schemas.Neighbors) {
			if c := c.(*schemas.NeighborChunk); c.Group == g.Group {
				signed.Chunks = append(signed.Chunks, c)
			}
		}
		if err := signed.Sign(); err != nil || !bytes.Equal(signed.Manifest.Digest, g.Digest) {
			t.Errorf("the manifest of group %s has not the digest of its chunks (%v)", g.Group, err)
		}
	}
}

// TestNoCrashChangesACopy kills the owner before each record that it writes, and its successor. What the group reads is
// deleted in between, once its tars are there. Files of crashed writers are never read.
func TestNoCrashChangesACopy(t *testing.T) {
	p := newPictured(t)
	fresh := p.Clone()
	p.run(t, -1, nil)
	for limit := range p.Len(schemas.Neighbors) + p.Len(schemas.Groups) {
		l := p.again(t, fresh)
		if !l.run(t, limit, nil) {
			t.Fatalf("the owner did not die before record %d", limit)
		}
		l.Cut(schemas.Neighbors, 1)
		there := tarsIn(t, l.folder)
		for tar := range there {
			half := filepath.Join(filepath.Dir(tar), ".00000.tar-1.tmp")
			must.Do(t, os.WriteFile(half, []byte("half of a tar"), 0o600))
		}
		l.run(t, 1, func(s *Repack) { s.Workers = 1 })
		l.run(t, -1, nil)
		if !sameRecords(l.Log, p.Log) {
			t.Errorf("an owner that died before record %d leads to other records", limit)
		}
		after := tarsIn(t, l.folder)
		for tar, at := range there {
			if after[tar] != at {
				t.Errorf("%s was written twice", tar)
			}
		}
	}
	// The tars of the first group are complete, and none of its records is there: the crawl is not needed any more.
	l := p.again(t, fresh)
	l.run(t, 0, nil)
	hidden := p.tar + ".gone"
	must.Do(t, os.Rename(p.tar, hidden))
	l.run(t, 1, nil)
	must.Do(t, os.Rename(hidden, p.tar))
	l.run(t, -1, nil)
	if !sameRecords(l.Log, p.Log) {
		t.Error("a crawl that is lost after a group was copied changes records")
	}
}

// tarsIn returns the files of tars below a folder, by path.
func tarsIn(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	must.Do(t, filepath.WalkDir(filepath.Join(folder, "copies"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".tar") {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				found[path] = info.ModTime().String()
			}
		}
		return err
	}))
	return found
}

// TestAGroupKeepsItsPlaceOfCopies starts an owner with other settings while a group is half published.
func TestAGroupKeepsItsPlaceOfCopies(t *testing.T) {
	p := newPictured(t)
	fresh := p.Clone()
	p.run(t, -1, nil)
	for name, change := range map[string]func(*Repack){
		"no copies":     func(s *Repack) { s.Root = "" },
		"another place": func(s *Repack) { s.Root = filepath.Join(p.folder, "copies", "others") },
		"another size":  func(s *Repack) { s.Side = 20 },
	} {
		l := p.again(t, fresh)
		l.run(t, 1, nil) // a chunk is there, the manifest is not
		l.run(t, -1, change)
		if !bytes.Equal(l.Values(schemas.Groups)[0], p.Values(schemas.Groups)[0]) {
			t.Errorf("%s: the group that was begun has another manifest", name)
		}
		if sameRecords(l.Log, p.Log) {
			t.Errorf("%s: the groups after it are made with the old settings", name)
		}
	}
}

// TestWithoutCopiesNothingDiffers compares with a stage that knows nothing of copies.
func TestWithoutCopiesNothingDiffers(t *testing.T) {
	p := newPictured(t)
	plain := p.Clone()
	plain.Run(spec(t, testOptions()), -1)
	p.run(t, -1, func(s *Repack) { s.Root = "" })
	if !sameRecords(p.Log, plain) || !slices.EqualFunc(p.States(schemas.Neighbors), plain.States(schemas.Neighbors), bytes.Equal) {
		t.Error("records differ without REPACK_ROOT")
	}
}

func TestRepackSettings(t *testing.T) {
	for want, environ := range map[string]map[string]string{
		"REPACK_SIDE is 8, want 16..4096": {"REPACK_SIDE": "8"},
		`REPACK_ROOT is "ftp://a/b", want s3://bucket/prefix, gs://bucket/prefix or a folder`: {"REPACK_ROOT": "ftp://a/b"},
		`REPACK_ROOT is "s3://other/copies", which is below none of BUCKET_ROOTS (s3://crawl,file:///data): add it to those of all stages, so that discriminator and trainer may read it`: {
			"REPACK_ROOT": "s3://other/copies",
		},
		`REPACK_ROOT is "/datacopies", which is below none of BUCKET_ROOTS (s3://crawl,file:///data): add it to those of all stages, so that discriminator and trainer may read it`: {
			"REPACK_ROOT": "/datacopies",
		},
	} {
		all := map[string]string{"REPACK_ROOT": "s3://crawl/copies", "BUCKET_ROOTS": "s3://crawl,file:///data"}
		maps.Copy(all, environ)
		if _, err := config.Parse[Settings](all); err == nil || err.Error() != want {
			t.Errorf("%v: got %v, want %s", environ, err, want)
		}
	}
	for _, root := range []string{"", "s3://crawl/a?region=x", "s3://crawl", "/data/copies/", "file:///data/copies"} {
		s, err := config.Parse[Settings](map[string]string{"REPACK_ROOT": root, "BUCKET_ROOTS": "s3://crawl?region=y, file:///data"})
		if err != nil || s.Options().Repack != root {
			t.Errorf("%q: %v", root, err)
		}
	}
}
