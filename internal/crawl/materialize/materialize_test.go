package materialize_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/materialize"
	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/fulldisk"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// pictures is a source of images by offset. Reading one that is lost fails for good, or as faults say.
type pictures struct {
	lost   map[int64]error
	faults map[int64]int // passing faults before the image is read
	mu     sync.Mutex    // several images are read at once
	reads  int
	after  func(reads int)
}

func bytesAt(offset int64) []byte { return fmt.Appendf(nil, "\xff\xd8 picture %d", offset) }

func (p *pictures) ReadRange(_ context.Context, ref schemas.ImageRef, id schemas.ImageID) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.after != nil {
		p.reads++
		p.after(p.reads)
	}
	if err := p.lost[ref.Offset]; err != nil {
		return nil, err
	}
	if p.faults[ref.Offset] > 0 {
		p.faults[ref.Offset]--
		return nil, errors.New("a fault that passes")
	}
	data := bytesAt(ref.Offset)
	if schemas.NewImageID(data) != ref.BytesID(id) {
		return nil, shard.ErrHashMismatch
	}
	return data, nil
}

// at returns the reference of a picture.
func at(offset int64) schemas.ImageRef {
	return schemas.ImageRef{URI: "file:///data/0.tar", Offset: offset, Size: int64(len(bytesAt(offset)))}
}

// scored returns a mini-batch of n pairs, whose pictures are first, first+1, ... Each sample's candidates are the next
// two: the nearest is a connection, the other a negative.
func scored(lane int32, epoch, sequence int32, first int64, n int) *schemas.ScoredBatch {
	b := &schemas.ScoredBatch{High: 0.8, Batch: schemas.Batch{Group: schemas.GroupID{Lane: lane}, Epoch: epoch, Sequence: sequence, M: 2}}
	for i := range n {
		id := schemas.NewImageID(bytesAt(first + int64(i)))
		b.Samples = append(b.Samples, schemas.Sample{ID: schemas.NewPairID(id, "text"), ImageID: id, Image: at(first + int64(i)), Text: fmt.Sprint("text ", first+int64(i))})
		next, other := int32((i+1)%n), int32((i+2)%n)
		b.I2T, b.T2I = append(b.I2T, next, other), append(b.T2I, other, -1)
		b.ProbI2T, b.ProbT2I = append(b.ProbI2T, 0.9, 0.1), append(b.ProbT2I, 0.6, 0)
	}
	return b
}

// planOf writes a plan of two lanes and two epochs with mini-batches of four: three full ones and one of two in lane 0,
// two full ones in lane 1. A sample has a positive, one is masked, and two are of one picture.
func planOf(t *testing.T) materialize.Options {
	t.Helper()
	o := materialize.Options{Plan: t.TempDir(), Out: filepath.Join(t.TempDir(), "tars"), Low: 0.5, BatchSize: 4, PerTar: 1}
	for lane, sizes := range [][]int{{4, 4, 4, 2}, {4, 4}} {
		w := plans.NewWriter(o.Plan, lane, 0.8, func(p plans.Place) string { return fmt.Sprint("key ", p.Offset) })
		for epoch := range int32(2) {
			for sequence, n := range sizes {
				b := scored(int32(lane), epoch, int32(sequence), int64(100*lane+10*sequence), n)
				if lane == 0 && sequence == 1 {
					b.Samples[2].Positive = &schemas.Positive{ImageID: schemas.NewImageID(bytesAt(77)), Image: at(77)}
					b.Samples[0].Partners, b.Samples[3].Partners = schemas.Int32s{3}, schemas.Int32s{0}
				}
				if lane == 0 && sequence == 3 {
					b.Masked = []schemas.Mask{{Sample: 1, Reason: schemas.MaskMissing}}
				}
				must.Do(t, w.Add(b))
			}
		}
		o.Files = append(o.Files, must.Get(w.Close())(t)...)
	}
	return o
}

func run(t *testing.T, o materialize.Options, p *pictures) ([]materialize.Epoch, error) {
	t.Helper()
	return materialize.Run(t.Context(), o, p, new(materialize.Progress))
}

