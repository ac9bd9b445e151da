package trainer

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/testing/fulldisk"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func writeTestCheckpoint(t *testing.T, folder string, step int64) string {
	t.Helper()
	path := filepath.Join(folder, fmt.Sprintf(checkpointFormat, step))
	tensors := []safetensors.NamedTensor{
		{Name: "w", Tensor: safetensors.FromFloat32s([]float32{1, 2, float32(step)}, 3)},
		{Name: "a", Tensor: safetensors.FromInt64s([]int64{step}, 1)},
	}
	must.Do(t, writeSealed(path, tensors, map[string]string{metadataStep: strconv.FormatInt(step, 10)}))
	return path
}

func TestSealedFileIsCompleteOrRefused(t *testing.T) {
	folder := t.TempDir()
	path := writeTestCheckpoint(t, folder, 7)
	if _, err := openSealed(path); err != nil {
		t.Fatalf("a good file: %v", err)
	}
	whole := must.Get(os.ReadFile(path))(t)
	refused := func(what string, content []byte) {
		t.Helper()
		damaged := filepath.Join(folder, "damaged")
		must.Do(t, os.WriteFile(damaged, content, 0o600))
		if _, err := openSealed(damaged); !errors.Is(err, ErrTorn) {
			t.Errorf("%s: error %v, want %v", what, err, ErrTorn)
		}
	}
	for n := range whole {
		refused(fmt.Sprintf("cut to %d bytes", n), whole[:n])
	}
	body := len(whole) - 20 // 3 float32 and 1 int64
	for i := body; i < len(whole); i++ {
		flipped := append([]byte(nil), whole...)
		flipped[i] ^= 1
		refused(fmt.Sprintf("bit flipped in byte %d", i), flipped)
	}
	refused("another step", []byte(strings.Replace(string(whole), `"pairstream.step":"7"`, `"pairstream.step":"8"`, 1)))
}

func TestSealedFileIsNotAnyWeightsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights.safetensors")
	f := must.Get(os.Create(path))(t)
	must.Do(t, errors.Join(safetensors.Write(f, nil, nil), f.Close()))
	if _, err := openSealed(path); err == nil || !strings.Contains(err.Error(), "not a checkpoint") {
		t.Errorf("error %v, want one that says it is not a checkpoint", err)
	}
}

func TestLatestCheckpoint(t *testing.T) {
	folder := t.TempDir()
	if path, bad, err := LatestCheckpoint(filepath.Join(folder, "absent")); path != "" || bad != nil || err != nil {
		t.Fatalf("no folder: %q, %v, %v", path, bad, err)
	}
	if path, bad, err := LatestCheckpoint(folder); path != "" || bad != nil || err != nil {
		t.Fatalf("empty folder: %q, %v, %v", path, bad, err)
	}
	good := writeTestCheckpoint(t, folder, 999)
	torn := writeTestCheckpoint(t, folder, 1000)
	must.Do(t, os.Truncate(torn, 100))
	path, bad, err := LatestCheckpoint(folder)
	if path != good || err != nil || len(bad) != 1 || !strings.Contains(bad[0].Error(), torn) {
		t.Errorf("%q, %v, %v; want %q, and %q reported", path, bad, err, good, torn)
	}
}

// A state with values that are no numbers is not sealed, whatever tensor they are in. One that an earlier version has
// sealed is passed over.
func TestABrokenStateIsNoCheckpoint(t *testing.T) {
	folder := t.TempDir()
	good := writeTestCheckpoint(t, folder, 998)
	nan := math.Float32frombits(0x7fc00000)
	tensors := []safetensors.NamedTensor{
		{Name: "a", Tensor: safetensors.FromFloat32s([]float32{1, 2}, 2)}, {Name: "optim.mean.a", Tensor: safetensors.FromFloat32s([]float32{1, nan}, 2)},
	}
	path := filepath.Join(folder, CheckpointName(999))
	err := writeSealed(path, tensors, nil)
	if !errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), "optim.mean.a is broken, value 1") || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was written: %v", err)
	}
	must.Do(t, safetensors.WriteFile(path, tensors, map[string]string{metadataDigest: digest(tensors, nil)}))
	latest, bad, err := LatestCheckpoint(folder)
	if latest != good || err != nil || len(bad) != 1 || !errors.Is(bad[0], ErrNotFinite) {
		t.Errorf("%q, %v, %v; want %q, and %q reported", latest, bad, err, good, path)
	}
}

