//go:build cgo

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestEvalWithCaptionsOfAList parts scenes into a tar of images alone and Karpathy's JSON, and measures a split of it.
// The result equals that of a tar that has the captions of this split beside its images.
func TestEvalWithCaptionsOfAList(t *testing.T) {
	if apart(t) {
		return
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	mustCommand(t, "synth", in("scenes"), "--scenes", "12", "--side", "64")
	mustCommand(t, "bootstrap", in("scenes"), "--steps", "1", "--batch", "4", "--out", in("w.safetensors"))

	type sentence struct {
		Raw string `json:"raw"`
	}
	type entry struct {
		Filename  string     `json:"filename"`
		Split     string     `json:"split"`
		Sentences []sentence `json:"sentences"`
	}
	var list []entry
	var bare, test bytes.Buffer
	bareTar, testTar := shard.NewWriter(&bare), shard.NewWriter(&test)
	must.Get(shard.Scan(t.Context(), []string{in("scenes")}, shard.Visitor{Example: func(ex shard.Example) error {
		image := shard.File{Ext: shard.Extension(ex.Encoded), Data: ex.Encoded}
		e := entry{Filename: fmt.Sprintf("COCO_%d.%s", len(list), image.Ext), Split: []string{"test", "train"}[len(list)%2]}
		for _, c := range ex.Captions {
			e.Sentences = append(e.Sentences, sentence{c})
		}
		key := strings.TrimSuffix(e.Filename, "."+image.Ext)
		if _, err := bareTar.Write("val2014/"+key, image); err != nil {
			return err
		}
		if e.Split == "test" {
			meta, err := json.Marshal(map[string]any{"captions": ex.Captions})
			if err != nil {
				return err
			}
			if _, err := testTar.Write(key, image, shard.File{Ext: "json", Data: meta}); err != nil {
				return err
			}
		}
		list = append(list, e)
		return nil
	}, Problem: func(p shard.Problem) error { return fmt.Errorf("%s", p) }}))(t)
	list = append(list, entry{Filename: "COCO_100.jpg", Split: "test", Sentences: []sentence{{"an image that is not there"}}}, entry{Filename: "COCO_101.jpg", Split: "test"})
	for name, w := range map[string]*shard.Writer{"bare.tar": bareTar, "test.tar": testTar} {
		must.Do(t, w.Close())
		must.Do(t, os.WriteFile(in(name), map[string]*bytes.Buffer{"bare.tar": &bare, "test.tar": &test}[name].Bytes(), 0o600))
	}
	raw := must.Get(json.Marshal(map[string]any{"dataset": "coco", "images": list}))(t)
	must.Do(t, os.WriteFile(in("dataset_coco.json"), raw, 0o600))

	want := mustCommand(t, "eval", "--checkpoint", in("w.safetensors"), "--json", in("test.tar"))
	var got, said bytes.Buffer
	root := newRoot()
	root.SetOut(&got)
	root.SetErr(&said)
	root.SetArgs([]string{"eval", "--checkpoint", in("w.safetensors"), "--json", in("bare.tar"), "--captions", in("dataset_coco.json")})
	must.Do(t, root.ExecuteContext(t.Context()))
	if said.String() != "passed over 1: caption_missing\npassed over 1: image_missing\n" {
		t.Errorf("it says %q", said.String())
	}
	if got.String() != want {
		t.Errorf("%s\nwant\n%s", got.String(), want)
	}
	var report eval.Report
	if err := json.Unmarshal([]byte(want), &report); err != nil || report.Images != 6 {
		t.Errorf("%d images, %v; want 6", report.Images, err)
	}
	if _, err := command(t, "eval", "--checkpoint", in("w.safetensors"), in("bare.tar"), "--captions", in("dataset_coco.json"), "--split", "val"); err == nil ||
		!strings.Contains(err.Error(), "its splits are test, train") {
		t.Errorf("a split that is not there: %v", err)
	}
	if _, err := command(t, "eval", in("bare.tar"), "--captions", in("dataset_coco.json"), "--holdout", "3"); err == nil {
		t.Error("--captions with --holdout is taken")
	}
}