// filesIn returns the content of each file below a folder.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must.Do(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found[path] = string(must.Get(os.ReadFile(filepath.Join(dir, path)))(t))
		}
		return err
	}))
	return found
}

// entries returns the names of a tar's entries, and what they hold.
func entries(t *testing.T, content string) (names []string, held map[string]string) {
	t.Helper()
	held = map[string]string{}
	r := tar.NewReader(strings.NewReader(content))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, held
		}
		must.Do(t, err)
		names = append(names, h.Name)
		held[h.Name] = string(must.Get(io.ReadAll(r))(t))
	}
}

// TestTarsAreInTheOrderOfTraining has lanes that take turns. Each tar holds one full mini-batch, and the short one is
// apart from them.
func TestTarsAreInTheOrderOfTraining(t *testing.T) {
	o := planOf(t)
	told := must.Get(run(t, o, &pictures{}))(t)
	want := materialize.Epoch{Folder: "epoch-001", Full: materialize.Part{Tars: 5, Batches: 5, Samples: 20}, Short: materialize.Part{Tars: 1, Batches: 1, Samples: 1}}
	if len(told) != 2 || told[1] != want {
		t.Errorf("epochs are %+v, want two, the second %+v", told, want)
	}
	files := filesIn(t, o.Out)
	for i, first := range []int{0, 100, 10, 110, 20} {
		names, held := entries(t, files[fmt.Sprintf("epoch-000/%07d.tar", i)])
		keys := []string{}
		for _, name := range names {
			if key, ok := strings.CutSuffix(name, ".txt"); ok {
				keys = append(keys, key+" "+held[name])
			}
		}
		var samples []string
		for s := range 4 {
			samples = append(samples, fmt.Sprintf("000-%07d-%04d text %d", i, s, first+s))
		}
		if !slices.Equal(keys, samples) {
			t.Errorf("tar %d holds %q, want %q", i, keys, samples)
		}
		if got := held[fmt.Sprintf("000-%07d-0001.jpg", i)]; got != string(bytesAt(int64(first+1))) {
			t.Errorf("tar %d has the picture %q", i, got)
		}
	}
	names, _ := entries(t, files["epoch-001-short/0000000.tar"])
	if want := []string{"001-0000005-0000.jpg", "001-0000005-0000.txt", "001-0000005-0000.json"}; !slices.Equal(names, want) {
		t.Errorf("the short mini-batch has %q, want %q", names, want)
	}
	if _, held := entries(t, files["epoch-000/0000002.tar"]); held["000-0000002-0002.positive.jpg"] != string(bytesAt(77)) {
		t.Errorf("the positive of a sample is missing among %q", slices.Sorted(maps.Keys(held)))
	}
}

// described is the JSON of a sample, as a foreign loop reads it.
type described struct {
	Batch, Sample, Samples int
	Key                    string
	Positive               string
	Partners, I2T, T2I     []int
	ProbI2T                []float32 `json:"prob_i2t"`
	ConnectionsI2T         []int     `json:"connections_i2t"`
	NegativeI2T            int       `json:"negative_i2t"`
	ConnectionsT2I         []int     `json:"connections_t2i"`
	NegativeT2I            int       `json:"negative_t2i"`
}

func describedIn(t *testing.T, content, key string) (d described) {
	t.Helper()
	_, held := entries(t, content)
	must.Do(t, json.Unmarshal([]byte(held[key+".json"]), &d))
	return d
}

