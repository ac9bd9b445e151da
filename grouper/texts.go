package grouper

import (
	"strings"

	"github.com/pairstream/pairstream/schemas"
)

// objectText returns the revised text of an image: its objects in ascending order of their nouns, with spaces between
// them. Nouns that no caption has room for are left out; without objects the text is empty.
func objectText(objects []int32, nouns []string) string {
	var b strings.Builder
	for _, o := range objects {
		separator := ""
		if b.Len() > 0 {
			separator = " "
		}
		if noun := nouns[o]; b.Len()+len(separator)+len(noun) <= schemas.MaxCaptionBytes {
			b.WriteString(separator)
			b.WriteString(noun)
		}
	}
	return b.String()
}
