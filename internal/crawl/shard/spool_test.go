package shard_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/fulldisk"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// spooled is a lane: the images of its pairs in order, and after which pairs it is sealed.
type spooled struct {
	images []string
	seals  map[int]bool
}

func lane(t testing.TB) spooled {
	l := spooled{seals: map[int]bool{11: true, 12: true}}
	for i := range 24 {
		n := i%4 + 4*(i/8) // four images, again, and then four others
		l.images = append(l.images, picture(t, n)+strings.Repeat("p", 200*n))
	}
	return l
}

func spoolIn(root string) shard.SpoolOptions {
	return shard.SpoolOptions{Root: root, Lane: 3, TarBytes: 6000}
}

// run spools the pairs from..to and returns their references and the state after each.
func (l spooled) run(t testing.TB, dir string, from, to int, state []byte) (refs []schemas.ImageRef, states [][]byte) {
	t.Helper()
	s := must.Get(shard.OpenSpool(spoolIn(dir), state))(t)
	for i := from; i < to; i++ {
		ref := must.Get(s.Put(int64(100+i), []byte(l.images[i])))(t)
		if l.seals[i] {
			must.Do(t, s.Roll())
		}
		refs, states = append(refs, ref), append(states, s.State())
	}
	must.Do(t, s.Sync())
	must.Do(t, s.Close())
	return refs, states
}

func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must.Do(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(raw)
		return err
	}))
	return out
}

func TestSpoolRefersToWhatItWrote(t *testing.T) {
	l, dir := lane(t), realDir(t)
	refs, _ := l.run(t, dir, 0, len(l.images), nil)
	b := openBucket(t, shard.FileURI(dir))
	distinct := map[schemas.ImageRef]bool{}
	for i, ref := range refs {
		got, err := b.ReadRange(context.Background(), ref, schemas.NewImageID([]byte(l.images[i])))
		if err != nil || string(got) != l.images[i] {
			t.Errorf("pair %d: %v", i, err)
		}
		distinct[ref] = true
	}
	if len(distinct) == len(refs) {
		t.Error("an image that came again was written again into the same tar")
	}
	names := slices.Sorted(maps.Keys(files(t, dir)))
	if len(names) < 4 || names[0] != "/lane-00003/00000000000000000100.tar" {
		t.Errorf("tars %v", names)
	}
	for _, name := range names[:len(names)-1] { // the last is open
		for _, p := range scanFile(t, dir+name).problems {
			if p.Reason != shard.ReasonNoCaption {
				t.Errorf("%s: %v", name, p)
			}
		}
	}
}

func realDir(t testing.TB) string {
	t.Helper()
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	return dir
}

// TestSpoolResumesAnywhere stops after some pair, goes back to the state after an earlier one, and goes on: the
// references and, in the end, the files are those of a run that was not disturbed. Between the two lives, what was
// written after the state is lost, as by a machine that went down: zeros or nothing.
func TestSpoolResumesAnywhere(t *testing.T) {
	l := lane(t)
	n := len(l.images)
	straight := realDir(t)
	wantRefs, states := l.run(t, straight, 0, n, nil)
	want := files(t, straight)
	for back := 0; back <= n; back += 4 {
		var state []byte
		safe := realDir(t)
		if back > 0 {
			state = states[back-1]
			l.run(t, safe, 0, back, nil)
		}
		for stop := back; stop <= n; stop += 9 {
			dir := realDir(t)
			l.run(t, dir, 0, stop, nil)
			tear(t, dir, files(t, safe), stop%2 == 0)
			refs, _ := l.run(t, dir, back, n, state)
			for i, ref := range refs {
				if got := strings.Replace(ref.URI, dir, straight, 1); got != wantRefs[back+i].URI || ref.Offset != wantRefs[back+i].Offset {
					t.Fatalf("stopped after %d, back to %d: pair %d is at %+v, want %+v", stop, back, back+i, ref, wantRefs[back+i])
				}
			}
			if got := files(t, dir); !maps.Equal(got, want) {
				t.Fatalf("stopped after %d, back to %d: other files", stop, back)
			}
		}
	}
}

// tear loses what the files of a folder hold beyond those that are safe.
func tear(t testing.TB, dir string, safe map[string]string, zeros bool) {
	t.Helper()
	for name, raw := range files(t, dir) {
		kept := []byte(safe[name])
		if zeros {
			kept = append(kept, make([]byte, len(raw)-len(kept))...)
		}
		must.Do(t, os.WriteFile(dir+name, kept, 0o600))
	}
}

