package broker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// kfake derives the next offset of a partition from its batches. A partition without batches would restart at offset 0,
// below the offsets that its readers and writers have seen. So an empty segment stays behind after the last one is
// removed. Its name is the next offset.

// keepPlace makes that empty segment before a partition's last segment is removed. It reports whether the segment
// itself has become the empty one.
func (s *storage) keepPlace(name string) (stays bool, err error) {
	base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(name), segmentExt), 10, 64)
	if filepath.Ext(name) != segmentExt || err != nil {
		return false, nil
	}
	p, err := s.partitionAt(filepath.Dir(name))
	if err != nil || len(p.segments) == 0 || p.segments[len(p.segments)-1] != base {
		return false, err
	}
	raw, err := s.disk.ReadFile(name)
	if err != nil {
		return false, err
	}
	at := expected{next: base, holes: true, last: true}
	at.walk(raw, false, func(int64, head) {})
	if at.next == base {
		return true, s.cut(name, 0)
	}
	f, err := s.disk.OpenFile(p.segment(at.next), os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err == nil {
		err = syncPath(s.disk, p.path)
	}
	return false, err
}

// findPlace looks for empty segments. If there are no others, kfake gets the next offset from a snapshot that was never
// written. Empty segments after others are removed, because kfake appends to the last segment that has a batch.
func (s *storage) findPlace(p *partition) error {
	begun := len(p.segments)
	for ; begun > 0; begun-- {
		empty, err := s.isEmpty(p, begun-1)
		if err != nil {
			return err
		}
		if !empty {
			break
		}
	}
	if begun == len(p.segments) {
		return nil
	}
	if begun == 0 {
		begun = 1
		p.segments[0], p.segments[len(p.segments)-1] = p.segments[len(p.segments)-1], p.segments[0]
		s.indexes[filepath.Join(p.path, snapshotFile)] = snapshotAt(p.segments[0])
	}
	for _, base := range p.segments[begun:] {
		if err := s.disk.Remove(p.segment(base)); err != nil {
			return err
		}
	}
	p.segments = p.segments[:begun]
	return nil
}

// isEmpty reports whether a segment has no batch. It removes a half-written only batch, which a kill may leave: kfake
// would take the partition for a new one.
func (s *storage) isEmpty(p *partition, n int) (bool, error) {
	name := p.segment(p.segments[n])
	info, err := s.disk.Stat(name)
	if err != nil || info.Size() == 0 {
		return err == nil, err
	}
	if n > 0 {
		return false, nil
	}
	first, err := s.firstBytes(name)
	if err != nil || len(first) == batchHead && first.size() <= info.Size() {
		return false, err
	}
	raw, err := s.disk.ReadFile(name)
	if err != nil {
		return false, err
	}
	at := expected{next: p.segments[n], holes: p.holes, last: true}
	if flaw := at.walk(raw, false, func(int64, head) {}); flaw == nil || !flaw.torn || flaw.at > 0 {
		return false, nil
	}
	s.logger.Warn(cutOff, keyFile, name, keyByte, int64(0), keyBytes, info.Size())
	return true, s.cut(name, 0)
}

func (s *storage) firstBytes(name string) (head, error) {
	f, err := s.disk.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	first := make(head, batchHead)
	n, err := io.ReadFull(f, first)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return first[:n], errors.Join(err, f.Close())
}

// snapshotAt returns the snapshot that kfake would have written of an empty partition that continues at an offset.
func snapshotAt(offset int64) []byte {
	return fmt.Appendf(nil, `{"version":1,"high_watermark":%[1]d,"last_stable_offset":%[1]d,"log_start_offset":%[1]d,`+
		`"leader_node":-1,"created_at":%[2]q,"segments":[{"base_offset":%[1]d}]}`, offset, time.Now().Format(time.RFC3339Nano))
}
