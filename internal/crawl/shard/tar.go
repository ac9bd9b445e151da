package shard

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
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

// headerFault reports an offset without a sound header. Reading may continue after it.
type headerFault struct {
	offset int64
	reason Reason
	detail string
}

func (f *headerFault) Error() string { return f.detail }

// tarReader iterates over the entries of a tar with their offsets. archive/tar parses the headers, but it reports no
// offsets, stops at a damaged header, and does not distinguish a cut tar from a complete one.
type tarReader struct {
	cur   cursor
	tar   *tar.Reader
	end   int64 // where the previous entry ends, padding included: the next header
	plain bool  // end is certain: archive/tar need not find it
	ended bool
}

func newTarReader(src io.ReaderAt, size int64) *tarReader {
	return &tarReader{cur: cursor{src: src, size: size}, plain: true}
}

// errMarker reports an end marker that another tar follows.
var errMarker = errors.New("an end marker")

// next returns the next entry. Its errors are a *headerFault to report before continuing, errMarker between
// concatenated tars, io.EOF at the end, or a fault of the disk.
func (t *tarReader) next() (entry, error) {
	if t.ended {
		return entry{}, io.EOF
	}
	head := t.end
	if t.plain {
		t.cur.at = min(head, t.cur.size)
		if e, ok := t.plainFile(); ok {
			return t.measured(e), nil
		}
		t.tar = tar.NewReader(&t.cur)
	}
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
		return entry{}, &headerFault{head, ReasonCut, t.damage(head, "the tar ends inside a header")}
	}
	if _, fault := t.resync(head + blockSize); fault != nil {
		return entry{}, fault
	}
	return entry{}, &headerFault{head, ReasonHeader, t.damage(head, "no sound tar header")}
}

// damage describes the fault at an offset. At the start of a compressed file it names the compression.
func (t *tarReader) damage(at int64, otherwise string) string {
	if how := compressionOf(t.cur.src); at == 0 && how != "" {
		return fmt.Sprintf("the tar is compressed (%s): decompress it first", how)
	}
	return otherwise
}

// atEnd classifies an end that archive/tar reports: an end marker, or the end of the file.
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
		return &headerFault{odd, ReasonHeader, "no sound tar header after the tar's end marker"}
	case t.ended:
		return io.EOF
	}
	return errMarker
}

// behindExtension returns nil at an end marker. archive/tar also reports an end if the file ends after headers that
// describe an entry, such as those of long names, without the entry.
func (t *tarReader) behindExtension(head int64) error {
	var last [blockSize]byte
	t.cur.at -= blockSize
	switch _, err := io.ReadFull(&t.cur, last[:]); {
	case t.cur.fault != nil:
		return t.cur.fault
	case err == nil && last != [blockSize]byte{}:
		return &headerFault{head, ReasonCut, "the tar ends after a header that describes an entry"}
	}
	return nil
}

// found describes the entry of a header.
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
	if h.Typeflag == tar.TypeXGlobalHeader {
		e.data = wholeBlocks(e.data) // archive/tar has read its records, and not what fills their last block
	}
	if e.sparse {
		// The declared size includes the holes. The size in the tar is unknown, so the next header may be at any block
		// from here on.
		e.size = 0
	}
	t.plain = !e.sparse
	return t.measured(e)
}

// measured records the end of an entry.
func (t *tarReader) measured(e entry) entry {
	e.present = min(e.size, t.cur.size-e.data)
	t.ended = e.present < e.size
	t.end = e.data + wholeBlocks(e.present)
	return e
}

// wholeBlocks returns the size of the blocks that hold so many bytes.
func wholeBlocks(n int64) int64 { return (n + blockSize - 1) / blockSize * blockSize }

// plainFile reads the header of a regular file that a single block describes, as archive/tar would. At anything else
// it reports false without moving, and archive/tar decides.
//
//	0 name | 100 mode (8), uid (8), gid (8), size (12), mtime (12) | 156 type | 257 magic and version | 329 devices (8, 8) |
//	345 prefix (155), or times of GNU's tar | 508 trailer of star's
func (t *tarReader) plainFile() (entry, bool) {
	block := t.cur.peek(blockSize)
	if block == nil || block[156] != tar.TypeReg || len(text0(block[345:500])) > 0 || string(block[508:]) == "tar\x00" {
		return entry{}, false
	}
	switch string(block[257:265]) {
	case "ustar\x0000":
	case "ustar  \x00":
		if block[345] != 0 || block[357] != 0 {
			return entry{}, false
		}
	default:
		return entry{}, false
	}
	for _, field := range [...][]byte{block[100:108], block[108:116], block[116:124], block[136:148], block[329:337], block[337:345]} {
		if _, ok := octal(field); !ok {
			return entry{}, false
		}
	}
	size, ok := octal(block[124:136])
	if !ok || !soundHeader(block) {
		return entry{}, false
	}
	e := entry{name: string(text0(block[:100])), typeflag: tar.TypeReg, header: t.cur.at, data: t.cur.at + blockSize, size: size}
	t.cur.at += blockSize
	return e, true
}

// text0 returns a field up to its first NUL.
func text0(field []byte) []byte {
	text, _, _ := bytes.Cut(field, zeroBlock[:1])
	return text
}

// octal reads digits that end with NULs or blanks. A field of these alone is 0.
func octal(field []byte) (n int64, ok bool) {
	digits := 0
	for digits < len(field) && field[digits] >= '0' && field[digits] <= '7' {
		n = 8*n + int64(field[digits]-'0')
		digits++
	}
	for _, c := range field[digits:] {
		if c != 0 && c != ' ' {
			return 0, false
		}
	}
	return n, true
}

// read fills buf with the contents of the current entry.
func (t *tarReader) read(buf []byte) error {
	_, err := io.ReadFull(&t.cur, buf)
	return cmp.Or(t.cur.fault, err)
}

// resync finds the next sound header at or after an offset and reads on from there. It returns the offset of the
// first block on the way that does not consist of zeros, -1 if there is none.
func (t *tarReader) resync(from int64) (odd int64, err error) {
	var block [blockSize]byte
	odd, t.cur.at = -1, wholeBlocks(from)
	for {
		at := t.cur.at
		n, err := io.ReadFull(&t.cur, block[:])
		if err == nil && soundHeader(block[:]) {
			t.cur.at, t.end, t.plain = at, at, true
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
	want, err := strconv.ParseInt(string(bytes.Trim(block[148:156], " \x00")), 8, 64)
	sum := int64(8 * ' ')
	for i, b := range block {
		if i < 148 || i >= 156 {
			sum += int64(b)
		}
	}
	return err == nil && sum == want
}

// cursor reads a file through a window and knows its position. It keeps a failure of the file other than its end in
// fault, because archive/tar replaces some errors by its own.
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

// peek returns the next bytes without consuming them, or nil if they are not in the window.
func (c *cursor) peek(n int) []byte {
	if c.fault != nil || c.at >= c.size {
		return nil
	}
	if from := c.at - c.start; from < 0 || from+int64(n) > int64(len(c.window)) {
		if c.fill() != nil {
			return nil
		}
	}
	if from := c.at - c.start; from+int64(n) <= int64(len(c.window)) {
		return c.window[from : from+int64(n)]
	}
	return nil
}

// fill reads the window that begins here.
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

// Seek lets archive/tar skip contents that nothing reads. It stops at the end of the file, and the next Read reports
// it.
func (c *cursor) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekCurrent || offset < 0 {
		return 0, errors.ErrUnsupported
	}
	c.at += min(offset, c.size-c.at)
	return c.at, nil
}
