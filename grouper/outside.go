package grouper

import (
	"github.com/pairstream/pairstream/internal/imagerefs"
	"github.com/pairstream/pairstream/schemas"
)

// outside holds the equivalent images of other groups, as columns that encoding/gob can store.
type outside struct {
	Ends   []int32 // by position: images of a pair are those from Ends[p-1] to Ends[p]; empty: there are none
	Images []byte  // 16 bytes an image: its id
	Refs   imagerefs.Table
}

// add takes those of a chunk, before which others had so many pairs.
func (o *outside) add(c *schemas.NeighborChunk, before int) {
	some := c.Outside()
	if some == nil && len(o.Ends) == 0 {
		return
	}
	for len(o.Ends) < before {
		o.Ends = append(o.Ends, 0)
	}
	for i := range c.Members() {
		if some != nil {
			for _, p := range some[i] {
				o.Images = append(o.Images, p.ImageID[:]...)
				o.Refs.Add(p.Image)
			}
		}
		o.Ends = append(o.Ends, int32(len(o.Images)/16))
	}
}

// of returns the numbers of a pair's images, without those that show the image itself.
func (o *outside) of(p int32, own schemas.ImageID) []int32 {
	if len(o.Ends) == 0 {
		return nil
	}
	var numbers []int32
	from := int32(0)
	if p > 0 {
		from = o.Ends[p-1]
	}
	for i := from; i < o.Ends[p]; i++ {
		if o.id(i) != own {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

func (o *outside) id(i int32) schemas.ImageID { return schemas.ImageID(o.Images[16*i : 16*i+16]) }

func (o *outside) at(i int32) *schemas.Positive {
	return &schemas.Positive{ImageID: o.id(i), Image: o.Refs.At(int(i))}
}
