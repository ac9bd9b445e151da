package imagerefs

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestTable takes references, of which some are copies, and stores the table in between.
func TestTable(t *testing.T) {
	for _, firstCopy := range []int{0, 5, 100} {
		table := New(3)
		var want []schemas.ImageRef
		for i := range 20 {
			r := schemas.ImageRef{URI: fmt.Sprintf("file:///%d.tar", i%3), Offset: int64(i) << 40, Size: int64(i + 1)}
			if i >= firstCopy && i%2 == firstCopy%2 {
				r.Copy = schemas.NewImageID([]byte{byte(i)})
			}
			want = append(want, r)
			table.Add(r)
		}
		table.Seal()
		var stored bytes.Buffer
		var again Table
		must.Do(t, gob.NewEncoder(&stored).Encode(table))
		must.Do(t, gob.NewDecoder(&stored).Decode(&again))
		for i, r := range want {
			if got, stored := table.At(i), again.At(i); got != r || stored != r {
				t.Errorf("first copy %d, reference %d: %+v, stored %+v, want %+v", firstCopy, i, got, stored, r)
			}
		}
		if firstCopy == 100 && table.Copies != nil {
			t.Error("a table without copies has room for them")
		}
	}
}
