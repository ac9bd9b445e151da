package model_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"slices"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// A new model of a preset serves as an encoder. Captions and images become unit vectors of one space.
func Example() {
	ctx := context.Background()
	worker, err := torch.NewWorker(torch.WorkerOptions{Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	vocab := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "blue", "circle"}
	config, err := model.Preset("micro", len(vocab))
	if err != nil {
		log.Fatal(err)
	}
	m, err := model.New(ctx, worker, config, 1)
	if err != nil {
		log.Fatal(err)
	}
	m.Vocab = vocab
	encoder, err := model.NewEncoder(ctx, m, 4)
	if err != nil {
		log.Fatal(err)
	}
	defer encoder.Free()
	rows, err := encoder.EncodeTexts(ctx, []string{"a red circle", "a blue circle", "A RED circle"})
	if err != nil {
		log.Fatal(err)
	}
	dim := encoder.Dim()
	red, blue, capital := rows[:dim], rows[dim:2*dim], rows[2*dim:]
	var square float64
	for _, x := range red {
		square += float64(x) * float64(x)
	}
	fmt.Println("values:", dim, "side of an image:", encoder.ImageSize())
	fmt.Printf("length: %.3f\n", math.Sqrt(square))
	fmt.Println("same words, same vector:", slices.Equal(red, capital))
	fmt.Println("other words, same vector:", slices.Equal(red, blue))
	// Output:
	// values: 32 side of an image: 32
	// length: 1.000
	// same words, same vector: true
	// other words, same vector: false
}

// The presets, smallest first; base is the papers' model.
func ExamplePresetNames() {
	fmt.Println(model.PresetNames())
	// Output:
	// [micro tiny small base]
}
