//go:build cgo

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/operate/batches"
	"github.com/pairstream/pairstream/internal/operate/negatives"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// imageLists writes the pictures of tars as files, a list of ALBEF's form and one of Karpathy's of them.
func imageLists(t *testing.T, tars, dir string) (albef, karpathy string) {
	t.Helper()
	type sentence map[string]string
	var of []map[string]any
	var images []map[string]any
	must.Do(t, os.Mkdir(filepath.Join(dir, "train2014"), 0o755))
	must.Get(shard.Scan(t.Context(), []string{tars}, shard.Visitor{
		Example: func(ex shard.Example) error {
			name := fmt.Sprintf("COCO_train2014_%012d.png", len(of))
			captions, split := any(ex.Captions), "train"
			if len(of)%2 == 0 {
				captions, split = ex.Captions[0], "restval"
			}
			if len(of) < 3 {
				split = "test"
			}
			var sentences []sentence
			for _, c := range ex.Captions {
				sentences = append(sentences, sentence{"raw": c})
			}
			of = append(of, map[string]any{"image": "/export/share/datasets/vision/coco/images/train2014/" + name, "caption": captions})
			images = append(images, map[string]any{"filepath": "train2014", "filename": name, "split": split, "sentences": sentences})
			return os.WriteFile(filepath.Join(dir, "train2014", name), ex.Encoded, 0o600)
		},
		Problem: func(p shard.Problem) error { t.Errorf("%s", p); return nil },
	}))(t)
	write := func(name string, v any) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, must.Get(json.Marshal(v))(t), 0o600))
		return path
	}
	return write("coco.json", of), write("dataset_coco.json", map[string]any{"dataset": "coco", "images": images})
}

// The papers' lists go from produce to a fine-tuned and evaluated model. Images stay where they lie.
func TestPapersListsToAModel(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in := setUpPipeline(t, 10)
	albef, karpathy := imageLists(t, in("scenes"), in("."))
	t.Setenv("NAMESPACE", "lists")
	t.Setenv("CHECKPOINT_DIR", in("checkpoints"))

	const captions = 5*1 + 5*3 // entries with one caption, and with a list of three
	if out := mustCommand(t, "produce", albef+"?images="+in("."), "--final"); !strings.Contains(out, fmt.Sprintf("published %d pairs of 10 images", captions)) {
		t.Errorf("produce prints %s", out)
	}
	mustCommand(t, "up")
	log := openNamespace(t)
	embedded := 0
	for lane := range log.Config().Lanes {
		embedded += len(inLane(t, log, schemas.Embeddings, lane))
	}
	if embedded != captions {
		t.Errorf("%d embeddings, want %d", embedded, captions)
	}
	report := mustCommand(t, "eval", "negatives", "--judge", in("w.safetensors"), "--above", "0", "--json")
	var counted negatives.Report
	must.Do(t, json.Unmarshal([]byte(report), &counted))
	if c := counted.OfImage; c.Negatives == 0 || c.False != c.Negatives || counted.OfText.Negatives == 0 || counted.Batches == 0 {
		t.Errorf("above 0 every negative is false: %s", report)
	}
	if out := mustCommand(t, "eval", "negatives", "--judge", in("w.safetensors"), "--above", "0.999", "--epoch", "1"); !strings.Contains(out, "false negatives of texts: 0 of") {
		t.Errorf("above 0.999 a judge that has learned nothing finds no match: %s", out)
	}
	t.Setenv("ITM_NEGATIVES", "random")
	if _, err := command(t, "eval", "negatives", "--judge", in("w.safetensors")); err == nil || !strings.Contains(err.Error(), `ITM_NEGATIVES is "random"`) {
		t.Errorf("drawn negatives: %v", err)
	}
	t.Setenv("ITM_NEGATIVES", "")
	if _, err := command(t, "eval", "negatives", "--judge", in("w.safetensors"), "--epoch", "7"); err == nil || !strings.Contains(err.Error(), "no mini-batch of epoch 7") {
		t.Errorf("an epoch that was not: %v", err)
	}
	files := must.Get(filepath.Glob(in("checkpoints/checkpoint-*.safetensors")))(t)
	final := files[len(files)-1]
	for _, variable := range []string{"UNI_WEIGHT", "LR_TOTAL_STEPS"} { // fine-tuning refuses them
		t.Setenv(variable, "")
	}
	train, test := karpathy+"?split=train,restval", karpathy+"?split=test"
	out := mustCommand(t, "finetune", train, "--checkpoint", final, "--epochs", "1", "--batch", "4", "--step-batches", "1", "--queue", "8", "--out", in("f.safetensors"))
	if !strings.Contains(out, "wrote") {
		t.Errorf("finetune prints %s", out)
	}
	if out := mustCommand(t, "eval", test, "--checkpoint", in("f.safetensors")); !strings.Contains(out, "3 images, 9 texts") || !strings.Contains(out, "RSUM") {
		t.Errorf("eval prints %s", out)
	}
	t.Setenv("COND_MIN_PRECISION", "0.4") // more than so few pairs can tell
	out = mustCommand(t, "batches", albef+"?images="+in(".")+"&captions=one&sample=8&seed=1", "--weights", in("w.safetensors"), "--out", in("plan"))
	for _, want := range []string{"plan:", "with 16 samples", "Con-D: ", "of lane 0", "connections are off"} {
		if !strings.Contains(out, want) {
			t.Errorf("batches prints %s, want %q in it", out, want)
		}
	}
	// The guard says no: the plan has Con-D's probabilities nevertheless, and none makes a connection.
	var plan batches.Manifest
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(in("plan/plan.json")))(t), &plan))
	for _, f := range plan.Files {
		if f.Scores == 0 || f.High != 0 {
			t.Errorf("%s has %d scores and %d connections, want some and none", f.Name, f.Scores, f.High)
		}
	}
	if len(plan.Files) == 0 {
		t.Error("the plan has no files")
	}
}
