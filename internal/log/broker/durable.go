package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// durable keeps the answers of the embedded broker back until what they tell of is on the disk. kfake writes its files on
// one goroutine, and could sync them there. Every request would then wait for every sync. Here only answers wait, each for
// the partitions that it names: a producer's ack, and the records, ends and offsets that others read. So nobody learns of a
// record that a loss of power can take back.
//
// The files themselves say what to sync: those that have another size, or are others, than at their last sync. kfake
// writes a file before it makes the answer, so the size has grown when the answer comes.
type durable struct {
	dir  string // kfake's
	sync func(*os.File) error

	mu      sync.Mutex
	folders map[string]*durableFolder
	failed  error // a sync has failed: nothing is answered any more
}

// durableFolder is a folder whose files are synced together: a partition, or the folder of the broker's state.
type durableFolder struct {
	path string

	mu    sync.Mutex             // a sync goes on: others wait, and then find nothing to do
	files map[string]os.FileInfo // as they were synced
}

// stateFolder is the name of kfake's own folder, whose files hold groups and producers.
const stateFolder = "."

func newDurable(dir string, sync func(*os.File) error) *durable {
	if sync == nil {
		sync = (*os.File).Sync
	}
	return &durable{dir: dir, sync: sync, folders: make(map[string]*durableFolder)}
}

// await waits until what an answer tells of is on the disk.
func (d *durable) await(key kmsg.Key, version int16, answer []byte) error {
	if slices.Contains(silent, key) {
		return nil
	}
	if slices.Contains(ofGroups, key) {
		return d.settle([]string{stateFolder})
	}
	if slices.Contains(ofRecords, key) {
		if names := partitionsIn(key, version, answer); names != nil {
			return d.settle(names)
		}
	}
	return d.settleAll()
}

var (
	silent    = []kmsg.Key{kmsg.ApiVersions, kmsg.Metadata, kmsg.FindCoordinator, kmsg.Heartbeat, kmsg.SASLHandshake, kmsg.SASLAuthenticate}
	ofGroups  = []kmsg.Key{kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.LeaveGroup}
	ofRecords = []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets}
)

// settleAll syncs everything.
func (d *durable) settleAll() error {
	names := []string{stateFolder}
	entries, err := os.ReadDir(filepath.Join(d.dir, partitionsFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.fail(err)
	}
	for _, e := range entries {
		names = append(names, filepath.Join(partitionsFolder, e.Name()))
	}
	return d.settle(names)
}

// settle syncs the files of folders that have changed since their last sync.
func (d *durable) settle(names []string) error {
	folders := make([]*durableFolder, len(names))
	d.mu.Lock()
	failed := d.failed
	for i, name := range names {
		if d.folders[name] == nil {
			d.folders[name] = &durableFolder{path: filepath.Join(d.dir, name), files: make(map[string]os.FileInfo)}
		}
		folders[i] = d.folders[name]
	}
	d.mu.Unlock()
	if failed != nil {
		return failed
	}
	if len(folders) == 1 {
		return d.fail(folders[0].settle(d.sync))
	}
	var g errgroup.Group
	g.SetLimit(16)
	for _, f := range folders {
		g.Go(func() error { return f.settle(d.sync) })
	}
	return d.fail(g.Wait())
}

// fail notes the first error. A sync that comes after one that has failed proves nothing.
func (d *durable) fail(err error) error {
	if err == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		d.failed = fmt.Errorf("syncing the embedded broker's log: it answers no more until it is started again: %w", err)
	}
	return d.failed
}

func (f *durableFolder) settle(sync func(*os.File) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries, err := os.ReadDir(f.path)
	if errors.Is(err, fs.ErrNotExist) { // nothing was written there, or the topic was deleted
		clear(f.files)
		return nil
	} else if err != nil {
		return err
	}
	var g errgroup.Group // together, so that the file system writes its journal once
	appeared, found := false, make(map[string]os.FileInfo, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
			continue
		case err != nil:
			return err
		case !info.Mode().IsRegular() || !isLog(e.Name()):
			continue
		}
		found[e.Name()] = info
		if was := f.files[e.Name()]; was == nil || was.Size() != info.Size() || !os.SameFile(was, info) {
			appeared = appeared || was == nil || !os.SameFile(was, info)
			g.Go(func() error { return syncFile(filepath.Join(f.path, e.Name()), sync) })
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if appeared { // their names must be on the disk as well
		if err := syncFile(f.path, sync); err != nil {
			return err
		}
	}
	f.files = found
	return nil
}

// isLog reports whether kfake appends to a file, and does not sync it itself.
func isLog(name string) bool {
	switch filepath.Ext(name) {
	case ".dat", ".idx", ".log":
		return true
	}
	return false
}

func syncFile(path string, sync func(*os.File) error) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile: retention, or a topic that was deleted
		return nil
	} else if err != nil {
		return err
	}
	return errors.Join(sync(file), file.Close())
}

const partitionsFolder = "partitions"

// partitionsIn returns the folders of the partitions that an answer names. It returns nil when the answer names topics by
// their ids alone, or cannot be read.
func partitionsIn(key kmsg.Key, version int16, answer []byte) []string {
	resp := key.Response()
	resp.SetVersion(version)
	body := answer[min(answerHead, len(answer)):]
	if resp.IsFlexible() {
		body = body[min(1, len(body)):]
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil
	}
	names, named := []string{}, true
	add := func(topic string, partition int32) {
		named = named && topic != ""
		names = append(names, filepath.Join(partitionsFolder, fmt.Sprintf("%s-%d", url.PathEscape(topic), partition)))
	}
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, p.Partition)
			}
		}
	case *kmsg.FetchResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, p.Partition)
			}
		}
	case *kmsg.ListOffsetsResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, p.Partition)
			}
		}
	}
	if !named {
		return nil
	}
	return names
}

// answerHead is the length of an answer's size and of the number of its request.
const answerHead = 8

// maxPending is the most requests of a connection whose answers are awaited. A producer that wants no acks gets no answers.
// An answer to a request that was dropped waits for everything.
const maxPending = 16

// pendingRequest is a request that has no answer yet.
type pendingRequest struct {
	key     kmsg.Key
	version int16
	number  uint32
}

// answeredBy finds the request of an answer among those of a connection. rest are the requests after it: those before it
// have no answer.
func answeredBy(pending []pendingRequest, answer []byte) (request pendingRequest, rest []pendingRequest) {
	if len(answer) < answerHead {
		return pendingRequest{key: -1}, pending
	}
	number := binary.BigEndian.Uint32(answer[4:])
	for i, r := range pending {
		if r.number == number {
			return r, pending[i+1:]
		}
	}
	return pendingRequest{key: -1}, pending
}
