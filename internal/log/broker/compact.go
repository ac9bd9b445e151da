package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kfake compacts a topic in place: it removes the log, and then writes the records to keep. A kill or a full disk
// between the two loses them. So the broker keeps kfake from compacting, and compacts when it starts, before kfake
// reads the log. It writes a smaller segment beside the old one, syncs it, and renames it over the old one. The log is
// whole at every moment, because every record left out of a segment has a later one with the same key.

// cleanerBackoff is the setting of the interval in which kfake compacts, in milliseconds.
const cleanerBackoff = "log.cleaner.backoff.ms"

// withoutCleaner makes kfake wait for centuries before it compacts.
var withoutCleaner = kfake.BrokerConfigs(map[string]string{cleanerBackoff: "9000000000000"})

// guardCleaner refuses requests that would make kfake compact.
func guardCleaner(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.IncrementalAlterConfigs), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req, ok := r.(*kmsg.IncrementalAlterConfigsRequest)
		if !ok || !slices.ContainsFunc(req.Resources, func(r kmsg.IncrementalAlterConfigsRequestResource) bool {
			return slices.ContainsFunc(r.Configs, func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) bool { return c.Name == cleanerBackoff })
		}) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		for _, r := range req.Resources {
			rr := kmsg.NewIncrementalAlterConfigsResponseResource()
			rr.ResourceType, rr.ResourceName, rr.ErrorCode, rr.ErrorMessage = r.ResourceType, r.ResourceName, kerr.InvalidConfig.Code, compactsAtStart()
			resp.Resources = append(resp.Resources, rr)
		}
		return resp, nil, true
	})
	c.ControlKey(int16(kmsg.AlterConfigs), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req, ok := r.(*kmsg.AlterConfigsRequest)
		if !ok || !slices.ContainsFunc(req.Resources, func(r kmsg.AlterConfigsRequestResource) bool { return r.ResourceType == kmsg.ConfigResourceTypeBroker }) {
			return nil, nil, false // of a broker, the request sets what it names and unsets all else
		}
		resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
		for _, r := range req.Resources {
			rr := kmsg.NewAlterConfigsResponseResource()
			rr.ResourceType, rr.ResourceName, rr.ErrorCode, rr.ErrorMessage = r.ResourceType, r.ResourceName, kerr.InvalidConfig.Code, compactsAtStart()
			resp.Resources = append(resp.Resources, rr)
		}
		return resp, nil, true
	})
}

func compactsAtStart() *string {
	text := cleanerBackoff + " cannot be set: the embedded broker compacts when it starts"
	return &text
}

// retentionInterval is the time between two runs of retention.
const retentionInterval = time.Hour

// retain lets kfake remove old segments, which it would otherwise do while compacting.
func (b *Broker) retain() {
	tick := time.NewTicker(retentionInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.cluster.ApplyRetention()
		case <-b.closed:
			return
		}
	}
}

// compactMin is the size below which a log is not compacted.
const compactMin = 1 << 20

// compact removes records of a partition that later records of the same key replace, if those are half of it or more.
// Records of transactions and without a key stay, and so does the last batch, which holds the next offset.
func (s *storage) compact(p *partition, least int64) error {
	var size, kept int64
	for _, base := range p.segments {
		info, err := s.disk.Stat(p.segment(base))
		if err != nil {
			return err
		}
		size += info.Size()
	}
	if size < least {
		return nil
	}
	latest, ok, err := s.latest(p)
	if err != nil || !ok {
		return err
	}
	rewritten := make(map[int64][]byte)
	for _, base := range p.segments {
		out, err := s.compacted(p, base, latest)
		if err != nil {
			return err
		}
		rewritten[base] = out
		kept += int64(len(out))
	}
	if kept > size/2 {
		return nil
	}
	for _, base := range p.segments {
		if err := s.replace(p.segment(base), rewritten[base]); err != nil {
			return fmt.Errorf("compacting %s: %w", p.path, err)
		}
	}
	s.logger.Info("a topic was compacted", keyPartition, p.path, keyBytes, size, keyKept, kept)
	return nil
}

// latest returns the last offset of every key. ok is false for a partition that must not be compacted.
func (s *storage) latest(p *partition) (offsets map[string]int64, ok bool, err error) {
	offsets, ok = make(map[string]int64), true
	for _, base := range p.segments {
		raw, err := s.disk.ReadFile(p.segment(base))
		if err != nil {
			return nil, false, err
		}
		at := expected{holes: true, last: true}
		flaw := at.walk(raw, true, func(_ int64, b head) {
			if ok = ok && b.attributes()&(attrTransaction|attrControl) == 0; !ok {
				return
			}
			records, err := recordsOf(b)
			for _, r := range records {
				if r.Key != nil {
					offsets[string(r.Key)] = b.base() + int64(r.OffsetDelta)
				}
			}
			ok = err == nil
		})
		ok = ok && flaw == nil // kfake reports the flaw
	}
	return offsets, ok, nil
}

func recordsOf(b head) ([]kmsg.Record, error) {
	var batch kmsg.RecordBatch
	if err := batch.ReadFrom(b); err != nil {
		return nil, err
	}
	return kfake.BatchRecords(batch)
}

// compacted returns a segment without the replaced records.
func (s *storage) compacted(p *partition, base int64, latest map[string]int64) ([]byte, error) {
	raw, err := s.disk.ReadFile(p.segment(base))
	if err != nil {
		return nil, err
	}
	var out []byte
	isLast := base == p.segments[len(p.segments)-1]
	at := expected{holes: true, last: true}
	at.walk(raw, false, func(begin int64, b head) {
		if isLast && begin+int64(len(b)) == int64(len(raw)) {
			out = append(out, b...)
			return
		}
		records, rerr := recordsOf(b)
		err = errors.Join(err, rerr)
		kept := slices.DeleteFunc(slices.Clone(records), func(r kmsg.Record) bool {
			return r.Key != nil && latest[string(r.Key)] > b.base()+int64(r.OffsetDelta)
		})
		switch len(kept) {
		case 0:
		case len(records):
			out = append(out, b...)
		default:
			out = appendBatch(out, b, kept)
		}
	})
	return out, err
}

// appendBatch appends a batch with some of its records, uncompressed. Its offsets and times stay.
func appendBatch(out []byte, b head, records []kmsg.Record) []byte {
	begin := len(out)
	out = append(out, b[:batchHead]...)
	for _, r := range records {
		out = r.AppendTo(out)
	}
	batch, be := out[begin:], binary.BigEndian
	be.PutUint32(batch[batchLength:], uint32(len(batch)-12))
	be.PutUint16(batch[batchAttributes:], b.attributes()&^attrCodec)
	be.PutUint32(batch[batchCount:], uint32(len(records)))
	be.PutUint32(batch[batchCRC:], crc32.Checksum(batch[batchAttributes:], castagnoli))
	return out
}

// replace replaces the content of a file atomically, or removes the file if nothing is left.
func (s *storage) replace(name string, content []byte) error {
	if len(content) == 0 {
		return s.Remove(name)
	}
	f, err := s.disk.OpenFile(name+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, s.disk.Remove(name+".tmp"))
	}
	if err := s.disk.Rename(name+".tmp", name); err != nil {
		return err
	}
	return syncPath(s.disk, filepath.Dir(name))
}
