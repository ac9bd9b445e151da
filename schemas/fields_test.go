package schemas

import (
	"bytes"
	"math"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestPairIsWrittenAsByReflection compares the bytes of a pair with those that the codec makes of the same fields.
func TestPairIsWrittenAsByReflection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maybe := func(label string) bool { return rapid.Bool().Draw(t, label) }
		p := Pair{Caption: rapid.String().Draw(t, "caption")}
		copy(p.ID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		copy(p.ImageID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "image id"))
		whole := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, 1, 127, 128, 255, 256, 1 << 16, 1 << 32, math.MaxInt64, -1, -32, -33, math.MinInt64}))
		if maybe("has an image") {
			p.Image = &ImageRef{URI: rapid.String().Draw(t, "uri"), Offset: whole.Draw(t, "offset"), Size: whole.Draw(t, "size")}
		}
		if maybe("has inline bytes") {
			p.Inline = rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "inline")
		}
		if maybe("has a source") {
			p.Source = rapid.String().Draw(t, "source")
		}
		if maybe("has a time") {
			p.CrawlTime = whole.Draw(t, "crawl time")
		}
		if maybe("has columns") {
			p.Meta = Columns{}
			for name, n := range rapid.MapOfN(rapid.String(), whole, 0, 20).Draw(t, "columns") {
				p.Meta[name] = n
			}
		}
		got, want := encoded(t, p.writeFields), encoded(t, func(e *msgpack.Encoder) error { return e.Encode(&p) })
		if !bytes.Equal(got, want) {
			t.Errorf("%+v\ngot  %x\nwant %x", p, got, want)
		}
	})
}

func encoded(t *rapid.T, write func(*msgpack.Encoder) error) []byte {
	var buf bytes.Buffer
	e := msgpack.NewEncoder(&buf)
	e.UseCompactInts(true)
	must.Do(t, write(e))
	return buf.Bytes()
}
