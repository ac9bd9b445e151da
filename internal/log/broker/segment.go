package broker

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// A segment is a file of consecutive batches, as they came from producers. A batch begins with 61 bytes. These are the
// offsets of their fields.
const (
	batchBase       = 0
	batchLength     = 8 // of the bytes after the length
	batchEpoch      = 12
	batchMagic      = 16
	batchCRC        = 17
	batchAttributes = 21 // the checksum covers the bytes from here on
	batchLastDelta  = 23
	batchCount      = 57
	batchHead       = 61

	attrCodec         = 0x07 // bits of the attributes
	attrLogAppendTime = 0x08
	attrTransaction   = 0x10
	attrControl       = 0x20

	leastRecordBytes = 7 // a record without key, value and headers
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head is the fixed beginning of a batch.
type head []byte

func (h head) base() int64        { return int64(binary.BigEndian.Uint64(h[batchBase:])) }
func (h head) size() int64        { return 12 + int64(binary.BigEndian.Uint32(h[batchLength:])) }
func (h head) epoch() uint32      { return binary.BigEndian.Uint32(h[batchEpoch:]) }
func (h head) attributes() uint16 { return binary.BigEndian.Uint16(h[batchAttributes:]) }
func (h head) count() int32       { return int32(binary.BigEndian.Uint32(h[batchCount:])) }

// next returns the offset after the batch.
func (h head) next() int64 {
	return h.base() + int64(int32(binary.BigEndian.Uint32(h[batchLastDelta:]))) + 1
}

// intact reports whether a whole batch matches its checksum.
func (h head) intact() bool {
	return binary.BigEndian.Uint32(h[batchCRC:]) == crc32.Checksum(h[batchAttributes:], castagnoli)
}

// expected describes a partition before a segment is read.
type expected struct {
	next  int64 // next offset; -1: any
	holes bool  // offsets may be missing: the topic is compacted, or damage was set aside
	last  bool  // it is the last segment
}

// takes reports whether a batch may begin with this offset.
func (p *expected) takes(base int64) bool {
	if p.next < 0 || p.holes {
		return base >= max(p.next, 0)
	}
	return base == p.next
}

// flaw is a position in a segment without a valid batch.
type flaw struct {
	at   int64
	what string
	torn bool // the beginning of a batch that was never completed, and so never acknowledged
}

// walk calls each with the batches of a segment. It returns the flaw at which it stops, or nil at the end. It checks
// heads, and with sums also checksums.
func (p *expected) walk(raw []byte, sums bool, each func(at int64, batch head)) *flaw {
	at, before := int64(0), head(nil)
	for at < int64(len(raw)) {
		rest := head(raw[at:])
		what := ""
		switch whole := int64(len(rest)) >= batchHead; {
		case !whole || rest.size() > int64(len(rest)):
			what = "it ends within a batch"
		case rest.size() < batchHead || rest[batchMagic] != 2:
			what = "there is no batch"
		case !p.takes(rest.base()) || rest.next() <= rest.base():
			what = "the batch has a wrong offset"
		case sums && !rest[:rest.size()].intact():
			what = "the batch does not match its checksum"
		}
		if what != "" {
			if before != nil && !before.intact() { // its length is wrong
				return &flaw{at: at - int64(len(before)), what: "the batch does not match its checksum"}
			}
			return &flaw{at: at, what: what, torn: p.torn(rest)}
		}
		before = rest[:rest.size()]
		each(at, before)
		p.next = before.next()
		at += int64(len(before))
	}
	return nil
}

// torn reports whether a kill or a loss of power has cut the last batch of a segment short. A damaged length looks the
// same, but then a whole batch is there or follows.
func (p *expected) torn(rest head) bool {
	if !p.last {
		return false
	}
	if len(bytes.Trim(rest, "\x00")) == 0 {
		return true // a file system made room, and its bytes did not follow
	}
	switch n := int64(len(rest)); {
	case n > batchMagic && rest[batchMagic] != 2, n >= batchLength && !p.takes(rest.base()):
		return false
	case n >= batchHead && (rest.size() <= n || rest.intact()):
		return false
	}
	return p.resume(rest[1:]) < 0
}

// resume returns the position of the next intact batch, -1 if there is none.
func (p *expected) resume(rest head) int64 {
	for at := int64(0); at+batchHead <= int64(len(rest)); at++ {
		b := rest[at:]
		if b[batchMagic] == 2 && b.base() >= p.next && b.next() > b.base() && b.size() >= batchHead && b.size() <= int64(len(b)) && b[:b.size()].intact() {
			return at
		}
	}
	return -1
}

// index returns kfake's index of a segment, with an entry for each batch. It can be derived from the batches, so the
// broker keeps no index on the disk. An entry is a version, a checksum of the rest, the epoch, a time that kfake
// recomputes, and whether the batch is part of a transaction.
func index(entries []byte, batch head) []byte {
	var e [15]byte
	e[0] = 1
	binary.LittleEndian.PutUint32(e[2:], batch.epoch())
	if batch.attributes()&(attrTransaction|attrControl) == attrTransaction {
		e[14] = 1
	}
	e[1] = byte(crc32.Checksum(e[2:], castagnoli))
	return append(entries, e[:]...)
}
