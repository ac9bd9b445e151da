package model

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// A processor computes as many images as there are, and of a caption no more tokens than the next multiple of
// lengthStep. A program of others, and the operations of a GPU, get full batches of full length.
func TestTheProcessorComputesNoBlanks(t *testing.T) {
	for name, tt := range map[string]struct {
		portable, script bool
		images, texts    [][]int64
	}{
		"own network": {images: [][]int64{{1, 3, 2, 2}}, texts: [][]int64{{2, 4}, {3, 8}, {1, 8}, {1, 10}}},
		"program":     {script: true, images: [][]int64{{3, 3, 2, 2}}, texts: [][]int64{{3, 10}, {3, 10}, {3, 10}}},
		"as on a GPU": {portable: true, images: [][]int64{{3, 3, 2, 2}}, texts: [][]int64{{3, 10}, {3, 10}, {3, 10}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := must.Get(torch.NewWorker(torch.WorkerOptions{Threads: 1, Portable: tt.portable}))(t)
			defer w.Close()
			var images, texts [][]int64
			e := must.Get(newEncoder(t.Context(), w, towers{
				image: func(s *torch.Scope, pixels *torch.Tensor) *torch.Tensor {
					images = append(images, pixels.Shape())
					return s.Zeros(torch.Float32, pixels.Size(0), 1)
				},
				text: func(s *torch.Scope, ids, _ *torch.Tensor) *torch.Tensor {
					texts = append(texts, ids.Shape())
					return s.Reshape(s.To(s.Narrow(ids, 1, 0, 1), torch.Float32), -1, 1)
				},
				tokens: func(caption string) []int32 { // as many as words, the first of which is their number
					ids := make([]int32, max(1, len(strings.Fields(caption))))
					ids[0] = int32(len(ids) * (1 - 2*(len(ids)%2))) // the sign tells even numbers from odd ones
					return ids
				},
				length: 10, script: tt.script, free: func() {},
			}, imaging.Preprocess{Size: 2}, "", 3))(t)
			images, texts = nil, nil
			must.Get(e.EncodeImages(t.Context(), make([]byte, 3*2*2), 1))(t)
			lengths, captions := []int{4, 9, 1, 7, 5, 8, 6}, []string{}
			for _, n := range lengths {
				captions = append(captions, strings.Repeat("a ", n))
			}
			rows := must.Get(e.EncodeTexts(t.Context(), captions))(t)
			for i, n := range lengths {
				if want := float32(1 - 2*(n%2)); rows[i] != want {
					t.Errorf("caption %d of %d tokens has the row %v, want %v", i, n, rows[i], want)
				}
			}
			if !reflect.DeepEqual(images, tt.images) || !reflect.DeepEqual(texts, tt.texts) {
				t.Errorf("images of %v and texts of %v, want %v and %v", images, texts, tt.images, tt.texts)
			}
		})
	}
}

// Con-D's blocks are filled up only where libtorch divides the work by the number of rows.
func TestTheProcessorFillsNoBlocksUp(t *testing.T) {
	for portable, want := range map[bool]int{false: 3, true: 16} {
		w := must.Get(torch.NewWorker(torch.WorkerOptions{Threads: 1, Portable: portable}))(t)
		defer w.Close()
		must.Do(t, w.Do(t.Context(), func(s *torch.Scope) error {
			if got := placesFor(s, 3, 16); got != want {
				t.Errorf("portable %t: %d rows are computed for 3 of a block of 16, want %d", portable, got, want)
			}
			encoded := 0
			err := inTurn(s, 19, func(_ *torch.Scope, at, rows, block int) {
				if encoded += rows; at+rows == 19 && block != want {
					t.Errorf("portable %t: the last block has %d rows, want %d", portable, block, want)
				}
			})
			if encoded != 19 {
				t.Errorf("portable %t: %d rows are encoded, want 19", portable, encoded)
			}
			return err
		}))
	}
}
