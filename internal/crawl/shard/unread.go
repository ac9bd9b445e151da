package shard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Unread is the reason why files are no part of an example, with the remedy.
type Unread string

// Reasons for files that are no problem: a tar may have files that no pair needs.
const (
	UnreadTar    Unread = "tars gave no pair"
	UnreadPacked Unread = "tars are compressed: decompress them first, as references name places in a tar"
	UnreadDots   Unread = "files were ignored for the dots in their names: a key ends at the first dot, so want key.jpg beside key.txt"
	UnreadFormat Unread = "images were ignored, as their format is not read: convert them to JPEG, PNG or WebP, and name .jfif and .jpe .jpg"
	UnreadOther  Unread = "other files were ignored"
)

// Unreads counts unread files by reason, with the first of each.
type Unreads struct {
	Count int
	First string
}

func (t *Totals) unread(why Unread, more Unreads) {
	if t.Unread == nil {
		t.Unread = make(map[Unread]Unreads)
	}
	now := t.Unread[why]
	if now.Count == 0 {
		now.First = cut(more.First, maxEntryBytes+maxDetailBytes)
	}
	now.Count += more.Count
	t.Unread[why] = now
}

// UnreadLines returns a line for each reason why files are no part of an example.
func (t Totals) UnreadLines() (lines []string) {
	for _, why := range slices.Sorted(maps.Keys(t.Unread)) {
		lines = append(lines, fmt.Sprintf("%d %s; the first is %q", t.Unread[why].Count, why, t.Unread[why].First))
	}
	return lines
}

// foreign are the extensions of images in formats that are not read. Files .jfif and .jpe are JPEG under another name.
var foreign = map[string]bool{
	"gif": true, "bmp": true, "tif": true, "tiff": true, "avif": true, "heic": true, "heif": true, "jp2": true, "jxl": true, "svg": true, "ico": true,
	"jfif": true, "jpe": true, "jpg_large": true, "jpeg_large": true,
}

// whyUnread returns the reason why a file is no part of an example.
func whyUnread(key, ext string) Unread {
	last := ext[strings.LastIndexByte(ext, '.')+1:]
	switch {
	case key == "":
	case foreign[last]:
		return UnreadFormat
	case kindOf(last) != other:
		return UnreadDots
	}
	return UnreadOther
}

// whyEmpty explains why a tar has given no pair.
func whyEmpty(src io.ReaderAt) Unread {
	if compressionOf(src) != "" {
		return UnreadPacked
	}
	return UnreadTar
}

// compressions are the first bytes of compressed files.
var compressions = []struct{ head, name string }{
	{"\x1f\x8b", "gzip"}, {"\x28\xb5\x2f\xfd", "zstd"}, {"\xfd7zXZ\x00", "xz"}, {"\x04\x22\x4d\x18", "lz4"}, {"PK\x03\x04", "zip"},
}

// compressionOf returns the compression of a file, or "". A file that cannot be read is reported by its reader.
func compressionOf(src io.ReaderAt) string {
	head := make([]byte, 10)
	n, err := src.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	for _, c := range compressions {
		if bytes.HasPrefix(head[:n], []byte(c.head)) {
			return c.name
		}
	}
	if bytes.HasPrefix(head, []byte("BZh")) && string(head[4:n]) == "1AY&SY" { // a file in a tar may be called BZh
		return "bzip2"
	}
	return ""
}

// isCompressed reports whether a file's name is that of a compressed tar.
func isCompressed(name string) bool {
	name = strings.ToLower(filepath.Base(name))
	for _, end := range []string{".gz", ".zst", ".zstd", ".xz", ".bz2", ".lz4", ".z"} {
		if strings.HasSuffix(name, ".tar"+end) {
			return true
		}
	}
	return slices.Contains([]string{".tgz", ".tzst", ".txz", ".tbz2", ".tbz"}, filepath.Ext(name))
}

var errCompressed = errors.New("it is a compressed tar: decompress it first, as references name places in a tar")
