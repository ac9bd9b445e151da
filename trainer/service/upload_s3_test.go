//go:build cgo && s3

package service

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/s3test"
)

const lastCheckpoint = "checkpoint-000000000012.safetensors"

// copiesAt is what a trainer runs with. Its checkpoints are of 7.7 MB, which are two parts of an upload.
func copiesAt(t *testing.T, place string) map[string]string {
	t.Helper()
	return map[string]string{
		"CHECKPOINT_DIR": t.TempDir(), "CHECKPOINT_UPLOAD": place, "CHECKPOINT_EVERY": "2", "CHECKPOINT_KEEP_EVERY": "4",
		"STEP_BATCHES": "1", "TRAIN_INIT": weightsOfSize(t, 40_000), "BUCKET_ROOTS": "file://" + t.TempDir(),
	}
}

func trainedLog(t *testing.T, log *stream.Log, environ map[string]string) {
	t.Helper()
	putScored(t, log, 0, 1, 2)
	must.Do(t, runTrainer(t, log, environ))
}

// objectsIn returns what lies below a prefix of a bucket.
func objectsIn(t *testing.T, b *blob.Bucket, prefix string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	list := b.List(&blob.ListOptions{Prefix: prefix})
	for {
		o, err := list.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return found
		}
		must.Do(t, err)
		raw := must.Get(b.ReadAll(t.Context(), o.Key))(t)
		found[strings.TrimPrefix(o.Key, prefix)] = string(raw)
	}
}

// contentOf returns the files of a folder.
func contentOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, name := range filesIn(t, dir) {
		raw := must.Get(os.ReadFile(filepath.Join(dir, name)))(t)
		found[name] = string(raw)
	}
	return found
}

