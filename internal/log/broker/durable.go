package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// The broker holds its answers back until the data that they report is on the disk. kfake writes its files on one
// goroutine, and could sync them there, but then every request would wait for every sync. Here only answers wait, each
// for the partitions that it names: a producer's ack, and the records, ends and offsets that others read. So no client
// learns of a record that a loss of power can remove. kfake writes a file before it makes the answer, so storage knows
// of the write when the answer comes.

// folder is a folder whose files are synced together: a partition, or the broker's state.
type folder struct {
	path string

	// Guarded by the lock of storage.
	files map[string]bool // written since their last sync
	names bool            // files in it were created

	mu sync.Mutex // held during a sync: others wait, and then find nothing to do
}

// stateFolder is the name of kfake's own folder, whose files hold groups and producers.
const stateFolder = "."

// await waits until the data that an answer reports is on the disk.
func (s *storage) await(request pendingRequest, answer []byte) error {
	key := request.key
	if slices.Contains(silent, key) {
		return nil
	}
	if slices.Contains(ofGroups, key) {
		return s.settle([]string{stateFolder})
	}
	if slices.Contains(ofRecords, key) {
		if names := partitionsIn(request, answer); names != nil {
			return s.settle(names)
		}
	}
	return s.settleAll()
}

var (
	silent    = []kmsg.Key{kmsg.ApiVersions, kmsg.Metadata, kmsg.FindCoordinator, kmsg.Heartbeat, kmsg.SASLHandshake, kmsg.SASLAuthenticate}
	ofGroups  = []kmsg.Key{kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.LeaveGroup}
	ofRecords = []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets}
)

// settleAll syncs everything.
func (s *storage) settleAll() error {
	s.mu.Lock()
	folders := make([]*folder, 0, len(s.folders))
	for _, f := range s.folders {
		folders = append(folders, f)
	}
	s.mu.Unlock()
	return s.settleThese(folders)
}

// settle syncs the changes in folders.
func (s *storage) settle(names []string) error {
	folders := make([]*folder, 0, len(names))
	s.mu.Lock()
	for _, name := range names {
		if f := s.folders[filepath.Join(s.root, name)]; f != nil {
			folders = append(folders, f)
		}
	}
	s.mu.Unlock()
	return s.settleThese(folders)
}

func (s *storage) settleThese(folders []*folder) error {
	if err := s.failure(); err != nil {
		return err
	}
	var err error
	if len(folders) == 1 {
		err = folders[0].settle(s)
	} else {
		var g errgroup.Group
		g.SetLimit(16)
		for _, f := range folders {
			g.Go(func() error { return f.settle(s) })
		}
		err = g.Wait()
	}
	if err != nil { // a sync after a failed one proves nothing
		return s.fail(err)
	}
	return nil
}

// settle syncs the written files together, so that the file system writes its journal once.
func (f *folder) settle(s *storage) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.mu.Lock()
	names := f.names
	var files map[string]bool // an empty one stays the folder's, for holders of the lock
	if len(f.files) > 0 {
		files, f.files = f.files, make(map[string]bool)
	}
	f.names = false
	s.mu.Unlock()
	var err error
	if len(files) == 1 {
		for name := range files {
			err = s.sync(filepath.Join(f.path, name))
		}
	} else {
		var g errgroup.Group
		for name := range files {
			g.Go(func() error { return s.sync(filepath.Join(f.path, name)) })
		}
		err = g.Wait()
	}
	if err == nil && names {
		err = s.sync(f.path)
	}
	return err
}

// sync syncs a file or folder, if it is still there. Without a free descriptor it waits for one.
func (s *storage) sync(path string) error {
	for waited := false; ; waited = true {
		err := syncPath(s.disk, path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile, by retention or with its topic
			return nil
		case err == nil || !noDescriptor(err):
			return err
		case !waited:
			s.logger.Warn("answers wait for a free file descriptor: raise the limit of open files", keyErr, err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-s.done:
			return s.failure()
		}
	}
}

// partitionsIn returns the folders of the partitions that an answer names, or nil if it names topics only by id or
// cannot be read.
func partitionsIn(request pendingRequest, answer []byte) []string {
	resp := readAnswer(request, answer)
	names, named := []string{}, resp != nil
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

// maxPending bounds the requests of a connection whose answers are awaited. A producer that wants no acks gets no
// answers. The answer to a request that was dropped from the list waits for everything.
const maxPending = 16

// pendingRequest is a request without an answer so far.
type pendingRequest struct {
	key     kmsg.Key
	version int16
	number  uint32
}

// answeredBy finds the request of an answer among those of a connection. rest are the requests after it. Earlier
// requests get no answer.
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