func TestPruneKeepsTheLastTwo(t *testing.T) {
	for stay, want := range map[int64]string{
		0:  "checkpoint-000000000020.safetensors checkpoint-000000000100.safetensors notes.txt",
		5:  "checkpoint-000000000005.safetensors checkpoint-000000000020.safetensors checkpoint-000000000100.safetensors notes.txt",
		10: "checkpoint-000000000020.safetensors checkpoint-000000000100.safetensors notes.txt",
	} {
		if got := pruned(t, stay); got != want {
			t.Errorf("where those of steps stay that %d divides: %s, want %s", stay, got, want)
		}
	}
}

// pruned makes checkpoints, prunes them and returns what is left.
func pruned(t *testing.T, stay int64) string {
	t.Helper()
	folder := t.TempDir()
	for _, step := range []int64{5, 100, 20} {
		writeTestCheckpoint(t, folder, step)
	}
	for _, name := range []string{".checkpoint-123.tmp", "notes.txt"} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	must.Do(t, prune(folder, stay))
	entries := must.Get(os.ReadDir(folder))(t)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	return strings.Join(left, " ")
}

func TestFailedWriteLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "checkpoint-1.safetensors")
	wrong := []safetensors.NamedTensor{{Name: "w", Tensor: safetensors.Tensor{DType: "F32", Shape: []int64{2}, Data: []byte{1}}}}
	if err := writeSealed(path, wrong, map[string]string{}); err == nil {
		t.Fatal("a tensor with too few bytes was written")
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// TestTornCheckpointIsPassedOver tears the newest checkpoint at every 4 KiB boundary, in the ways in which disks do.
// The one before is found, and the damage is reported.
func TestTornCheckpointIsPassedOver(t *testing.T) {
	const page = 4096
	folder := t.TempDir()
	good, newest := writeTestCheckpoint(t, folder, 1), filepath.Join(folder, fmt.Sprintf(checkpointFormat, 2))
	weights := make([]float32, 20_000)
	for i := range weights {
		weights[i] = float32(i + 1)
	}
	tensors := []safetensors.NamedTensor{{Name: "w", Tensor: safetensors.FromFloat32s(weights, int64(len(weights)))}}
	must.Do(t, writeSealed(newest, tensors, map[string]string{metadataStep: "2"}))
	whole := must.Get(os.ReadFile(newest))(t)
	for name, tear := range map[string]func(at int) []byte{
		"ends there":             func(at int) []byte { return whole[:at] },
		"is empty from there on": func(at int) []byte { return append(bytes.Clone(whole[:at]), make([]byte, len(whole)-at)...) },
		"is empty up to there":   func(at int) []byte { return append(make([]byte, at), whole[at:]...) },
		"has an empty page there": func(at int) []byte {
			return slices.Replace(bytes.Clone(whole), at, min(at+page, len(whole)), make([]byte, min(page, len(whole)-at))...)
		},
	} {
		for at := 0; at < len(whole); at += page {
			torn := tear(at)
			if bytes.Equal(torn, whole) { // nothing comes before the first boundary
				continue
			}
			must.Do(t, os.WriteFile(newest, torn, 0o600))
			path, bad, err := LatestCheckpoint(folder)
			if path != good || err != nil || len(bad) != 1 || !strings.Contains(bad[0].Error(), newest) {
				t.Errorf("a file that %s at %d: %q, %v, %v; want %q, and %q reported", name, at, path, bad, err, good, newest)
			}
		}
	}
}

// TestCheckpointOnAFullDisk lets the disk be full at every 4 KiB of a checkpoint. The error names the file, nothing is
// left behind, and the checkpoint before is the latest. Once there is room, the same bytes are written.
func TestCheckpointOnAFullDisk(t *testing.T) {
	if !fulldisk.Alone(t) {
		return
	}
	folder := t.TempDir()
	good := writeTestCheckpoint(t, folder, 1)
	path := filepath.Join(folder, fmt.Sprintf(checkpointFormat, 2))
	tensors := []safetensors.NamedTensor{{Name: "w", Tensor: safetensors.FromFloat32s(make([]float32, 5000), 5000)}}
	write := func() error { return writeSealed(path, tensors, map[string]string{metadataStep: "2"}) }
	for room := uint64(0); room < 20_000; room += 4096 {
		var err error
		fulldisk.With(t, room, func() { err = write() })
		if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), path) {
			t.Errorf("room for %d bytes: error %v", room, err)
		}
		entries, err := os.ReadDir(folder)
		if latest, bad, lerr := LatestCheckpoint(folder); len(entries) != 1 || err != nil || latest != good || bad != nil || lerr != nil {
			t.Errorf("room for %d bytes: %d files, latest %q, %v, %v", room, len(entries), latest, bad, lerr)
		}
	}
	must.Do(t, write())
	if latest, _, err := LatestCheckpoint(folder); latest != path || err != nil {
		t.Errorf("latest %q, %v", latest, err)
	}
}
