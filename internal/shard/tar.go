package shard

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
)

const blockSize = 512

// entry is one member of a tar.
type entry struct {
	name     string
	typeflag byte
	sparse   bool
	header   int64 // offset of its first header block
	data     int64 // offset of its contents
	size     int64 // declared
	present  int64 // bytes of the contents that the tar holds: less than size when it is cut
}

// headerFault says that at an offset there is no sound header; reading may go on behind it.
type headerFault struct {
	offset int64
	reason Reason
	detail string
}

func (f *headerFault) Error() string { return f.detail }

// tarReader iterates over the entries of a tar with their offsets. archive/tar parses the headers; what it does not do
// is tell offsets, go on after a damaged header, and tell a cut tar from a complete one.
type tarReader struct {
	cur   cursor
	tar   *tar.Reader
	end   int64 // where the previous entry ends, padding included: the next header
	ended bool
}

func newTarReader(src io.ReaderAt, size int64) *tarReader {
	t := &tarReader{cur: cursor{src: src, size: size}}
	t.tar = tar.NewReader(&t.cur)
	return t
}

// errMarker says that an end marker was read, and that another tar lies behind it.
var errMarker = errors.New("an end marker")

// next returns the next entry, a *headerFault to be reported before going on, errMarker between tars that were put behind
// one another, io.EOF at the end, or a fault of the disk.
func (t *tarReader) next() (entry, error) {
	if t.ended {
		return entry{}, io.EOF
	}
	head := t.end
	h, err := t.tar.Next()
	switch {
	case t.cur.fault != nil:
		return entry{}, t.cur.fault
	case err == nil, errors.Is(err, tar.ErrInsecurePath):
		return t.found(h, head), nil
	case errors.Is(err, io.EOF):
		return entry{}, t.atEnd(head)
	case errors.Is(err, io.ErrUnexpectedEOF):
		t.ended = true
		return entry{}, &headerFault{head, ReasonCut, "the tar ends inside a header"}
	}
	if _, fault := t.resync(head + blockSize); fault != nil {
		return entry{}, fault
	}
	return entry{}, &headerFault{head, ReasonHeader, "no sound tar header"}
}

// atEnd returns what archive/tar's end is. That is an end marker or the end of the file.
func (t *tarReader) atEnd(head int64) error {
	t.ended = true
	if t.cur.at <= head { // nothing of the end marker was read
		return &headerFault{t.cur.at, ReasonNoEnd, "the tar has no end marker: it may have been cut"}
	}
	if err := t.behindExtension(head); err != nil {
		return err
	}
	t.ended = false
	odd, err := t.resync(t.cur.at)
	switch {
	case err != nil:
		return err
	case odd >= 0:
		return &headerFault{odd, ReasonHeader, "no sound tar header behind the tar's end marker"}
	case t.ended:
		return io.EOF
	}
	return errMarker
}

// behindExtension returns nil at an end marker. archive/tar takes it for an end as well when the file ends behind headers
// that describe an entry, such as those of long names, and the entry is not there.
func (t *tarReader) behindExtension(head int64) error {
	var last [blockSize]byte
	t.cur.at -= blockSize
	switch _, err := io.ReadFull(&t.cur, last[:]); {
	case t.cur.fault != nil:
		return t.cur.fault
	case err == nil && last != [blockSize]byte{}:
		return &headerFault{head, ReasonCut, "the tar ends behind a header that describes an entry"}
	}
	return nil
}

