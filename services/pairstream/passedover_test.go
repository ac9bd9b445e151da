package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestVocabPassesOverWhatItCannotRead makes a vocabulary of a folder with a link to nowhere and a caption without
// image.
func TestVocabPassesOverWhatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	w := must.Get(shard.NewDirWriter(dir, 10))(t)
	for _, err := range []error{
		w.Write("good", shard.File{Ext: "png", Data: []byte("a picture, as far as words go")}, shard.File{Ext: "txt", Data: []byte("zebra zebra")}),
		w.Write("alone", shard.File{Ext: "txt", Data: []byte("nothing to see")}),
		w.Close(),
		os.Symlink("nowhere", filepath.Join(dir, "dangling.tar")),
	} {
		must.Do(t, err)
	}
	out := filepath.Join(t.TempDir(), "vocab.txt")
	cmd := newVocabCommand()
	var said bytes.Buffer
	cmd.SetErr(&said)
	cmd.SetOut(&bytes.Buffer{})
	cmd.SetArgs([]string{dir, "--out", out})
	must.Do(t, cmd.ExecuteContext(t.Context()))
	vocab, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(vocab), "zebra") || strings.Contains(string(vocab), "nothing") {
		t.Errorf("vocabulary %q, %v", vocab, err)
	}
	if want := "passed over 1: file_unreadable\npassed over 1: image_missing\n"; said.String() != want {
		t.Errorf("said %q, want %q", said.String(), want)
	}
}