func TestSpoolOfTwoOwners(t *testing.T) {
	l, dir, straight := lane(t), realDir(t), realDir(t)
	l.run(t, straight, 0, len(l.images), nil)
	// The fenced owner is ahead of the state from which the new one goes on, and goes on writing in between.
	fenced := must.Get(shard.OpenSpool(spoolIn(dir), nil))(t)
	owner := must.Get(shard.OpenSpool(spoolIn(dir), nil))(t)
	put := func(s *shard.Spool, i int) {
		must.Get(s.Put(int64(100+i), []byte(l.images[i])))(t)
		if l.seals[i] {
			must.Do(t, s.Roll())
		}
	}
	for i := range l.images {
		if i < 20 {
			put(fenced, i)
		}
		if i >= 5 {
			put(owner, i-5)
		}
	}
	for i := len(l.images) - 5; i < len(l.images); i++ {
		put(owner, i)
	}
	must.Do(t, fenced.Close())
	must.Do(t, owner.Close())
	if !maps.Equal(files(t, dir), files(t, straight)) {
		t.Error("two owners of a lane left other files than one")
	}
}

// TestSpoolTriesAgain lets the file system refuse a tar once.
func TestSpoolTriesAgain(t *testing.T) {
	l, dir, straight := lane(t), realDir(t), realDir(t)
	l.run(t, straight, 0, 1, nil)
	inTheWay := filepath.Join(dir, "lane-00003", "00000000000000000100.tar")
	must.Do(t, os.MkdirAll(inTheWay, 0o700))
	s := must.Get(shard.OpenSpool(spoolIn(dir), nil))(t)
	if _, err := s.Put(100, []byte(l.images[0])); err == nil {
		t.Fatal("wrote into a folder")
	}
	must.Do(t, os.Remove(inTheWay))
	must.Get(s.Put(100, []byte(l.images[0])))(t)
	must.Do(t, s.Close())
	if !maps.Equal(files(t, dir), files(t, straight)) {
		t.Error("other files than without the fault")
	}
}

// TestSpoolOnAFullDisk runs out of disk while an image is written, synced or the last of its tar, wherever that is. The
// stage then gives its lane up; with room again, a spool that resumes from the state before leaves the same files and
// references as without the fault.
func TestSpoolOnAFullDisk(t *testing.T) {
	if !fulldisk.Alone(t) {
		return
	}
	l, straight := lane(t), realDir(t)
	want, _ := l.run(t, straight, 0, len(l.images), nil)
	failures := 0
	for room := uint64(0); room < 8000; room += 500 {
		dir := realDir(t)
		s, err := shard.OpenSpool(spoolIn(dir), nil)
		must.Do(t, err)
		put := func(i int) (schemas.ImageRef, error) {
			ref, err := s.Put(int64(100+i), []byte(l.images[i]))
			if err == nil {
				err = s.Sync()
			}
			if err == nil && l.seals[i] {
				err = s.Roll()
			}
			return ref, err
		}
		full := true
		for i := range l.images {
			state := s.State()
			var ref schemas.ImageRef
			if full {
				fulldisk.With(t, room, func() { ref, err = put(i) })
			} else {
				ref, err = put(i)
			}
			if full && err != nil {
				if !errors.Is(err, syscall.EFBIG) {
					t.Fatalf("room for %d bytes, image %d: %v", room, i, err)
				}
				full = false
				failures++
				_ = s.Close() // it may not be able to
				if s, err = shard.OpenSpool(spoolIn(dir), state); err == nil {
					ref, err = put(i)
				}
			}
			ref.URI = strings.Replace(ref.URI, dir, straight, 1)
			if err != nil || ref != want[i] {
				t.Fatalf("room for %d bytes, image %d: %+v, %v; want %+v", room, i, ref, err, want[i])
			}
		}
		must.Do(t, s.Close())
		if !maps.Equal(files(t, dir), files(t, straight)) {
			t.Errorf("room for %d bytes: other files than without the fault", room)
		}
	}
	if failures == 0 {
		t.Error("the disk was never full")
	}
}