// found describes the entry whose header was just read.
func (t *tarReader) found(h *tar.Header, head int64) entry {
	e := entry{name: h.Name, typeflag: h.Typeflag, header: head, data: t.cur.at, size: h.Size}
	e.sparse = h.Typeflag == tar.TypeGNUSparse
	for key := range h.PAXRecords {
		e.sparse = e.sparse || strings.HasPrefix(key, "GNU.sparse.")
	}
	switch h.Typeflag {
	case tar.TypeLink, tar.TypeSymlink, tar.TypeChar, tar.TypeBlock, tar.TypeDir, tar.TypeFifo, tar.TypeXGlobalHeader:
		e.size = 0 // these may declare a size, but have no contents
	}
	if e.sparse {
		// The declared size is that of the file with its holes. What it takes in the tar is not told, so the next
		// header is only known to lie at or behind this point.
		e.size = 0
	}
	e.present = min(e.size, t.cur.size-e.data)
	t.ended = e.present < e.size
	t.end = e.data + (e.present+blockSize-1)/blockSize*blockSize
	return e
}

// read fills buf with the contents of the current entry.
func (t *tarReader) read(buf []byte) error {
	_, err := io.ReadFull(t.tar, buf)
	if t.cur.fault != nil {
		return t.cur.fault
	}
	return err
}

// resync finds the next sound header at or after a block boundary and reads on from there. It returns the offset of the
// first block on the way that does not consist of zeros, -1 if there is none.
func (t *tarReader) resync(from int64) (odd int64, err error) {
	var block [blockSize]byte
	odd, t.cur.at = -1, from
	for {
		at := t.cur.at
		n, err := io.ReadFull(&t.cur, block[:])
		if err == nil && soundHeader(block[:]) {
			t.cur.at, t.end = at, at
			t.tar = tar.NewReader(&t.cur)
			return odd, nil
		}
		if odd < 0 && !bytes.Equal(block[:n], zeroBlock[:n]) {
			odd = at
		}
		if err != nil {
			t.ended = true
			return odd, t.cur.fault
		}
	}
}

var zeroBlock [blockSize]byte

// soundHeader reports whether a block has the magic of a POSIX or GNU header and its own checksum.
//
//	0 name | 100 mode, uid, gid, size, mtime | 148 checksum (8) | 156 type | 257 "ustar" | ...
func soundHeader(block []byte) bool {
	if string(block[257:262]) != "ustar" {
		return false
	}
	field := string(bytes.Trim(block[148:156], " \x00"))
	want, err := strconv.ParseInt(field, 8, 64)
	if err != nil {
		return false
	}
	sum := int64(8 * ' ')
	for i, b := range block {
		if i < 148 || i >= 156 {
			sum += int64(b)
		}
	}
	return sum == want
}

// cursor reads a file through a window and knows where it is. A failure of the file other than its end is kept in
// fault, because archive/tar does not always pass errors on as they are.
type cursor struct {
	src    io.ReaderAt
	size   int64
	at     int64
	fault  error
	window []byte // bytes of the file from start
	start  int64
	buf    []byte
}

const windowBytes = 256 << 10

// Read implements io.Reader.
func (c *cursor) Read(p []byte) (int, error) {
	if c.fault != nil {
		return 0, c.fault
	}
	if c.at >= c.size {
		return 0, io.EOF
	}
	if c.at < c.start || c.at >= c.start+int64(len(c.window)) {
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.window[c.at-c.start:])
	c.at += int64(n)
	return n, nil
}

func (c *cursor) fill() error {
	if c.buf == nil {
		c.buf = make([]byte, min(windowBytes, c.size))
	}
	n, err := c.src.ReadAt(c.buf[:min(int64(len(c.buf)), c.size-c.at)], c.at)
	c.window, c.start = c.buf[:n], c.at
	if n > 0 {
		return nil
	}
	if errors.Is(err, io.EOF) { // the file shrank while it was read
		c.size = c.at
		return io.EOF
	}
	c.fault = err
	return err
}

// Seek implements io.Seeker, by which archive/tar skips what is not read. It stops at the end of the file, where the
// next Read finds out.
func (c *cursor) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekCurrent || offset < 0 {
		return 0, errors.ErrUnsupported
	}
	c.at += min(offset, c.size-c.at)
	return c.at, nil
}
