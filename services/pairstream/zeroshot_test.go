//go:build cgo

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// zeroShotWorld has tars of 12 scenes: with key.cls, and with a folder for each class. The class of scene i is i % 3.
type zeroShotWorld struct {
	in     func(string) string
	images [][]byte
}

var zeroShotClasses = []string{"red star", "blue circle", "green square"}

func newZeroShotWorld(t *testing.T) zeroShotWorld {
	t.Helper()
	dir := t.TempDir()
	z := zeroShotWorld{in: func(name string) string { return filepath.Join(dir, name) }}
	mustCommand(t, "synth", z.in("scenes"), "--scenes", "12", "--side", "64")
	mustCommand(t, "bootstrap", z.in("scenes"), "--steps", "1", "--batch", "4", "--out", z.in("w.safetensors"))
	var numbered, foldered bytes.Buffer
	byNumber, byFolder := shard.NewWriter(&numbered), shard.NewWriter(&foldered)
	must.Get(shard.Scan(t.Context(), []string{z.in("scenes")}, shard.Visitor{
		Picture: func(p shard.Picture) error {
			image := shard.File{Ext: shard.Extension(p.Encoded), Data: bytes.Clone(p.Encoded)}
			i := len(z.images)
			z.images = append(z.images, image.Data)
			if _, err := byNumber.Write(fmt.Sprintf("s%d", i), image, shard.File{Ext: "cls", Data: fmt.Appendf(nil, "%d", i%3)}); err != nil {
				return err
			}
			_, err := byFolder.Write(fmt.Sprintf("val/%s/s%d", strings.ReplaceAll(zeroShotClasses[i%3], " ", "_"), i), image)
			return err
		},
		Problem: func(p shard.Problem) error { return fmt.Errorf("%s", p) },
	}))(t)
	must.Do(t, byNumber.Close())
	must.Do(t, byFolder.Close())
	for name, text := range map[string]string{
		"numbered.tar": numbered.String(), "foldered.tar": foldered.String(), "classes.txt": strings.Join(zeroShotClasses, "\n") + "\n",
		"templates.txt": "a {}.\nthe {c}\n", "two.txt": "red star\nblue circle\n", "bad.txt": "a star\n",
		"examples.jsonl": `{"image_0": "s0", "caption_0": "a red star", "image_1": "s1", "caption_1": "a blue circle"}` + "\n" +
			`{"image_0": "s2", "caption_0": "a green square left of a star", "image_1": "s3", "caption_1": "a star left of a green square"}` + "\n",
	} {
		must.Do(t, os.WriteFile(z.in(name), []byte(text), 0o600))
	}
	return z
}

// top1 classifies with an encoder, an image and a prompt at a time. It returns the right answers by class.
func (z zeroShotWorld) top1(t *testing.T, weights, vocab string) (right [3]int) {
	t.Helper()
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Device: "cpu", Threads: 1}))(t)
	defer w.Close()
	e := must.Get(model.OpenEncoder(t.Context(), w, weights, model.EncoderOptions{VocabPath: vocab}))(t)
	defer e.Free()
	var classes [3][]float64
	for c, name := range zeroShotClasses {
		classes[c] = make([]float64, e.Dim())
		for _, prompt := range []string{"a " + name + ".", "the " + name} {
			for k, v := range must.Get(e.EncodeTexts(t.Context(), []string{prompt}))(t) {
				classes[c][k] += float64(v)
			}
		}
		square := 0.
		for _, v := range classes[c] {
			square += v * v
		}
		for k := range classes[c] {
			classes[c][k] /= math.Sqrt(square)
		}
	}
	pre := e.Preprocessing()
	for i, encoded := range z.images {
		pixels := make([]byte, pre.Values())
		pre.Bytes(pixels, must.Get(imaging.Decode(encoded))(t))
		vector := must.Get(e.EncodeImages(t.Context(), pixels, 1))(t)
		scores := make([]float64, 3)
		for c := range classes {
			for k, v := range vector {
				scores[c] += float64(v) * classes[c][k]
			}
		}
		if slices.Index(scores, slices.Max(scores)) == i%3 {
			right[i%3]++
		}
	}
	return right
}

