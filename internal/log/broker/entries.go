package broker

import (
	"encoding/binary"
	"hash/crc32"
)

// checkEntries checks groups.log or pids.log. An incomplete entry at the end of the file was never acknowledged.
func (s *storage) checkEntries(name string, raw []byte) ([]byte, error) {
	at, what := entriesFlaw(raw)
	switch {
	case what != "":
		return nil, &DamageError{Path: name, At: int64(at), Offset: -1, What: what}
	case at < len(raw):
		return raw[:at], s.cut(name, int64(at))
	}
	return raw, nil
}

// entriesFlaw returns the position after the last whole entry, and the damage there unless it is a cut-off entry. An
// entry is a length, a checksum and the bytes that it covers.
func entriesFlaw(raw []byte) (at int, what string) {
	for at < len(raw) {
		n, whole := entryAt(raw[at:])
		switch {
		case whole:
			at += n
			continue
		case n > 0:
			return at, "an entry does not match its checksum"
		case wholeEntry(raw[at:]), nextEntry(raw[at:]) >= 0: // a wrong length leads past whole entries
			return at, "an entry has a wrong length"
		}
		return at, ""
	}
	return at, ""
}

// entryAt returns the size of the entry at the beginning of raw, 0 if raw ends within it, and whether it matches its
// checksum.
func entryAt(raw []byte) (size int, intact bool) {
	const head, least = 8, 10
	if len(raw) < least {
		return 0, false
	}
	n := int64(binary.LittleEndian.Uint32(raw)) + head
	if n < least || n > int64(len(raw)) {
		return 0, false
	}
	return int(n), crc32.Checksum(raw[head:n], castagnoli) == binary.LittleEndian.Uint32(raw[4:])
}

// wholeEntry reports whether raw is one entry, whatever its length says.
func wholeEntry(raw []byte) bool {
	return len(raw) >= 10 && crc32.Checksum(raw[8:], castagnoli) == binary.LittleEndian.Uint32(raw[4:])
}

// nextEntry returns the position of the next intact entry in raw after its beginning, -1 if there is none.
func nextEntry(raw []byte) int {
	for at := 1; at < len(raw); at++ {
		if _, intact := entryAt(raw[at:]); intact {
			return at
		}
	}
	return -1
}