// checkSame wants two sets of files to have the same names and bytes.
func checkSame(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: %q differ from %q, in names or bytes", what, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// TestS3GivesALostFolderBack trains with copies in a bucket, and loses the folder. The next trainer has the last
// checkpoint and the best one again, byte by byte. Where the last copy is cut off, it goes on from the one before, to
// the same weights.
func TestS3GivesALostFolderBack(t *testing.T) {
	server := s3test.Start(t)
	bucket := server.Bucket(t, "copies")
	log, place := testLogs(t)("exp"), server.URL("copies/run/")
	environ := copiesAt(t, place)
	trainedLog(t, log, environ)
	dir := environ["CHECKPOINT_DIR"]
	lost := contentOf(t, dir)
	if len(lost) != 4 || len(lost[lastCheckpoint]) < 6<<20 {
		t.Fatalf("the folder has %d checkpoints, the last of %d bytes", len(lost), len(lost[lastCheckpoint]))
	}
	checkSame(t, "the copies", objectsIn(t, bucket, "run/"), lost)
	must.Do(t, atomicfile.Copy(filepath.Join(dir, "checkpoint-000000000004.safetensors"), filepath.Join(dir, bestFile), 0o644))
	must.Do(t, runTrainer(t, log, environ))
	lost = contentOf(t, dir)
	checkSame(t, "the copies with the best one", objectsIn(t, bucket, "run/"), lost)

	environ["CHECKPOINT_DIR"], environ["TRAIN_INIT"] = filepath.Join(t.TempDir(), "new"), "/nowhere"
	must.Do(t, runTrainer(t, log, environ))
	checkSame(t, "the new folder", contentOf(t, environ["CHECKPOINT_DIR"]), map[string]string{bestFile: lost[bestFile], lastCheckpoint: lost[lastCheckpoint]})
	checkSame(t, "the copies after that", objectsIn(t, bucket, "run/"), lost)

	cut := lost[lastCheckpoint]
	must.Do(t, bucket.WriteAll(t.Context(), "run/"+lastCheckpoint, []byte(cut[:len(cut)-1]), nil))
	environ["CHECKPOINT_DIR"] = t.TempDir()
	must.Do(t, runTrainer(t, log, environ))
	again := filepath.Join(environ["CHECKPOINT_DIR"], lastCheckpoint)
	if !maps.Equal(tensorsIn(t, again), tensorsIn(t, filepath.Join(dir, lastCheckpoint))) {
		t.Error("from the copy before the last one it comes to other weights")
	}
	checkSame(t, "the last copy", objectsIn(t, bucket, "run/"+lastCheckpoint), map[string]string{"": contentOf(t, environ["CHECKPOINT_DIR"])[lastCheckpoint]})
}

// TestS3BrokenCopiesArePassedOver has a last checkpoint with a weight that is no number, and what uploads have left
// that were cut short.
func TestS3BrokenCopiesArePassedOver(t *testing.T) {
	server := s3test.Start(t)
	bucket := server.Bucket(t, "copies")
	log := testLogs(t)("exp")
	environ := copiesAt(t, server.URL("copies/run/"))
	trainedLog(t, log, environ)
	first, broken := environ["CHECKPOINT_DIR"], filepath.Join(t.TempDir(), lastCheckpoint)
	sealBroken(t, filepath.Join(first, lastCheckpoint), broken)
	raw := must.Get(os.ReadFile(broken))(t)
	for name, content := range map[string][]byte{lastCheckpoint: raw, bestFile: raw, ".checkpoint-000000000010.safetensors-12.tmp": raw[:100], "notes.txt": []byte("mine")} {
		must.Do(t, bucket.WriteAll(t.Context(), "run/"+name, content, nil))
	}
	environ["CHECKPOINT_DIR"], environ["TRAIN_INIT"] = t.TempDir(), "/nowhere"
	must.Do(t, runTrainer(t, log, environ))
	again := contentOf(t, environ["CHECKPOINT_DIR"])
	if !maps.Equal(tensorsIn(t, filepath.Join(environ["CHECKPOINT_DIR"], lastCheckpoint)), tensorsIn(t, filepath.Join(first, lastCheckpoint))) {
		t.Error("from the copy before the broken one it comes to other weights")
	}
	left := objectsIn(t, bucket, "run/")
	delete(left, bestFile)
	want := contentOf(t, first)
	want[lastCheckpoint], want["notes.txt"] = again[lastCheckpoint], "mine"
	checkSame(t, "the copies", left, want)
}

// TestS3RefusesWhatIsNoCopy starts a trainer without checkpoints beside places that give it none. It says which place
// it is and why, leaves nothing in its folder, and changes nothing in the place.
func TestS3RefusesWhatIsNoCopy(t *testing.T) {
	server := s3test.Start(t)
	bucket := server.Bucket(t, "copies")
	open := testLogs(t)
	log, other := open("exp"), open("other")
	environ := copiesAt(t, "")
	trainedLog(t, log, environ)
	putScored(t, other, 0, 1, 2)
	whole := []byte(contentOf(t, environ["CHECKPOINT_DIR"])[lastCheckpoint])
	weights := must.Get(os.ReadFile(environ["TRAIN_INIT"]))(t)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	tests := []struct {
		name, place string
		object      []byte
		log         *stream.Log
		prepare     func()
		want        string
	}{
		{"cut off", "cut/", whole[:len(whole)-1], log, nil, "none of its checkpoints is whole; restore one to CHECKPOINT_DIR"},
		{"cut off in its head", "head/", whole[:100], log, nil, "none of its checkpoints is whole"},
		{"another kind of file", "tar/", bytes.Repeat([]byte("tar"), 1000), log, nil, "none of its checkpoints is whole"},
		{"empty", "empty/", nil, log, nil, "none of its checkpoints is whole"},
		{"weights", "weights/", weights, log, nil, "a file of weights, not a checkpoint"},
		{"another log", "whole/", whole, other, nil, errOtherLog.Error()},
		{"another key", "key/", whole, log, func() { t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong") }, "SignatureDoesNotMatch"},
		{"no server", "away/", whole, log, func() { server.Stop(t) }, "connection refused"},
	}
	for _, c := range tests {
		must.Do(t, bucket.WriteAll(t.Context(), c.place+lastCheckpoint, c.object, nil))
		before := objectsIn(t, bucket, c.place)
		if c.prepare != nil {
			c.prepare()
		}
		dir := t.TempDir()
		environ["CHECKPOINT_DIR"], environ["CHECKPOINT_UPLOAD"] = dir, server.URL("copies/"+c.place)
		err := runTrainer(t, c.log, environ)
		if err == nil || !strings.Contains(err.Error(), `CHECKPOINT_UPLOAD is "s3://copies/`+c.place) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if left := filesIn(t, dir); len(left) > 0 {
			t.Errorf("%s: the folder has %q", c.name, left)
		}
		if c.prepare == nil {
			checkSame(t, c.name, objectsIn(t, bucket, c.place), before)
		}
	}
}

// TestS3ServerIsAwayForAWhile kills the server while copies are due, and in the middle of copies. The uploads say so,
// count, and try again. A copy that has its name is whole at any moment.
func TestS3ServerIsAwayForAWhile(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	server := s3test.Start(t)
	bucket := server.Bucket(t, "copies")
	environ := copiesAt(t, "")
	trainedLog(t, testLogs(t)("exp"), environ)
	dir := environ["CHECKPOINT_DIR"]
	want := contentOf(t, dir)

	caught := 0
	for round := range 4 {
		place := fmt.Sprintf("run-%d/", round)
		there := filepath.Join(server.Dir(t, "copies"), place)
		must.Do(t, os.Mkdir(there, 0o755))
		u, rt := newTestUploads(t, dir, server.URL("copies/"+place), 4)
		if round == 0 {
			server.Stop(t)
		}
		before := bytesBelow(t, server.Dir(t, "copies"))
		end := u.start(t.Context())
		for round > 0 && bytesBelow(t, server.Dir(t, "copies")) == before {
			runtime.Gosched()
		}
		server.Stop(t)
		left := contentOf(t, there)
		for name, raw := range left {
			if raw != want[name] {
				t.Errorf("%s%s has %d bytes, want %d", place, name, len(raw), len(want[name]))
			}
		}
		if len(left) < len(want) {
			caught++
			awaitTrouble(t, u)
		}
		server.Run(t)
		end(true)
		if n := counterOf(t, rt, "pairstream_trainer_checkpoint_upload_failures_total"); n < 1 && len(left) < len(want) {
			t.Errorf("%s %g failures are counted", place, n)
		}
		if said := u.says(); said != "" {
			t.Errorf("%s in the end it says %q", place, said)
		}
		checkSame(t, place, objectsIn(t, bucket, place), want)
	}
	if caught < 2 {
		t.Errorf("%d kills came before all was copied, want the first and others", caught)
	}
}

// awaitTrouble waits until uploads say that they fail. They name the server.
func awaitTrouble(t *testing.T, u *uploads) {
	t.Helper()
	said := ""
	for said == "" {
		time.Sleep(time.Millisecond)
		said = u.says()
	}
	if !strings.Contains(said, "checkpoints are not uploaded since") || !strings.Contains(said, "127.0.0.1") {
		t.Errorf("it says %q", said)
	}
}

// bytesBelow adds up the files of a folder, with those that a server has not finished.
func bytesBelow(t *testing.T, dir string) (sum int64) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				sum += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the server has renamed it meanwhile
		}
		return err
	}))
	return sum
}
