package replay

import (
	"regexp"
	"strconv"
	"strings"
)

// spooled is the URI of a tar of spooled images: a lane's folder, and the offset of the pair that began the tar.
var spooled = regexp.MustCompile(`^(file://.*)/lane-([0-9]{5,})/([0-9]{20})\.tar$`)

// shift says how offsets of the copied pairs relate to those of the original, from one offset of the copy on.
type shift struct{ copied, original int64 }

// shifts are the shifts of one lane, ascending. There are several if the original has gaps.
type shifts []shift

// original returns the offset in the original of the record at an offset of the copy.
func (s shifts) original(copied int64) int64 {
	at := copied
	for _, x := range s {
		if x.copied > copied {
			break
		}
		at = copied - x.copied + x.original
	}
	return at
}

// places compares references to spooled images.
type places struct {
	namespace string
	lane      int
	shifts    shifts
	moved     int64 // references that are equal but for the folder and the offset
}

// same accepts the URIs of tars that hold the same images.
func (p *places) same(path string, original, replayed any) bool {
	a, aok := original.(string)
	b, bok := replayed.(string)
	if !aok || !bok || path != "uri" && !strings.HasSuffix(path, ".uri") {
		return false
	}
	from, to := spooled.FindStringSubmatch(a), spooled.FindStringSubmatch(b)
	if from == nil || to == nil || from[2] != to[2] || !strings.HasSuffix(to[1], "/"+p.namespace) {
		return false
	}
	lane, lerr := strconv.Atoi(to[2])
	began, aerr := strconv.ParseInt(from[3], 10, 64)
	copied, berr := strconv.ParseInt(to[3], 10, 64)
	if lerr != nil || aerr != nil || berr != nil || lane != p.lane || p.shifts.original(copied) != began {
		return false
	}
	p.moved++
	return true
}