// TestSamplesSayWhatMatchesAndWhatDoesNot loses a picture: indices are those of the samples that are left.
func TestSamplesSayWhatMatchesAndWhatDoesNot(t *testing.T) {
	o := planOf(t)
	must.Get(run(t, o, &pictures{}))(t)
	first := filesIn(t, o.Out)
	d := describedIn(t, first["epoch-000/0000002.tar"], "000-0000002-0003")
	if d.Batch != 2 || d.Sample != 3 || d.Samples != 4 || d.Key != "key 13" || !slices.Equal(d.Partners, []int{0}) || !slices.Equal(d.I2T, []int{0, 1}) ||
		!slices.Equal(d.ProbI2T, []float32{0.9, 0.1}) || !slices.Equal(d.ConnectionsI2T, []int{0}) || d.NegativeI2T != 1 ||
		!slices.Equal(d.T2I, []int{1}) || len(d.ConnectionsT2I) != 0 || d.NegativeT2I != -1 {
		t.Errorf("a sample is described by %+v", d)
	}

	o.Out += "-without"
	told := must.Get(run(t, o, &pictures{lost: map[int64]error{10: shard.ErrMissing, 77: shard.ErrTruncated}}))(t)
	if e := told[0]; e.Full.Batches != 4 || e.Short.Batches != 2 || e.Short.Samples != 4 || e.Missing != 2 || !strings.Contains(e.FirstOfMissing, shard.ErrMissing.Error()) {
		t.Errorf("with a picture that is lost: %+v", e)
	}
	files := filesIn(t, o.Out)
	d = describedIn(t, files["epoch-000-short/0000000.tar"], "000-0000002-0002")
	if d.Key != "key 13" || d.Samples != 3 || d.Sample != 2 || len(d.Partners) != 0 || !slices.Equal(d.I2T, []int{0}) || len(d.ConnectionsI2T) != 0 || d.NegativeI2T != 0 {
		t.Errorf("beside a sample that is lost, one is described by %+v", d)
	}
	if d := describedIn(t, files["epoch-000-short/0000000.tar"], "000-0000002-0001"); d.Key != "key 12" || d.Positive != "" {
		t.Errorf("a sample whose positive is lost is described by %+v", d)
	}
	if said := files["epoch-000/tars.jsonl"]; strings.Count(said, `"reason"`) != 2 || !strings.Contains(said, `"positive":true`) {
		t.Errorf("the ledger is\n%s", said)
	}
}

