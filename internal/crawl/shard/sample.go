package shard

import (
	"archive/tar"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/schemas"
)

// flush hands out the example of the current key, or its problems.
func (s *scanner) flush() error {
	cur := s.cur
	s.cur = sample{}
	if cur.key == "" {
		return nil
	}
	if s.v.Picture != nil || s.v.Classed != nil {
		return s.picture(cur)
	}
	row := s.rowOf(cur.key)
	captions := distinct(append(cur.textCaption, cur.metaCaption...))
	if len(captions) == 0 && !cur.lostCaptions {
		captions = rowCaption(row)
	}
	if cur.found > MaxCaptions {
		detail := fmt.Sprintf("%d captions under one key, only the first %d are taken", cur.found, MaxCaptions)
		if err := s.reject(cur, caption{reason: ReasonMany, detail: detail}); err != nil {
			return err
		}
	}
	reason, detail := imageFault(cur.image)
	if reason == "" {
		reason, detail = statusFault(cur, row)
	}
	var good []string
	for _, c := range captions {
		if c.reason == "" && reason != "" {
			c.reason, c.detail = reason, detail
		}
		if c = s.copied(c); c.reason == "" {
			good = append(good, c.text)
			continue
		}
		if err := s.reject(cur, c); err != nil {
			return err
		}
	}
	if len(captions) == 0 {
		return s.captionless(cur, reason, detail)
	}
	if len(good) == 0 {
		return nil
	}
	ref, id := s.imageRef(cur.image)
	if !s.share.HasImage(id) {
		s.undrawn++
		return nil
	}
	s.totals.Examples++
	s.totals.Pairs += len(good)
	ex := Example{Key: cur.key, Image: *ref, ImageID: id, Encoded: s.image, Captions: good, Row: row, described: cur.described}
	if cur.described != nil {
		ex.Meta = cur.described.raw
	}
	return s.v.Example(ex)
}

// picture hands out the current image, without captions, and with its class where that is asked for.
func (s *scanner) picture(cur sample) error {
	if cur.image == nil {
		return nil // a class or a caption by itself
	}
	if reason, detail := imageFault(cur.image); reason != "" {
		return s.reject(cur, caption{reason: reason, detail: detail})
	}
	ref, id := s.imageRef(cur.image)
	if !s.share.HasImage(id) {
		return nil
	}
	p := Picture{Entry: cur.image.name, Image: *ref, ImageID: id, Encoded: s.image}
	if s.v.Picture != nil {
		return s.v.Picture(p)
	}
	return s.v.Classed(s.classed(p, cur))
}

// captionless reports an image without any caption, good or bad. Captions that could not be read have been reported.
func (s *scanner) captionless(cur sample, reason Reason, detail string) error {
	switch {
	case cur.image == nil:
		if cur.meta != nil {
			s.totals.Ignored++ // a key.json that describes no pair
		}
		return nil
	case reason == "" && cur.lostCaptions:
		return nil
	case reason == "":
		reason, detail = ReasonNoCaption, "no caption belongs to the image"
	}
	return s.reject(cur, caption{reason: reason, detail: detail})
}

// reject reports one caption of a key, with its image where there is one.
func (s *scanner) reject(cur sample, c caption) error {
	p := Problem{Offset: cur.first.header, Entry: cur.first.name, Reason: c.reason, Detail: c.detail, Caption: c.text}
	if cur.image != nil {
		p.Offset, p.Entry = cur.image.header, cur.image.name
		if p.Image, p.ImageID = s.imageRef(cur.image); c.reason == ReasonStatus {
			p.Image = nil // image and caption are sound: with both, a reader would take the record for a pair
		}
	}
	return s.report(p)
}

// imageRef returns the reference to the current key's image and the hash of its bytes, as far as the tar has them. An
// image that is too large was not read and has no hash.
func (s *scanner) imageRef(e *entry) (*schemas.ImageRef, schemas.ImageID) {
	ref := &schemas.ImageRef{URI: cmp.Or(s.imageURI, s.uri), Offset: e.data, Size: e.size}
	if e.size > schemas.MaxImageBytes {
		return ref, schemas.ImageID{}
	}
	return ref, schemas.NewImageID(s.image)
}

// imageFault returns why a key's image cannot be used.
func imageFault(e *entry) (Reason, string) {
	switch {
	case e == nil:
		return ReasonNoImage, "no image belongs to the caption"
	case e.size == 0:
		return ReasonEmpty, "the image has no bytes"
	case e.size > schemas.MaxImageBytes:
		return ReasonOversize, fmt.Sprintf("an image of %d bytes, at most %d are allowed", e.size, schemas.MaxImageBytes)
	case e.present < e.size:
		return ReasonCut, cutDetail(*e)
	}
	return "", ""
}

// refuse returns why an entry must not be used, whatever its name.
func refuse(e entry) (Reason, string) {
	switch {
	case e.sparse:
		return ReasonType, "sparse files have no contiguous bytes to refer to"
	case e.typeflag != tar.TypeReg:
		return ReasonType, fmt.Sprintf("entry of type %q, only regular files are read", e.typeflag)
	}
	name := strings.ReplaceAll(e.name, `\`, "/")
	if strings.HasPrefix(name, "/") {
		return ReasonName, "the name is absolute"
	}
	if slices.Contains(strings.Split(name, "/"), "..") {
		return ReasonName, errParent.Error()
	}
	return "", ""
}

// splitName parts an entry's name at the first dot of its last element: "a/b.seg.PNG" has the key "a/b" and the
// extension "seg.png". Names without either have no key.
func splitName(name string) (key, ext string) {
	name = strings.TrimPrefix(name, "./")
	dir, base := path.Split(name)
	stem, ext, found := strings.Cut(base, ".")
	if !found || stem == "" {
		return "", ""
	}
	return dir + stem, strings.ToLower(ext)
}

// fileKind is the role of an entry in an example.
type fileKind int

const (
	other fileKind = iota
	picture
	text
	meta
	class
)

func kindOf(ext string) fileKind {
	switch ext {
	case "jpg", "jpeg", "png", "webp":
		return picture
	case "txt":
		return text
	case "json":
		return meta
	}
	return other
}

// Pairs returns a pair for every caption of an example, in the captions' order, ready to be published.
func Pairs(ex Example) []*schemas.Pair {
	meta := ex.described
	if meta == nil {
		meta = describe(ex.Meta)
	}
	source, columns := sourceOf(ex, meta), columnsOf(meta.members, ex.Row)
	out := make([]*schemas.Pair, 0, len(ex.Captions))
	for _, text := range ex.Captions {
		image := ex.Image
		out = append(out, &schemas.Pair{
			ID:      schemas.NewPairID(ex.ImageID, text),
			ImageID: ex.ImageID,
			Image:   &image,
			Caption: text,
			Source:  source,
			Meta:    columns,
		})
	}
	return out
}
