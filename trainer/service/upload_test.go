package service

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/trainer"
)

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func tensorsIn(t *testing.T, path string) map[string]string {
	t.Helper()
	f := must.Get(safetensors.Open(path))(t)
	found := make(map[string]string)
	for _, name := range f.Names() {
		tensor, _ := f.Tensor(name)
		found[name] = string(tensor.Data)
	}
	return found
}

// A trainer that has lost its folder goes on from the copies, and only in the log that they belong to. Going back in
// the folder stays possible.
func TestRunGoesOnFromCopies(t *testing.T) {
	open := testLogs(t)
	log, dir, copies := open("exp"), t.TempDir(), t.TempDir()
	putScored(t, log, 0, 1, 2)
	environ := map[string]string{
		"CHECKPOINT_DIR": dir, "CHECKPOINT_UPLOAD": copies, "CHECKPOINT_EVERY": "1", "CHECKPOINT_KEEP_EVERY": "4", "STEP_BATCHES": "1",
		"TRAIN_INIT": firstWeights(t), "BUCKET_ROOTS": "file://" + t.TempDir(),
	}
	must.Do(t, runTrainer(t, log, environ))
	want := []string{"checkpoint-000000000004.safetensors", "checkpoint-000000000008.safetensors", "checkpoint-000000000011.safetensors", "checkpoint-000000000012.safetensors"}
	if got := filesIn(t, dir); !slices.Equal(got, want) {
		t.Errorf("the folder has %q, want %q", got, want)
	}
	if got := filesIn(t, copies); !slices.Equal(got, want) {
		t.Errorf("the copies are %q, want %q", got, want)
	}

	early, err := os.ReadFile(filepath.Join(copies, want[0]))
	if err == nil {
		err = os.RemoveAll(copies)
	}
	if err == nil {
		err = os.Mkdir(copies, 0o755)
	}
	if err == nil { // as a slow place has it when training is over
		err = os.WriteFile(filepath.Join(copies, "checkpoint-000000000005.safetensors"), early, 0o644)
	}
	must.Do(t, err)
	must.Do(t, runTrainer(t, log, environ))
	if got := filesIn(t, copies); !slices.Equal(got, want) {
		t.Errorf("behind a slow copy the copies are %q, want %q", got, want)
	}

	lost := must.Get(os.ReadFile(filepath.Join(copies, want[3])))(t)
	if err := os.WriteFile(filepath.Join(copies, want[3]), lost[:len(lost)-1], 0o644); err != nil { // torn: the one before counts
		t.Fatal(err)
	}
	environ["CHECKPOINT_DIR"] = filepath.Join(t.TempDir(), "new")
	environ["TRAIN_INIT"] = "/nowhere"
	must.Do(t, runTrainer(t, log, environ))
	again := filepath.Join(environ["CHECKPOINT_DIR"], want[3])
	if a, b := tensorsIn(t, again), tensorsIn(t, filepath.Join(dir, want[3])); !maps.Equal(a, b) {
		t.Error("the last checkpoint has other tensors than the one that was lost")
	}

	other := open("other")
	putScored(t, other, 0, 1, 2)
	environ["CHECKPOINT_DIR"] = t.TempDir()
	if err := runTrainer(t, other, environ); !errors.Is(err, errOtherLog) || !strings.Contains(err.Error(), "CHECKPOINT_UPLOAD") {
		t.Errorf("in another namespace: %v", err)
	}
	if got := filesIn(t, environ["CHECKPOINT_DIR"]); len(got) != 0 {
		t.Errorf("the refused trainer has fetched %q", got)
	}
}

// newTestUploads opens a place for the copies of a folder. It tries again at once.
func newTestUploads(t *testing.T, dir, place string, stay int64) (*uploads, service.Runtime) {
	t.Helper()
	rt := service.NewRuntime(slog.New(slog.DiscardHandler))
	i := must.Get(rt.NewInstruments(Name, nil))(t)
	u := must.Get(newUploads(t.Context(), i, Settings{Dir: dir, Upload: place, Stay: stay}))(t)
	t.Cleanup(func() { must.Check(t, u.close()) })
	u.pause = time.Millisecond
	return u, rt
}

