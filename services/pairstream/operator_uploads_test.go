//go:build cgo

package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/pairstream/pairstream/trainer"
)

// place is where the checkpoints of a namespace are copied to.
func (w *world) place(s *space) string { return filepath.Join(w.dir, "uploads-"+s.name) }

// upload lets the trainer copy its checkpoints to a place, or ends that.
func (w *world) upload() {
	w.healUploads()
	w.uploading = !w.uploading
	place := ""
	if w.uploading {
		place = w.place(w.here)
	}
	w.set("CHECKPOINT_UPLOAD", place, []string{"trainer"})
}

// refuseUploads makes a file of the place, so that it takes nothing and has nothing. Training goes on, but does not
// start.
func (w *world) refuseUploads() {
	place := w.place(w.here)
	if info, err := os.Stat(place); err != nil || !info.IsDir() {
		return
	}
	w.check(os.Rename(place, place+"-aside"))
	w.check(os.WriteFile(place, nil, 0o600))
}

// healUploads gives all places back.
func (w *world) healUploads() {
	for _, s := range w.spaces {
		place := w.place(s)
		if _, err := os.Stat(place + "-aside"); err == nil {
			w.check(os.Remove(place))
			w.check(os.Rename(place+"-aside", place))
		}
	}
}

// tearUpload cuts a copy off, as a place does that dies while it takes it.
func (w *world) tearUpload(a action) {
	files, err := filepath.Glob(filepath.Join(w.place(w.here), "*.safetensors"))
	w.check(err)
	if len(files) == 0 {
		return
	}
	path := files[a.A%len(files)]
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return // the trainer has removed it meanwhile
	}
	w.check(err)
	if err := os.Truncate(path, info.Size()*int64(a.B)/12); !os.IsNotExist(err) {
		w.check(err)
	}
}

// uploadsFail finds what a trainer says whose place takes nothing.
func uploadsFail(text string) bool {
	return strings.Contains(text, "uploading checkpoints again after a pause") || strings.Contains(text, "CHECKPOINT_UPLOAD is ")
}

// uploadRemedy does what the error of a trainer that does not start with its place asks for.
func (w *world) uploadRemedy(text string) {
	w.healUploads()
	if strings.Contains(text, "none of its checkpoints is whole") { // give another place to begin anew
		w.check(os.RemoveAll(w.place(w.here)))
	}
}

// uploaded wants the newest checkpoint of a namespace at its place, whole, when training has come to its end.
func (w *world) uploaded(s *space) {
	if !w.uploading {
		return
	}
	found, err := trainer.Checkpoints(w.folder(s))
	w.check(err)
	if len(found) == 0 {
		return
	}
	copied := filepath.Join(w.place(s), filepath.Base(found[0].Path))
	if err := trainer.CheckFile(copied); err != nil {
		w.fatalf("training has ended, and the copy of the newest checkpoint is not there: %v", err)
	}
	want, err := os.ReadFile(found[0].Path)
	w.check(err)
	got, err := os.ReadFile(copied)
	w.check(err)
	if string(got) != string(want) {
		w.fatalf("training has ended, and %s is another checkpoint than %s", copied, found[0].Path)
	}
}
