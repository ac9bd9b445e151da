package schemas

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// placeValues is the number of values that OutPlace has for an image.
const placeValues = 4

// SetOutside writes the equivalent images of other groups, for each member best first.
func (c *NeighborChunk) SetOutside(images [][]Positive) {
	number := make(map[string]int32)
	c.OutEnd, c.OutImages, c.OutPlace, c.OutURIs = make(Int32s, 0, len(images)), nil, nil, nil
	for _, some := range images {
		for _, p := range some {
			object, known := number[p.Image.URI]
			if !known {
				object = int32(len(number))
				number[p.Image.URI] = object
				c.OutURIs = append(append(c.OutURIs, p.Image.URI...), '\n')
			}
			c.OutImages = append(c.OutImages, p.ImageID[:]...)
			c.OutPlace = append(c.OutPlace, object, int32(uint32(p.Image.Offset)), int32(p.Image.Offset>>32), int32(p.Image.Size))
		}
		c.OutEnd = append(c.OutEnd, int32(len(c.OutImages)/16))
	}
	if len(c.OutImages) == 0 {
		c.OutEnd = nil
	}
}

// Outside returns the equivalent images of other groups, for each member best first; nil: there are none.
func (c *NeighborChunk) Outside() [][]Positive {
	if len(c.OutEnd) == 0 {
		return nil
	}
	uris := strings.Split(string(c.OutURIs), "\n")
	all, out, from := make([]Positive, len(c.OutImages)/16), make([][]Positive, 0, len(c.OutEnd)), int32(0)
	for i := range all {
		at := c.OutPlace[placeValues*i:]
		all[i] = Positive{
			ImageID: ImageID(c.OutImages[16*i : 16*i+16]),
			Image:   ImageRef{URI: uris[at[0]], Offset: int64(at[2])<<32 | int64(uint32(at[1])), Size: int64(at[3])},
		}
	}
	for _, end := range c.OutEnd {
		out = append(out, all[from:end:end])
		from = end
	}
	return out
}

func (c *NeighborChunk) validateOutside() error {
	n := len(c.OutImages) / 16
	if len(c.OutImages) != 16*n || len(c.OutPlace) != placeValues*n {
		return invalid("%d bytes of ids of images of other groups, with %d values of places", len(c.OutImages), len(c.OutPlace))
	}
	if want := c.Members(); len(c.OutEnd) != 0 && len(c.OutEnd) != want || len(c.OutEnd) == 0 && n > 0 {
		return invalid("out_end has %d values for %d images, want %d", len(c.OutEnd), n, want)
	}
	from := int32(0)
	for i, end := range c.OutEnd {
		if end < from || int64(end)-int64(from) > int64(c.K1) {
			return invalid("member %d has images %d to %d of other groups, and k1 is %d", i, from, end, c.K1)
		}
		from = end
	}
	if int(from) != n {
		return invalid("%d images of other groups, out_end says %d", n, from)
	}
	objects := bytes.Count(c.OutURIs, []byte{'\n'})
	if len(c.OutURIs) > 0 && c.OutURIs[len(c.OutURIs)-1] != '\n' {
		return invalid("out_uris does not end with a line feed")
	}
	for i := range n {
		if object := c.OutPlace[placeValues*i]; object < 0 || int(object) >= objects {
			return invalid("image %d of other groups is in object %d of %d", i, object, objects)
		}
	}
	for _, some := range c.Outside() {
		for i := range some {
			if err := some[i].validate(); err != nil {
				return fmt.Errorf("an image of other groups: %w", err)
			}
		}
	}
	return c.validateOutNear()
}

func (c *NeighborChunk) validateOutNear() error {
	n := len(c.OutNearCosine)
	if len(c.OutNear) != 16*n || len(c.OutNearTo) != 16*n || n > MaxNear*ChunkMembers {
		return invalid("%d bytes of near-duplicates of other groups, with %d bytes of images and %d cosines", len(c.OutNear), len(c.OutNearTo), n)
	}
	for i := range n {
		if PairID(c.OutNear[16*i:16*i+16]) == (PairID{}) || ImageID(c.OutNearTo[16*i:16*i+16]).IsZero() || !(math.Abs(float64(c.OutNearCosine[i])) <= 1) {
			return invalid("near-duplicate %d of %d of other groups is close by %g", i, n, c.OutNearCosine[i])
		}
	}
	return nil
}