// A copy that is cut off or is another checkpoint's is replaced by the next trainer of the folder. One that is whole is
// left alone.
func TestUploadsReplaceWhatIsNotWhole(t *testing.T) {
	log, dir, copies := testLogs(t)("exp"), t.TempDir(), t.TempDir()
	putScored(t, log, 0, 1, 2)
	environ := map[string]string{
		"CHECKPOINT_DIR": dir, "CHECKPOINT_EVERY": "2", "CHECKPOINT_KEEP_EVERY": "2", "STEP_BATCHES": "1",
		"TRAIN_INIT": firstWeights(t), "BUCKET_ROOTS": "file://" + t.TempDir(),
	}
	must.Do(t, runTrainer(t, log, environ))
	names := filesIn(t, dir)
	content := make(map[string][]byte)
	for _, name := range names {
		raw := must.Get(os.ReadFile(filepath.Join(dir, name)))(t)
		content[name] = raw
	}
	n := len(names) - 1
	last, whole := content[names[n]], names[n-4]
	for name, there := range map[string][]byte{
		names[n]: last[:len(last)-1], names[n-1]: content[names[n-1]][:20], names[n-2]: nil, names[n-3]: last, whole: content[whole],
	} {
		must.Do(t, os.WriteFile(filepath.Join(copies, name), there, 0o644))
	}
	long := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	must.Do(t, os.Chtimes(filepath.Join(copies, whole), long, long))
	u, _ := newTestUploads(t, dir, copies, 2)
	u.start(t.Context())(true)
	for name, want := range content {
		if got, err := os.ReadFile(filepath.Join(copies, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the copy of %s has %d bytes (%v), want the %d of the folder", name, len(got), err, len(want))
		}
	}
	if info, err := os.Stat(filepath.Join(copies, whole)); err != nil || !info.ModTime().Equal(long) {
		t.Errorf("the copy of %s was whole, and was written again (%v)", whole, err)
	}
}

// sealBroken writes a checkpoint like another one, with a weight that is no number, as an earlier version did.
func sealBroken(t *testing.T, from, to string) {
	t.Helper()
	f := must.Get(safetensors.Open(from))(t)
	const digest = "pairstream.sha256"
	sum, metadata := sha256.New(), maps.Clone(f.Metadata)
	delete(metadata, digest)
	put := func(part []byte) {
		sum.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
		sum.Write(part)
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		put([]byte(key))
		put([]byte(metadata[key]))
	}
	var tensors []safetensors.NamedTensor
	for _, name := range slices.Sorted(slices.Values(f.Names())) {
		tensor, _ := f.Tensor(name)
		if len(tensors) == 0 {
			tensor.Data = slices.Clone(tensor.Data)
			binary.LittleEndian.PutUint32(tensor.Data, math.Float32bits(float32(math.NaN())))
		}
		tensors = append(tensors, safetensors.NamedTensor{Name: name, Tensor: tensor})
		put([]byte(name))
		put([]byte(tensor.DType))
		put(fmt.Append(nil, tensor.Shape))
		put(tensor.Data)
	}
	metadata[digest] = hex.EncodeToString(sum.Sum(nil))
	must.Do(t, safetensors.WriteFile(to, tensors, metadata))
	if err := trainer.CheckFile(to); !errors.Is(err, trainer.ErrNotFinite) {
		t.Fatalf("%s: %v, want one with a weight that is no number", to, err)
	}
}

// A copy with numbers that are none is passed over, as one in the folder is: the last checkpoint, and the best one.
func TestBrokenCopiesArePassedOver(t *testing.T) {
	log, copies, first := testLogs(t)("exp"), t.TempDir(), t.TempDir()
	putScored(t, log, 0, 1, 2)
	environ := map[string]string{
		"CHECKPOINT_DIR": first, "CHECKPOINT_UPLOAD": copies, "CHECKPOINT_EVERY": "4", "CHECKPOINT_KEEP_EVERY": "4", "STEP_BATCHES": "1",
		"TRAIN_INIT": firstWeights(t), "BUCKET_ROOTS": "file://" + t.TempDir(),
	}
	must.Do(t, runTrainer(t, log, environ))
	last := trainer.CheckpointName(12)
	sealBroken(t, filepath.Join(first, last), filepath.Join(copies, last))
	sealBroken(t, filepath.Join(first, last), filepath.Join(copies, bestFile))
	environ["CHECKPOINT_DIR"], environ["TRAIN_INIT"] = t.TempDir(), "/nowhere"
	must.Do(t, runTrainer(t, log, environ))
	if !maps.Equal(tensorsIn(t, filepath.Join(environ["CHECKPOINT_DIR"], last)), tensorsIn(t, filepath.Join(first, last))) {
		t.Error("from the copy before the broken one it comes to other weights")
	}
	if got := filesIn(t, environ["CHECKPOINT_DIR"]); slices.Contains(got, bestFile) {
		t.Errorf("the folder has %q, want no best one", got)
	}
}

// flaky is a folder that cannot be written to at first.
type flaky struct {
	shard.Folder
	left  atomic.Int64
	tried chan struct{}
}

func (f *flaky) Put(ctx context.Context, name string, from *os.File) error {
	if f.left.Add(-1) >= 0 {
		f.tried <- struct{}{}
		return errors.New("the network is away")
	}
	return f.Folder.Put(ctx, name, from)
}

// A place that is away for a while is tried again. Who asks meanwhile is told.
func TestUploadsAreTriedAgain(t *testing.T) {
	log, dir, copies := testLogs(t)("exp"), t.TempDir(), t.TempDir()
	putScored(t, log, 0, 1, 2)
	environ := map[string]string{"CHECKPOINT_DIR": dir, "TRAIN_INIT": firstWeights(t), "BUCKET_ROOTS": "file://" + t.TempDir()}
	must.Do(t, runTrainer(t, log, environ))
	u, rt := newTestUploads(t, dir, copies, 0)
	place := &flaky{Folder: shard.Folder(copies), tried: make(chan struct{})}
	place.left.Store(2)
	u.to = place
	end := u.start(t.Context())
	<-place.tried
	<-place.tried // the first failure is noted by now
	if said := u.says(); !strings.Contains(said, "checkpoints are not uploaded since") || !strings.Contains(said, "the network is away") {
		t.Errorf("says %q", said)
	}
	end(true)
	if said := u.says(); said != "" {
		t.Errorf("in the end it says %q", said)
	}
	if got := counterOf(t, rt, "pairstream_trainer_checkpoint_upload_failures_total"); got != 2 {
		t.Errorf("%g failures counted, want 2", got)
	}
	found, err := trainer.Checkpoints(copies)
	if err != nil || len(found) != 1 {
		t.Errorf("the copies are %v (%v)", found, err)
	}
}

// Of the copies those go that would not stay in a folder. Those of later steps belong to nobody here.
func TestCopiesThatAreSuperseded(t *testing.T) {
	copies := t.TempDir()
	names := map[string]int64{bestFile: 0, "notes.txt": 0}
	for _, name := range []string{".checkpoint-000000000003.safetensors-12.tmp", "." + bestFile + "-3.tmp"} { // uploads that a kill has cut short
		names[name] = 0
	}
	for _, step := range []int64{2, 3, 4, 5, 6, 9} {
		names[trainer.CheckpointName(step)] = 0
	}
	for name := range names {
		must.Do(t, os.WriteFile(filepath.Join(copies, name), nil, 0o644))
	}
	u := &uploads{to: shard.Folder(copies), stay: 2}
	must.Do(t, u.prune(t.Context(), names, 6))
	want := []string{bestFile}
	for _, step := range []int64{2, 4, 5, 6, 9} {
		want = append(want, trainer.CheckpointName(step))
	}
	if got := filesIn(t, copies); !slices.Equal(got, append(want, "notes.txt")) {
		t.Errorf("left are %q, want %q", got, want)
	}
}
