package torch_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pairstream/pairstream/internal/model/torch"
)

// A worker computes a loss and its gradient. Everything that the function makes is freed when it returns.
func Example() {
	worker, err := torch.NewWorker(torch.WorkerOptions{Device: "cpu", Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	err = worker.Do(context.Background(), func(s *torch.Scope) error {
		weights := s.Float32s([]float32{1, 0, 0, 1}, 2, 2)
		weights.SetRequiresGrad(true)
		logits := s.Linear(s.Float32s([]float32{1, 0}, 1, 2), weights, nil)
		loss := s.CrossEntropy(logits, s.Int64s([]int64{0}, 1), -100)
		s.Backward(loss)
		fmt.Printf("loss %.3f, its gradient by the first weight %.3f\n", loss.Item(), s.Grad(weights).Float32s()[0])
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// loss 0.313, its gradient by the first weight -0.269
}

// An operation that fails ends the function, and Do returns the error.
func ExampleWorker_Do() {
	worker, err := torch.NewWorker(torch.WorkerOptions{Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	err = worker.Do(context.Background(), func(s *torch.Scope) error {
		s.Float32s([]float32{1, 2, 3}, 2, 2)
		return nil
	})
	fmt.Println(err)
	// Output:
	// torch: making a float32 tensor: 3 values for shape [2 2]
}