// TestEvalZeroShot compares with images that are classified one by one, for pairstream's weights and for what
// transformers saves of a CLIP.
func TestEvalZeroShot(t *testing.T) {
	if apart(t) {
		return
	}
	z := newZeroShotWorld(t)
	clip := z.in("clip")
	saveCLIP(t, clip)
	for _, c := range []struct{ name, weights string }{{"pairstream", z.in("w.safetensors")}, {"CLIP", clip}} {
		file := must.Get(model.WeightsIn(c.weights))(t)
		right := z.top1(t, file, "")
		out := mustCommand(t, "eval", "--zeroshot", z.in("classes.txt"), "--templates", z.in("templates.txt"), "--checkpoint", c.weights, "--json", z.in("numbered.tar"))
		var report eval.ZeroShotReport
		must.Do(t, json.Unmarshal([]byte(out), &report))
		for i, class := range report.PerClass {
			if class.Name != zeroShotClasses[i] || class.Images != 4 || class.Top1 != 25*float64(right[i]) {
				t.Errorf("%s: class %+v, want %d of 4", c.name, class, right[i])
			}
		}
		if all := float64(right[0]+right[1]+right[2]) / 12; report.Images != 12 || report.Top1.Percent != 100*all || report.Top5.Percent != 100 ||
			len(report.Templates) != 2 || report.Chance.Top5 != 100 {
			t.Errorf("%s: %s", c.name, out)
		}
		if again := mustCommand(t, "eval", "--zeroshot", z.in("classes.txt"), "--templates", z.in("templates.txt"), "--checkpoint", c.weights, "--json", z.in("foldered.tar")); again != out {
			t.Errorf("%s: with folders for classes %s\nwant %s", c.name, again, out)
		}
	}
	if out := mustCommand(t, "eval", "--zeroshot", z.in("classes.txt"), "--checkpoint", z.in("w.safetensors"), z.in("numbered.tar")); !strings.Contains(out, "12 images of 3 classes out of 3, 7 templates") {
		t.Errorf("it prints %s", out)
	}
	for want, args := range map[string][]string{
		"for classes 0 to 1":          {"--zeroshot", z.in("two.txt"), z.in("numbered.tar")},
		"want one {}":                 {"--zeroshot", z.in("classes.txt"), "--templates", z.in("bad.txt"), z.in("numbered.tar")},
		"belong to --zeroshot":        {"--templates", z.in("templates.txt"), z.in("numbered.tar")},
		"write its number into":       {"--zeroshot", z.in("classes.txt"), z.in("scenes")},
		"if any flags in the group [": {"--zeroshot", z.in("classes.txt"), "--holdout", "3", z.in("numbered.tar")},
	} {
		if _, err := command(t, append([]string{"eval", "--checkpoint", z.in("w.safetensors")}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", args, err, want)
		}
	}
}

// TestEvalWinoground scores pairstream's weights by both ways, and CLIP's by similarity. The ITC of pairstream's is that
// of its encoder.
func TestEvalWinoground(t *testing.T) {
	if apart(t) {
		return
	}
	z := newZeroShotWorld(t)
	saveCLIP(t, z.in("clip"))
	for weights, matches := range map[string]bool{z.in("w.safetensors"): true, z.in("clip"): false} {
		var report eval.WinogroundReport
		out := mustCommand(t, "eval", "--winoground", z.in("examples.jsonl"), "--checkpoint", weights, "--json", z.in("numbered.tar"))
		must.Do(t, json.Unmarshal([]byte(out), &report))
		if report.Examples != 2 || (report.ITM != nil) != matches || report.ITC.Text.To == 0 || report.Chance.Image != 25 {
			t.Errorf("%s: %s", weights, out)
		}
	}
	if _, err := command(t, "eval", "--winoground", z.in("examples.jsonl"), "--checkpoint", z.in("w.safetensors"), z.in("scenes")); err == nil ||
		!strings.Contains(err.Error(), `no image "s0" of example 1`) {
		t.Errorf("tars without the images: %v", err)
	}
}

// saveCLIP writes the CLIP of the reference vectors into a folder, as transformers saves one.
func saveCLIP(t *testing.T, dir string) {
	t.Helper()
	f := must.Get(safetensors.Open(golden.Path(t, "clip_forward.safetensors")))(t)
	var tensors []safetensors.NamedTensor
	for _, name := range f.Names() {
		if own, found := strings.CutPrefix(name, "w."); found {
			tensor, _ := f.Tensor(name)
			if strings.HasSuffix(own, "token_embedding.weight") { // 200 rows, and the merges below make 516 tokens
				tensor.Data, tensor.Shape = bytes.Repeat(tensor.Data, 3), []int64{3 * tensor.Shape[0], tensor.Shape[1]}
			}
			tensors = append(tensors, safetensors.NamedTensor{Name: own, Tensor: tensor})
		}
	}
	must.Do(t, os.MkdirAll(dir, 0o755))
	must.Do(t, safetensors.WriteFile(filepath.Join(dir, "model.safetensors"), tensors, nil))
	must.Do(t, os.WriteFile(filepath.Join(dir, "merges.txt"), []byte("#version: 0.2\nr e\nre d</w>\n"), 0o600))
}
