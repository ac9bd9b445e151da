package float16rows_test

import (
	"bytes"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/neighbors/float16rows"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func row(dim, i int) []byte {
	b := make([]byte, 2*dim)
	for j := range dim {
		binary.LittleEndian.PutUint16(b[2*j:], uint16(i*dim+j))
	}
	return b
}

func TestRowsReadBack(t *testing.T) {
	before := float16rows.Live()
	r := must.Get(float16rows.New(3, 5))(t)
	for i := range 3 {
		must.Do(t, r.Append(row(5, i)))
	}
	if r.Len() != 3 || r.Dim() != 5 {
		t.Fatalf("%d rows of %d, want 3 of 5", r.Len(), r.Dim())
	}
	for i, v := range r.Values(3) {
		if v != uint16(i) {
			t.Fatalf("value %d is %d", i, v)
		}
	}
	if err := r.Append(row(5, 3)); err == nil {
		t.Error("a row beyond the capacity was taken")
	}
	must.Do(t, r.Retain().Release())
	if got := float16rows.Live(); got != before+1 {
		t.Errorf("%d matrices live while one reference is held, want %d", got, before+1)
	}
	must.Do(t, r.Release())
	if got := float16rows.Live(); got != before {
		t.Errorf("%d matrices live at the end, want %d", got, before)
	}
}

func TestBadSizes(t *testing.T) {
	for _, c := range [][2]int{{0, 4}, {4, 0}, {-1, 4}} {
		if _, err := float16rows.New(c[0], c[1]); err == nil {
			t.Errorf("New(%d, %d) gave no error", c[0], c[1])
		}
	}
	r := must.Get(float16rows.New(2, 4))(t)
	defer func() { must.Check(t, r.Release()) }()
	if err := r.Append(make([]byte, 7)); err == nil {
		t.Error("a row of 7 bytes was taken for 4 values")
	}
}

func TestReadersSeeWholeRows(t *testing.T) {
	const rows, dim = 2000, 64
	r := must.Get(float16rows.New(rows, dim))(t)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for n := 0; n < rows; n = r.Len() {
				if n == 0 {
					continue
				}
				var want [2 * dim]byte
				copy(want[:], row(dim, n-1))
				last := r.Values(n)[(n-1)*dim:]
				var got [2 * dim]byte
				for j, v := range last {
					binary.LittleEndian.PutUint16(got[2*j:], v)
				}
				if !bytes.Equal(got[:], want[:]) {
					t.Errorf("row %d read while appending differs", n-1)
					return
				}
			}
		})
	}
	for i := range rows {
		if err := r.Append(row(dim, i)); err != nil {
			t.Error(err)
			break
		}
	}
	readers.Wait()
	must.Do(t, r.Release())
}