// TestInterruptedRunContinues ends a run behind every picture, as a kill does. No tar is there in part, no epoch before
// all of its tars are, and the run that follows gives what an undisturbed one does.
func TestInterruptedRunContinues(t *testing.T) {
	o := planOf(t)
	for _, perTar := range []int{1, 2} {
		o.PerTar, o.Out = perTar, filepath.Join(t.TempDir(), "tars")
		must.Get(run(t, o, &pictures{}))(t)
		want := filesIn(t, o.Out)
		o.Out += "-interrupted"
		for cut := 1; ; cut += 13 {
			ctx, stop := context.WithCancel(t.Context())
			p := &pictures{}
			p.after = func(reads int) {
				if reads == cut {
					stop()
				}
			}
			_, err := materialize.Run(ctx, o, p, new(materialize.Progress))
			interrupted := ctx.Err() != nil
			stop()
			if !interrupted {
				must.Do(t, err)
				break
			}
			for name, content := range filesIn(t, o.Out) {
				complete := strings.Replace(name, ".partial", "", 1)
				if strings.HasSuffix(name, ".tar") && want[complete] != content {
					t.Errorf("after %d reads %s is not what it becomes", cut, name)
				}
			}
			// What a kill leaves besides.
			for _, dir := range must.Get(filepath.Glob(filepath.Join(o.Out, "*.partial")))(t) {
				must.Do(t, os.WriteFile(filepath.Join(dir, ".0000009.tar-1.tmp"), []byte("half"), 0o600))
			}
			if f, err := os.OpenFile(filepath.Join(o.Out, "epoch-000.partial", "tars.jsonl"), os.O_APPEND|os.O_WRONLY, 0); err == nil {
				must.Get(f.WriteString(`{"tar":"00000`))(t)
				must.Do(t, f.Close())
			}
		}
		if got := filesIn(t, o.Out); !maps.Equal(got, want) {
			t.Errorf("%d to a tar: the files are %q, want %q with the same bytes", perTar, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
}

// TestTarsThatAreGone removes tars of a run that was interrupted, and of one that was complete.
func TestTarsThatAreGone(t *testing.T) {
	o := planOf(t)
	must.Get(run(t, o, &pictures{}))(t)
	want := filesIn(t, o.Out)
	must.Do(t, os.Remove(filepath.Join(o.Out, "epoch-001", "0000003.tar")))
	if _, err := run(t, o, &pictures{}); err == nil || !strings.Contains(err.Error(), "was complete and is not any more") || !strings.Contains(err.Error(), "0000003.tar") {
		t.Errorf("a complete epoch without a tar: %v", err)
	}
	must.Do(t, os.Rename(filepath.Join(o.Out, "epoch-001"), filepath.Join(o.Out, "epoch-001.partial")))
	must.Get(run(t, o, &pictures{}))(t)
	if got := filesIn(t, o.Out); !maps.Equal(got, want) {
		t.Errorf("the files are %q, want %q with the same bytes", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// TestRunRefuses has folders of others and of other plans, and pictures that cannot be read.
func TestRunRefuses(t *testing.T) {
	o := planOf(t)
	must.Get(run(t, o, &pictures{}))(t)
	before := filesIn(t, o.Out)
	foreign := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(foreign, "mine"), nil, 0o600))
	lost := map[int64]error{}
	for i := range int64(4) {
		lost[100+i] = shard.ErrMissing
	}
	for _, tt := range []struct {
		name, want string
		change     func(*materialize.Options)
		p          *pictures
	}{
		{"a folder of someone else", `holds "mine"`, func(o *materialize.Options) { o.Out = foreign }, &pictures{}},
		{"tars of other mini-batches", "the tars are of another plan", func(o *materialize.Options) { o.Files = slices.Clone(o.Files); o.Files[0].SHA256 = "other" }, &pictures{}},
		{"tars with other numbers of mini-batches", "hold another number of mini-batches each", func(o *materialize.Options) { o.PerTar = 3 }, &pictures{}},
		{"a mini-batch without pictures", "no image of mini-batch 1 of epoch 0 can be read", func(o *materialize.Options) { o.Out += "-lost" }, &pictures{lost: lost}},
		{"pictures elsewhere", "BUCKET_ROOTS", func(o *materialize.Options) { o.Out += "-forbidden" }, &pictures{lost: map[int64]error{0: shard.ErrForbidden}}},
	} {
		with := o
		tt.change(&with)
		if _, err := run(t, with, tt.p); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.name, err, tt.want)
		}
	}
	if after := filesIn(t, o.Out); !maps.Equal(after, before) {
		t.Error("a run that was refused has changed the tars")
	}
}

// TestPassingFaults has an image that is read at the third try.
func TestPassingFaults(t *testing.T) {
	o := planOf(t)
	if told := must.Get(run(t, o, &pictures{faults: map[int64]int{3: 2}}))(t); told[0].Missing != 0 || told[0].Full.Batches != 5 {
		t.Errorf("after faults that pass: %+v", told)
	}
}

// TestSecondRunWaitsForNone starts a run while another one writes.
func TestSecondRunIsRefused(t *testing.T) {
	o := planOf(t)
	var second error
	p := &pictures{after: func(reads int) {
		if reads == 1 {
			_, second = run(t, o, &pictures{})
		}
	}}
	must.Get(run(t, o, p))(t)
	if second == nil || !strings.Contains(second.Error(), "another run writes into it") {
		t.Errorf("the second run: %v", second)
	}
}

// TestFullDisk leaves no tar in part, says how much is there, and continues when there is room.
func TestFullDisk(t *testing.T) {
	if !fulldisk.Alone(t) {
		return
	}
	o := planOf(t)
	must.Get(run(t, o, &pictures{}))(t)
	want := filesIn(t, o.Out)
	o.Out += "-full"
	largest := 0
	for name, content := range want {
		if strings.HasSuffix(name, ".tar") {
			largest = max(largest, len(content))
		}
	}
	var err error
	fulldisk.With(t, uint64(largest-1), func() { _, err = run(t, o, &pictures{}) })
	if err == nil || !strings.Contains(err.Error(), "2 of 12 mini-batches are in "+o.Out) || !strings.Contains(err.Error(), "MB are to come: make room") {
		t.Errorf("on a full disk: %v", err)
	}
	for name := range filesIn(t, o.Out) {
		if strings.HasSuffix(name, ".tmp") {
			t.Errorf("%s is left", name)
		}
	}
	must.Get(run(t, o, &pictures{}))(t)
	if got := filesIn(t, o.Out); !maps.EqualFunc(got, want, func(a, b string) bool { return bytes.Equal([]byte(a), []byte(b)) }) {
		t.Error("with room the tars are others")
	}
}
