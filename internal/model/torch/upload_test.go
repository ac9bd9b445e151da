package torch_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// The data belongs to the caller again at once. A loader may fill the same buffer with the next batch while earlier
// ones are under way. The receiver gets each batch as it was.
func TestUploadsKeepWhatTheyWereGiven(t *testing.T) {
	w := newWorker(t, 2)
	before := torch.Live()
	const batches, n = 6, 1000
	buffer := make([]float32, n)
	under := make(chan *torch.Upload, 2) // double buffering: two batches ahead
	var loader sync.WaitGroup
	loader.Go(func() {
		defer close(under)
		for b := range batches {
			for i := range buffer {
				buffer[i] = float32(b*n + i)
			}
			u, err := w.Upload(buffer, 10, n/10)
			if err != nil {
				t.Error(err)
				return
			}
			under <- u
		}
	})
	batch := 0
	for u := range under {
		run(t, w, func(s *torch.Scope) {
			x := s.Receive(u)
			if !slices.Equal(x.Shape(), []int64{10, n / 10}) || x.DType() != torch.Float32 {
				t.Fatalf("shape %v of %s", x.Shape(), x.DType())
			}
			for i, v := range s.AddScalar(x, 0).Float32s() {
				if v != float32(batch*n+i) {
					t.Fatalf("batch %d: value %d is %v", batch, i, v)
				}
			}
		})
		batch++
	}
	loader.Wait()
	if batch != batches {
		t.Errorf("%d batches, want %d", batch, batches)
	}
	if n := torch.Live() - before; n != 0 {
		t.Errorf("%d handles were not given back", n)
	}
}

// Every byte of every channel gets the bits that the formula has, on the device and by the operations that a GPU runs.
// The sizes are of one part and of several, with images that begin within a part.
func TestUploadedImagesAreNormalised(t *testing.T) {
	by := torch.Normalization{Mean: [3]float32{0.48145466, 0.4578275, 0.40821073}, Std: [3]float32{0.26862954, 0.26130258, 0.27577711}}
	for name, o := range torchtest.Ways(torch.WorkerOptions{Threads: 2, Deterministic: true}) {
		w := must.Get(torch.NewWorker(o))(t)
		t.Cleanup(w.Close)
		for _, size := range []struct{ n, side int }{{1, 16}, {2, 17}, {7, 301}, {0, 16}} {
			t.Run(fmt.Sprintf("%s, %d images of %d", name, size.n, size.side), func(t *testing.T) {
				plane := size.side * size.side
				pixels := make([]byte, size.n*3*plane)
				for i := range pixels {
					pixels[i] = byte(i%plane + i/plane)
				}
				before := torch.Live()
				u := must.Get(w.UploadImages(pixels, size.n, size.side, by))(t)
				sent := slices.Clone(pixels)
				clear(pixels) // they are the caller's again
				run(t, w, func(s *torch.Scope) {
					x := s.Receive(u)
					if want := []int64{int64(size.n), 3, int64(size.side), int64(size.side)}; !slices.Equal(x.Shape(), want) || x.DType() != torch.Float32 {
						t.Fatalf("shape %v of %s, want %v", x.Shape(), x.DType(), want)
					}
					for i, got := range x.Float32s() {
						c := i / plane % 3
						want := float32(sent[i]) / 255
						want -= by.Mean[c]
						want /= by.Std[c]
						if math.Float32bits(got) != math.Float32bits(want) {
							t.Fatalf("byte %d of channel %d, at %d, is %v, want %v", sent[i], c, i, got, want)
						}
					}
				})
				if n := torch.Live() - before; n != 0 {
					t.Errorf("%d handles were not given back", n)
				}
			})
		}
	}
}

// Uploads are received in any order, while their worker is busy, and by their owners.
func TestUploadsInAnyOrder(t *testing.T) {
	w := newWorker(t, 1)
	run(t, w, func(s *torch.Scope) {
		var all [3]*torch.Upload
		for i := range all {
			u, err := w.Upload([]float32{float32(i)}, 1) // from inside Do: it does not wait for the worker
			must.Do(t, err)
			all[i] = u
		}
		for _, i := range []int{2, 0, 1} {
			if got := s.Receive(all[i]).Item(); got != float64(i) {
				t.Errorf("upload %d has %v", i, got)
			}
		}
	})
}

func TestUploadsAreGivenBack(t *testing.T) {
	before := torch.Live()
	w := newWorker(t, 1)
	unused := must.Get(w.Upload(nil, 0, 3))(t)
	late := must.Get(w.Upload([]float32{1}, 1))(t)
	w.Close()
	if err := w.Do(context.Background(), func(*torch.Scope) error { return nil }); !errors.Is(err, torch.ErrClosed) {
		t.Fatalf("error %v", err)
	}
	after := must.Get(w.Upload([]float32{2}, 1))(t)
	for _, u := range []*torch.Upload{unused, late, after, unused, nil} {
		u.Free()
	}
	if n := torch.Live() - before; n != 0 {
		t.Errorf("%d handles were not given back", n)
	}
	defer func() {
		if p, ok := recover().(string); !ok || !strings.Contains(p, "received twice, or after it was freed") {
			t.Errorf("panic %v", p)
		}
	}()
	new(torch.Scope).Receive(late)
}

func TestUploadRefuses(t *testing.T) {
	w := newWorker(t, 1)
	for want, shape := range map[string][]int64{"3 values for shape [2]": {2}, "impossible shape": {-1, 3}} {
		if _, err := w.Upload(make([]float32, 3), shape...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
	const want = "11 values for shape [1 3 2 2]"
	if _, err := w.UploadImages(make([]byte, 11), 1, 2, torch.Normalization{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one that says %q", err, want)
	}
}