func TestSpoolRefusesWhatIsNotItsOwn(t *testing.T) {
	l, dir := lane(t), realDir(t)
	_, states := l.run(t, dir, 0, 2, nil)
	for name, c := range map[string]struct {
		root  string
		state []byte
	}{
		"a store":             {"s3://bucket/spool", nil},
		"a broken state":      {dir, []byte{0xff}},
		"a long state":        {dir, append(bytes.Clone(states[1]), 0)},
		"a state not aligned": {dir, []byte{101, 7}},
		"a tar that is gone":  {realDir(t), states[1]},
	} {
		if s, err := shard.OpenSpool(spoolIn(c.root), c.state); err == nil {
			t.Errorf("%s: opened %+v", name, s)
		}
	}
	if s, err := shard.OpenSpool(spoolIn("file://"+dir), states[1]); err != nil {
		t.Errorf("as a URL: %v", err)
	} else if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestSpoolKeepsNamespacesApart spools two logs into one folder.
func TestSpoolKeepsNamespacesApart(t *testing.T) {
	dir := realDir(t)
	var refs []schemas.ImageRef
	for i, namespace := range []string{"", "one", "two"} {
		o := spoolIn(dir)
		o.Namespace = namespace
		s := must.Get(shard.OpenSpool(o, nil))(t)
		ref, err := s.Put(7, []byte(picture(t, i)))
		must.Do(t, errors.Join(err, s.Close()))
		refs = append(refs, ref)
	}
	b := openBucket(t, shard.FileURI(dir))
	for i, ref := range refs {
		if _, err := b.ReadRange(t.Context(), ref, schemas.NewImageID([]byte(picture(t, i)))); err != nil {
			t.Errorf("the image of log %d: %v", i, err)
		}
	}
	for _, namespace := range []string{".", ".."} {
		o := spoolIn(dir)
		o.Namespace = namespace
		if _, err := shard.OpenSpool(o, nil); err == nil {
			t.Errorf("namespace %q leads out of the folder and is accepted", namespace)
		}
	}
}

// TestSpoolRefusesTheFolderOfAnotherLog begins a lane anew where another lane of the same number has left its tars.
func TestSpoolRefusesTheFolderOfAnotherLog(t *testing.T) {
	dir := realDir(t)
	l := lane(t)
	l.run(t, dir, 0, len(l.images), nil)
	before := files(t, dir)
	l.run(t, dir, 0, len(l.images), nil) // the same log, from its start
	if !maps.Equal(before, files(t, dir)) {
		t.Error("spooling the same pairs again changed a tar")
	}
	s := must.Get(shard.OpenSpool(spoolIn(dir), nil))(t)
	defer s.Close()
	if _, err := s.Put(100, []byte(picture(t, 77))); !errors.Is(err, shard.ErrForeignSpool) || !strings.Contains(err.Error(), "00100.tar") {
		t.Errorf("error %v, want %v and the name of the tar", err, shard.ErrForeignSpool)
	}
	if !maps.Equal(before, files(t, dir)) {
		t.Error("the tars of the other log changed")
	}
	if _, err := s.Put(101, []byte(picture(t, 77))); err != nil {
		t.Errorf("a tar of a name that was free: %v", err)
	}
}

// TestSpoolDeletesTheOldest holds the quota: what is left is what was written last, and never less than two tars.
func TestSpoolDeletesTheOldest(t *testing.T) {
	for _, keep := range []int64{0, 1, 30_000} {
		dir := realDir(t)
		o := spoolIn(dir)
		o.KeepBytes = keep
		s := must.Get(shard.OpenSpool(o, nil))(t)
		notes := filepath.Join(dir, "lane-00003", "0-notes.txt") // before all tars by its name
		must.Do(t, os.WriteFile(notes, []byte("of the user"), 0o644))
		for i := range 20 {
			must.Get(s.Put(int64(i), []byte(picture(t, i)+strings.Repeat("p", 6000))))(t)
		}
		must.Do(t, s.Close())
		if text, err := os.ReadFile(notes); string(text) != "of the user" {
			t.Errorf("keeping %d bytes: a file of the user's is %q (%v)", keep, text, err)
		}
		must.Do(t, os.Remove(notes))
		names := slices.Sorted(maps.Keys(files(t, dir)))
		want := map[int64]int{0: 20, 1: 2, 30_000: 3}[keep] // 8,192 bytes each
		if len(names) != want || !strings.HasSuffix(names[len(names)-1], "00019.tar") {
			t.Errorf("keeping %d bytes: %v, want the last %d", keep, names, want)
		}
	}
}
