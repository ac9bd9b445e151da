package imaging

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestDecodersShareTheirMemory takes all the memory that decoders may have. Then an image waits until there is room.
func TestDecodersShareTheirMemory(t *testing.T) {
	encoded := must.Get(os.ReadFile("testdata/blocks.jpg"))(t)
	synctest.Test(t, func(t *testing.T) {
		must.Do(t, working.Acquire(context.Background(), MaxWorkBytes))
		var done bool
		var failed error
		go func() {
			failed = Check(encoded)
			done = true
		}()
		synctest.Wait()
		if done {
			t.Error("the image was decoded without room")
		}
		working.Release(MaxWorkBytes)
		synctest.Wait()
		if !done || failed != nil {
			t.Errorf("with room: done is %v, error %v", done, failed)
		}
	})
}

// TestCosts counts everything that lives at the same time: what the decoder takes, what it gives, and copies.
func TestCosts(t *testing.T) {
	const mega = 1_000_000
	for _, c := range []struct {
		name           string
		h              Header
		shrink, factor int
		want           costs
	}{
		{"as it is", Header{Format: "png", WorkBytes: 4 * mega}, 1, 1, costs{first: 7 * mega, judge: 3 * mega, result: 3 * mega}},
		{"averaged", Header{Format: "png", WorkBytes: 4 * mega}, 1, 2, costs{first: 4.75 * mega, judge: 0.75 * mega, result: 0.75 * mega}},
		{"turned", Header{Format: "jpeg", judgeBytes: 2 * mega, orientation: 6}, 1, 1, costs{first: 6 * mega, judge: 8 * mega, result: 3 * mega}},
		{"upright", Header{Format: "jpeg", judgeBytes: 2 * mega, orientation: 1}, 1, 1, costs{first: 3 * mega, judge: 5 * mega, result: 3 * mega}},
		{"shrunk by the decoder", Header{Format: "jpeg", judgeBytes: 2 * mega}, 2, 2, costs{first: 0.75 * mega, judge: 2.75 * mega, result: 0.75 * mega}},
		{"shrunk and averaged", Header{Format: "jpeg", judgeBytes: 2 * mega}, 2, 4, costs{first: 0.9375 * mega, judge: 2.1875 * mega, result: 0.1875 * mega}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.h.Width, c.h.Height = 1000, 1000
			if got := c.h.costs(c.shrink, c.factor); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestStripsAreRefused reads headers alone: the shorter side of a strip cannot be reduced, so the whole stays large.
func TestStripsAreRefused(t *testing.T) {
	frame := func(w, h int) []byte {
		return []byte{
			0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, byte(h >> 8), byte(h), byte(w >> 8), byte(w), 1, 1, 0x11, 0,
			0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0,
		}
	}
	for _, c := range []struct {
		w, h    int
		refused bool
	}{{47_000, 890, true}, {890, 47_000, true}, {12_500, 895, true}, {12_400, 895, false}, {7990, 7990, false}} {
		if _, err := DecodeShrunk(frame(c.w, c.h), 448); errors.Is(err, ErrTooLarge) != c.refused {
			t.Errorf("%d x %d: %v, want that it is refused for its size: %v", c.w, c.h, err, c.refused)
		}
	}
}
